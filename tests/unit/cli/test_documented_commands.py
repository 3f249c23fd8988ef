"""Commands in the blocks of shell of README.md, CONTRIBUTING.md and docs/ can be run as they
stand."""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from pacer.cli.command import app
from pacer.core.io import parse_yaml
from tests.support.cli import REPOSITORY
from tests.support.profiles import yaml_of

PAGES = [REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md")]
PAGES += sorted((REPOSITORY / "docs").glob("*.md"))
SEPARATORS = {"|", "&&", "&", ";", ">", "<"}


def commands() -> Iterator[tuple[str, list[str]]]:
    """Page and words of every simple command, without settings such as ``NAME=value`` before it."""
    for page in PAGES:
        for block in re.findall(r"```bash\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
                lexer.whitespace_split = True
                words: list[str] = []
                for word in [*lexer, ";"]:
                    if word in SEPARATORS:
                        if words:
                            yield page.name, words
                        words = []
                    elif words or "=" not in word:
                        words.append(word)


def named(name: str) -> list[tuple[str, list[str]]]:
    """Page and arguments of the commands with this name, also below a virtual environment."""
    return [(page, words[1:]) for page, words in commands() if words[0].rpartition("/")[2] == name]


@pytest.mark.parametrize(("page", "arguments"), named("pacer"), ids=lambda value: str(value))
def test_pacer_takes_the_arguments(page: str, arguments: list[str]) -> None:
    command, context = get_command(app), None
    while isinstance(command, TyperGroup):
        context = command.make_context("pacer", list(arguments), parent=context)
        name, command, arguments = command.resolve_command(context, arguments)
        assert command is not None, f"{page}: pacer has no command {name}"
    command.make_context("pacer", list(arguments), parent=context)


def test_make_has_the_targets() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    used = {word for _, words in named("make") for word in words if "=" not in word}
    assert used and used <= targets


def test_dvc_has_the_parameters() -> None:
    params = parse_yaml(yaml_of("phantom"))
    settings = [
        (page, value.partition("=")[0])
        for page, words in named("dvc")
        for option, value in pairwise(words)
        if option == "-S"
    ]
    assert settings
    for page, key in settings:
        group = params
        for part in key.split("."):
            assert part in group, f"{page}: params.yaml has no {key}"
            group = group[part]


def test_scripts_exist() -> None:
    scripts = {words[0] for _, words in named("python") if words[0].endswith(".py")}
    assert all((REPOSITORY / script).is_file() for script in scripts)
