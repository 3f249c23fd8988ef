"""Stage `corpus`: records, images and the audit, from the annotation files."""

from pathlib import Path

from pacer.core.errors import run_cleanly
from pacer.corpus.build_corpus import build_corpus
from pacer.params import load_params


def main() -> None:
    build_corpus(load_params().corpus, Path("data/source"), Path("data/corpus"))


if __name__ == "__main__":
    run_cleanly(main)
