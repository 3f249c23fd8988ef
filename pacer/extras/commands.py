"""The commands of this package, which the command line adds to its own."""

from collections.abc import Callable, Mapping

import typer

from pacer.extras.certify.command import certify
from pacer.extras.llm_rg4.command import import_llm_rg4
from pacer.extras.probe.command import probe
from pacer.extras.studies.command import study

#: Groups of commands, such as ``pacer probe make``.
GROUPS: Mapping[str, typer.Typer] = {"certify": certify, "probe": probe, "study": study}
#: Single commands.
COMMANDS: Mapping[str, Callable[..., None]] = {"import-llm-rg4": import_llm_rg4}
