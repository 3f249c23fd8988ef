"""Commands in README.md, CONTRIBUTING.md and docs/ exist: subcommands and options, targets, scripts, parameters.

Commands within a sentence may lack arguments; those in blocks of shell are whole.
"""

import itertools
import re
import shlex
from collections.abc import Iterator

import pytest
from ruamel.yaml import YAML
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from pacer.cli.command import app
from tests.support.cli import REPOSITORY

PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
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
    """Page and words of every simple command of shell; variables and substitutions stay as they are."""
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
    """The command behind settings such as ``NAME=value``; the name alone of one in a virtual environment."""
    rest = words[next((n for n, word in enumerate(words) if "=" not in word), len(words)) :]
    return [rest[0].rpartition("/")[2], *rest[1:]] if rest else []


def read(pattern: str) -> list[tuple[str, list[str]]]:
    return [(page, command) for page, words in documented(pattern) if (command := without_variables(words))]


WHOLE = read(BLOCK)
COMMANDS = WHOLE + read(SPAN)


def named(name: str, commands: list[tuple[str, list[str]]] = COMMANDS) -> list[tuple[str, list[str]]]:
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
            yield (*names, name), {option for parameter in command.params for option in parameter.opts}


def test_pacer_has_the_commands_and_options() -> None:
    known = dict(commands(get_command(app)))
    for page, arguments in named("pacer", COMMANDS[len(WHOLE) :]):
        options = [options for names, options in known.items() if list(names) == arguments[: len(names)]]
        assert options and {word for word in arguments if word.startswith("-")} <= options[0], (page, arguments)
    alone = {(page.name, name) for page in PAGES for name in re.findall(r"`(--[a-z-]+)(?![a-z{-])", page.read_text())}
    assert {(page, name) for page, name in alone if name not in set().union(*known.values())} <= OTHERS


def test_the_help_of_every_command_fits_a_screen() -> None:
    for names, _ in commands(get_command(app)):
        told = CliRunner().invoke(app, [*names, "--help"], env={"COLUMNS": "100"}).output.splitlines()
        assert len(told) <= 40 and max(map(len, told)) <= 100, names


def test_targets_of_make_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    used = {word for _, words in named("make") for word in words if "=" not in word}
    assert used and used <= set(targets)


def test_scripts_exist() -> None:
    used = {words[0] for _, words in named("python") if words[0].endswith(".py")}
    assert used and all((REPOSITORY / script).is_file() for script in used)


def test_parameters_and_stages_of_dvc_exist() -> None:
    read = YAML(typ="safe").load
    params = read((REPOSITORY / "params.yaml").read_text())
    stages = set(read((REPOSITORY / "dvc.yaml").read_text())["stages"])
    keys, targets = set(), set()
    for page, words in named("dvc"):
        for option, value in itertools.pairwise(words):
            if option == "-S":
                keys.add((page, value.partition("=")[0]))
        if words[0] == "repro" or words[:2] == ["exp", "run"]:
            values = {value for option, value in itertools.pairwise(words) if option in ("-S", "-n", "-j")}
            plain = [word for word in words[1 if words[0] == "repro" else 2 :] if not word.startswith("-")]
            targets |= {(page, word) for word in plain if word not in values}
    for page, key in keys:
        value = params
        for part in key.split("."):
            assert part in value, f"{page}: params.yaml has no {key}"
            value = value[part]
    assert {target for _, target in targets} <= stages
