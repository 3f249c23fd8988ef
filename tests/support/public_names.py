"""The public names: what `import pacer` offers, the methods of a Reporter, and the commands.

``python -m tests.support.public_names`` writes them into the snapshot beside the test.
"""

import inspect
from collections.abc import Callable, Iterator
from functools import cached_property

from typer.core import TyperGroup
from typer.main import get_command

import pacer
from pacer.cli.command import app
from tests.support.repository import ROOT

SNAPSHOT = ROOT / "tests" / "unit" / "cli" / "public_names.txt"


def function(name: str, value: Callable) -> Iterator[str]:
    """The name and its parameters, one a line; types are left out, as Python versions write them
    differently."""
    yield name
    for parameter in inspect.signature(value).parameters.values():
        if parameter.name == "self":
            continue
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
        line = f"  {stars.get(parameter.kind, '')}{parameter.name}"
        if isinstance(parameter.default, str | int | float | bool | tuple | None):
            line += f" = {parameter.default!r}"
        elif parameter.default is not parameter.empty:
            line += f" = {type(parameter.default).__name__}(...)"
        yield line + " (by name)" * (parameter.kind is parameter.KEYWORD_ONLY)


def members(name: str, kind: type) -> Iterator[str]:
    """A class's constructor, methods and properties that are public."""
    yield from function(name, kind)
    for member, value in sorted(vars(kind).items()):
        if member.startswith("_") and member != "__call__":
            continue
        if inspect.isfunction(value):
            yield from function(f"{name}.{member}", value)
        elif isinstance(value, property | cached_property):
            yield f"{name}.{member} (a property)"


def of_python() -> Iterator[str]:
    for name in sorted(pacer.__all__):
        value = getattr(pacer, name)
        if isinstance(value, type):
            yield from members(name, value)
        else:
            yield from function(name, value)


def of_commands(group: object, *names: str) -> Iterator[str]:
    """Each command with its arguments, and its options, one a line."""
    assert isinstance(group, TyperGroup)
    for name, command in sorted(group.commands.items()):
        if isinstance(command, TyperGroup):
            yield from of_commands(command, *names, name)
            continue
        options = [one for one in command.params if one.param_type_name == "option"]
        arguments = [
            one.name.upper() if one.required else f"[{one.name.upper()}]"
            for one in command.params
            if one.param_type_name == "argument" and one.name
        ]
        yield " ".join(["pacer", *names, name, *arguments])
        for option in options:
            spelt = "/".join([*option.opts, *option.secondary_opts])
            yield f"  {spelt}{' (required)' if option.required else ''}"


def public_names() -> str:
    return "\n".join([*of_python(), "", *of_commands(get_command(app))]) + "\n"


if __name__ == "__main__":
    SNAPSHOT.write_text(public_names(), encoding="utf-8")
