"""Stage `corpus`: records, images and the audit, from the annotation files."""

from pathlib import Path

from pacer.core.config import load_params
from pacer.core.errors import run_cleanly
from pacer.corpus.build import build_corpus


def main() -> None:
    build_corpus(load_params().corpus, Path("data/source"), Path("data/corpus"))


if __name__ == "__main__":
    run_cleanly(main)
