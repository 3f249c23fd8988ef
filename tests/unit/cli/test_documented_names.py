"""Names in README.md, CONTRIBUTING.md and docs/ exist: links, files, definitions, stages, parameters, identifiers.

A name is code between single backticks; ``test_documented_commands.py`` reads the commands.
"""

import re
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pacer.metrics.scores import SCORES
from tests.support.cli import REPOSITORY
from tests.unit.cli.test_documented_commands import PAGES

#: Names that others gave, to columns, variables and files; the paper's symbols.
FOREIGN = {"d_a", "d_g", "NAME_n", "OMP_WAIT_POLICY", "hardlink_lock", "model_prediction", "test_res", "test_refs"}
#: Files that the user or another system makes.
GIVEN = {"mine.yaml", "columns.csv", "config.json", "vocab.txt", "res.csv", "gts.csv", "test_refs.json"}
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
    (page, line, each) for page, line in LINES for name in re.findall(r"`([^`]+)`", line) for each in alternatives(name)
]


@pytest.fixture(scope="module")
def words() -> set[str]:
    """All words, in small letters, of code and settings but for this test, whose lists need not be true."""
    own = Path(__file__).relative_to(REPOSITORY).as_posix()
    kinds = {".py", ".yaml", ".toml", ".tsv", ".md", ".html", ".js", ""}
    chosen = [name for name in TRACKED if name.startswith(CODE) and Path(name).suffix in kinds and name != own]
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
                headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE) if anchor else []
                if not file.is_file() or (anchor and anchor not in map(slug, headings)):
                    lost.append((page, target))
    assert lost == []


def is_tracked(path: str) -> bool:
    """Whether a path, a glob or the end of a path names a file or folder that git tracks."""
    pattern = re.compile(rf"(.*/)?{re.escape(path.rstrip('/')).replace(re.escape('*'), '[^/]*')}(/.*)?")
    return any(pattern.fullmatch(tracked) for tracked in TRACKED)


def test_files_exist(words: set[str]) -> None:
    """A file is tracked, or on a line with the commit that has it, or the code writes it and so has its name."""
    lost = []
    for page, line, name in NAMES:
        for path in re.findall(rf"(?<![\w/<.…])[\w.*-][\w./*-]*(?:{SUFFIX}\b|/(?=$|\s))", name):
            if path in GIVEN or is_tracked(path):
                continue
            commits = re.findall(r"\b(?=[a-f]*\d)[0-9a-f]{7}\b", line)
            if path.startswith(CODE) and commits:
                known = not HISTORY or any(git("cat-file", "-e", f"{commit}:{path}") for commit in commits)
            else:
                last = re.findall(r"[^\W_]\w*", path.rstrip("/").rpartition("/")[2].lower())
                known = words.issuperset(last) and not path.endswith(".py")
            lost += [] if known else [(page, path)]
    assert lost == []


def test_parameters_exist() -> None:
    read = YAML(typ="safe").load
    profiles = ("params.yaml", "baselines/params.yaml", *(name for name in TRACKED if name.startswith("configs/")))
    params = [read((REPOSITORY / name).read_text()) for name in profiles]
    lost = []
    for page, _, name in NAMES:
        key = re.split(r"[:=]", name)[0]
        found = [known for known in params if key.partition(".")[0] in known]
        if found and re.fullmatch(r"\w+(\.[\w*]+)+", key) and not re.search(rf"{SUFFIX}$", key):
            for part in key.split("."):
                pattern = re.compile(part.replace("*", r"\w*"))
                below = [known.items() for known in found if isinstance(known, dict)]
                found = [value for items in below for child, value in items if pattern.fullmatch(child)]
            lost += [] if found else [(page, key)]
    assert lost == []


def test_stages_exist() -> None:
    stages = set(YAML(typ="safe").load((REPOSITORY / "dvc.yaml").read_text())["stages"])
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
