"""The options of all commands, from ``options.yaml``."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from pacer.core.io import yaml_beside

#: Any: the type checker does not know the types that are read when the program runs.
_annotated: Any = Annotated
_OPTIONS = yaml_beside(__file__, "options.yaml")


def described(name: str, command: Callable[..., None]) -> Callable[..., None]:
    """Give the parameters of a command the texts and settings of ``options.yaml``; ``name``: the
    command as it is typed, such as ``probe make``."""
    hints = get_type_hints(command)
    for parameter in inspect.signature(command).parameters:
        entry = _OPTIONS.get(name, {}).get(parameter) or _OPTIONS["all"][parameter]
        settings = {"help": entry} if isinstance(entry, str) else dict(entry)
        flag = settings.pop("flag", f"--{parameter.replace('_', '-')}")
        if settings.pop("argument", False):
            described_as = typer.Argument(**settings)
        else:
            described_as = typer.Option(flag, **settings)
        hints[parameter] = _annotated[hints[parameter], described_as]
    command.__annotations__ = hints
    return command
