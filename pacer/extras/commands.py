"""The commands of this package, which the command line adds to its own."""

from collections.abc import Callable, Mapping

from pacer.extras.certify import command as certify
from pacer.extras.llm_rg4.command import import_llm_rg4
from pacer.extras.probe import command as probe
from pacer.extras.studies import command as study

#: Groups of commands, such as ``pacer probe make``, and their help.
GROUPS: Mapping[str, str] = {
    "certify": "Find out what a metric sees, misses and punishes for nothing "
    "(docs/certificate.md).",
    "probe": "Test which inputs a system uses (docs/probe.md).",
    "study": "Make tables of experiments: many runs, and one table of their results "
    "(docs/experiments.md).",
}
#: Commands by their names.
COMMANDS: Mapping[str, Callable[..., None]] = {
    "certify make": certify.make,
    "certify score": certify.score,
    "probe make": probe.make,
    "probe score": probe.score,
    "study run": study.run,
    "study show": study.show,
    "import-llm-rg4": import_llm_rg4,
}
