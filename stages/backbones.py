"""Stage `backbones`: the frozen models, each in the format of the published model or as a pointer
with hashes."""

from pathlib import Path

from pacer.backbones.make_backbones import make_backbones
from pacer.config import load_params
from pacer.core.io import atomic_directory


def main() -> None:
    with atomic_directory(Path("models/backbones")) as directory:
        make_backbones(load_params(), Path("models/standins"), directory)
