"""What README.md, CONTRIBUTING.md and docs/ name exists: commands, links, files, definitions,
parameters, identifiers.

Commands within a sentence may lack arguments; those in blocks of shell are whole. A name is code
between single backticks.
"""

import itertools
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from pacer.cli.command import app
from pacer.core.io import parse_yaml
from pacer.metrics.scores import SCORES
from tests.support.cli import REPOSITORY

PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
    *sorted((REPOSITORY / "docs").glob("*.md")),
]
#: Options of DVC, accelerate, container engines and scorers/radeval.py.
OTHERS = {
    ("experiments.md", "--local"),
    ("pipeline.md", "--allow-missing"),
    ("pipeline.md", "--user"),
    ("serving.md", "--remote"),
    ("serving.md", "--remote-config"),
    ("training.md", "--cpu"),
    ("evaluation.md", "--metrics"),
}
SEPARATORS = {"|", "&&", "&", ";", ">", "<"}


BLOCK = r"```bash\n(.*?)```"
SPAN = r"(?<!`)`((?:[A-Z_]+=\S+ )?(?:pacer|make|dvc|python) [^`\n]+)`"


def documented(pattern: str) -> Iterator[tuple[str, list[str]]]:
    """Page and words of every simple command of shell; variables and substitutions stay as they
    are."""
    for page in PAGES:
        for block in re.findall(pattern, page.read_text(encoding="utf-8"), re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                words: list[str] = []
                lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
                lexer.whitespace_split = True
                for word in [*lexer, ";"]:
                    if word not in SEPARATORS:
                        words.append(word)
                    elif words:
                        yield page.name, words
                        words = []


def without_variables(words: list[str]) -> list[str]:
    """The command behind settings such as ``NAME=value``; the name alone of one in a virtual
    environment."""
    rest = words[next((n for n, word in enumerate(words) if "=" not in word), len(words)) :]
    return [rest[0].rpartition("/")[2], *rest[1:]] if rest else []


def read(pattern: str) -> list[tuple[str, list[str]]]:
    return [
        (page, command)
        for page, words in documented(pattern)
        if (command := without_variables(words))
    ]


WHOLE = read(BLOCK)
COMMANDS = WHOLE + read(SPAN)


def named(
    name: str, commands: list[tuple[str, list[str]]] = COMMANDS
) -> list[tuple[str, list[str]]]:
    return [(page, command[1:]) for page, command in commands if command[0] == name]


def identify(value: object) -> str:
    return " ".join(value) if isinstance(value, list) else str(value)


@pytest.mark.parametrize(("page", "arguments"), named("pacer", WHOLE), ids=identify)
def test_pacer_takes_the_arguments(page: str, arguments: list[str]) -> None:
    command, context = get_command(app), None
    while isinstance(command, TyperGroup):
        context = command.make_context("pacer", list(arguments), parent=context)
        name, command, arguments = command.resolve_command(context, arguments)
        assert command is not None, f"{page}: pacer has no command {name}"
    command.make_context("pacer", list(arguments), parent=context)


def commands(group: object, *names: str) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Names and options of every command."""
    assert isinstance(group, TyperGroup)
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, *names, name)
        else:
            yield (
                (*names, name),
                {option for parameter in command.params for option in parameter.opts},
            )


def test_pacer_has_the_commands_and_options() -> None:
    known = dict(commands(get_command(app)))
    for page, arguments in named("pacer", COMMANDS[len(WHOLE) :]):
        options = [
            options for names, options in known.items() if list(names) == arguments[: len(names)]
        ]
        assert options and {word for word in arguments if word.startswith("-")} <= options[0], (
            page,
            arguments,
        )
    alone = {
        (page.name, name)
        for page in PAGES
        for name in re.findall(r"`(--[a-z-]+)(?![a-z{-])", page.read_text())
    }
    assert {
        (page, name) for page, name in alone if name not in set().union(*known.values())
    } <= OTHERS


def test_the_help_of_every_command_fits_a_screen() -> None:
    for names, _ in commands(get_command(app)):
        told = (
            CliRunner().invoke(app, [*names, "--help"], env={"COLUMNS": "100"}).output.splitlines()
        )
        assert len(told) <= 40 and max(map(len, told)) <= 100, names


def test_targets_of_make_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    used = {word for _, words in named("make") for word in words if "=" not in word}
    assert used and used <= set(targets)


def test_scripts_exist() -> None:
    used = {words[0] for _, words in named("python") if words[0].endswith(".py")}
    assert used and all((REPOSITORY / script).is_file() for script in used)


def test_parameters_and_stages_of_dvc_exist() -> None:
    params = parse_yaml((REPOSITORY / "params.yaml").read_text())
    stages = set(parse_yaml((REPOSITORY / "dvc.yaml").read_text())["stages"])
    keys, targets = set(), set()
    for page, words in named("dvc"):
        for option, value in itertools.pairwise(words):
            if option == "-S":
                keys.add((page, value.partition("=")[0]))
        if words[0] == "repro" or words[:2] == ["exp", "run"]:
            values = {
                value for option, value in itertools.pairwise(words) if option in ("-S", "-n", "-j")
            }
            plain = [
                word
                for word in words[1 if words[0] == "repro" else 2 :]
                if not word.startswith("-")
            ]
            targets |= {(page, word) for word in plain if word not in values}
    for page, key in keys:
        value = params
        for part in key.split("."):
            assert part in value, f"{page}: params.yaml has no {key}"
            value = value[part]
    assert {target for _, target in targets} <= stages


#: Names that others gave, to columns, variables and files; the paper's symbols.
FOREIGN = {
    "d_a",
    "d_g",
    "NAME_n",
    "OMP_WAIT_POLICY",
    "hardlink_lock",
    "model_prediction",
    "test_res",
    "test_refs",
}
#: Files that the user or another system makes.
GIVEN = {
    "mine.yaml",
    "columns.csv",
    "config.json",
    "vocab.txt",
    "res.csv",
    "gts.csv",
    "test_refs.json",
}
GIVEN |= {"section_parser.py"}
CODE = ("pacer/", "stages/", "scorers/", "bench/", "tests/", "configs/", "studies/", "baselines/")
SETTINGS = ("dvc.yaml", "Makefile", "pyproject.toml", "params.yaml")
SUFFIX = r"\.(?:py|yaml|jsonl?|csv|tsv|parquet|md|html|safetensors|toml|txt|png|pt)"


def git(*arguments: str) -> bool:
    return subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True).returncode == 0


TRACKED = subprocess.check_output(["git", "ls-files"], cwd=REPOSITORY, text=True).splitlines()
HISTORY = git("cat-file", "-e", "1271a7b")  # not a shallow clone


def prose(page: Path) -> list[str]:
    """The lines of a page outside blocks of code, without formulas."""
    text = re.sub(r"\$`.*?`\$", "", page.read_text(encoding="utf-8"))
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE).splitlines()


LINES = [(page.relative_to(REPOSITORY).as_posix(), line) for page in PAGES for line in prose(page)]


def alternatives(name: str) -> list[str]:
    """``a.{b,c}`` as ``a.b`` and ``a.c``."""
    found = re.search(r"\{([\w,]+)\}", name)
    return [name.replace(found[0], part) for part in found[1].split(",")] if found else [name]


NAMES = [
    (page, line, each)
    for page, line in LINES
    for name in re.findall(r"`([^`]+)`", line)
    for each in alternatives(name)
]


@pytest.fixture(scope="module")
def words() -> set[str]:
    """All words, in small letters, of code and settings but for this test, whose lists need not be
    true."""
    own = Path(__file__).relative_to(REPOSITORY).as_posix()
    kinds = {".py", ".yaml", ".toml", ".tsv", ".md", ".html", ".js", ""}
    chosen = [
        name
        for name in TRACKED
        if name.startswith(CODE) and Path(name).suffix in kinds and name != own
    ]
    text = "\n".join(
        [
            *((REPOSITORY / name).read_text(encoding="utf-8") for name in (*chosen, *SETTINGS)),
            *(score.key for score in SCORES),
        ]
    )
    return set(re.findall(r"\w+", text.lower())) | {Path(name).stem.lower() for name in TRACKED}


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_links_lead_somewhere() -> None:
    lost = []
    for page, line in LINES:
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            path, _, anchor = target.partition("#")
            file = (REPOSITORY / page).parent / path if path else REPOSITORY / page
            if not target.startswith("http"):
                headings = (
                    re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
                    if anchor
                    else []
                )
                if not file.is_file() or (anchor and anchor not in map(slug, headings)):
                    lost.append((page, target))
    assert lost == []


def is_tracked(path: str) -> bool:
    """Whether a path, a glob or the end of a path names a file or folder that git tracks."""
    pattern = re.compile(
        rf"(.*/)?{re.escape(path.rstrip('/')).replace(re.escape('*'), '[^/]*')}(/.*)?"
    )
    return any(pattern.fullmatch(tracked) for tracked in TRACKED)


def test_files_exist(words: set[str]) -> None:
    """A file is tracked, or on a line with the commit that has it, or the code writes it and so has
    its name."""
    lost = []
    for page, line, name in NAMES:
        for path in re.findall(rf"(?<![\w/<.…])[\w.*-][\w./*-]*(?:{SUFFIX}\b|/(?=$|\s))", name):
            if path in GIVEN or is_tracked(path):
                continue
            commits = re.findall(r"\b(?=[a-f]*\d)[0-9a-f]{7}\b", line)
            if path.startswith(CODE) and commits:
                known = not HISTORY or any(
                    git("cat-file", "-e", f"{commit}:{path}") for commit in commits
                )
            else:
                last = re.findall(r"[^\W_]\w*", path.rstrip("/").rpartition("/")[2].lower())
                known = words.issuperset(last) and not path.endswith(".py")
            lost += [] if known else [(page, path)]
    assert lost == []


def test_parameters_exist() -> None:
    profiles = (
        "params.yaml",
        "baselines/params.yaml",
        *(name for name in TRACKED if name.startswith("configs/")),
    )
    params = [parse_yaml((REPOSITORY / name).read_text()) for name in profiles]
    lost = []
    for page, _, name in NAMES:
        key = re.split(r"[:=]", name)[0]
        found = [known for known in params if key.partition(".")[0] in known]
        if found and re.fullmatch(r"\w+(\.[\w*]+)+", key) and not re.search(rf"{SUFFIX}$", key):
            for part in key.split("."):
                pattern = re.compile(part.replace("*", r"\w*"))
                below = [known.items() for known in found if isinstance(known, dict)]
                found = [
                    value for items in below for child, value in items if pattern.fullmatch(child)
                ]
            lost += [] if found else [(page, key)]
    assert lost == []


def test_stages_exist() -> None:
    stages = set(parse_yaml((REPOSITORY / "dvc.yaml").read_text())["stages"])
    named = {stage for _, line in LINES for stage in re.findall(r"\b[Ss]tage `(\w+)`", line)}
    assert named and named <= stages


def test_identifiers_exist(words: set[str]) -> None:
    """Words that can only be code: with an underscore, or a capital after a small letter."""
    lost = []
    for page, _, name in NAMES:
        if "/" not in name:  # paths have their test, repositories are not ours
            for word in re.findall(r"[A-Za-z]\w*[A-Za-z0-9]", name):
                if (
                    ("_" in word or re.search(r"[a-z][A-Z]", word))
                    and word.lower() not in words
                    and word not in FOREIGN
                ):
                    lost.append((page, word))
    assert lost == []
