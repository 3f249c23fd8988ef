"""Stage `corpus`: records, images and the audit, from the annotation files."""

from pathlib import Path

from pacer.core.config import load_params
from pacer.core.errors import run_cleanly
from pacer.core.io import whole_directory
from pacer.corpus.build import build_corpus


def main() -> None:
    corpus = load_params().corpus
    with whole_directory(Path("data/corpus")) as out:
        build_corpus(corpus, Path("data/source"), out)


if __name__ == "__main__":
    run_cleanly(main)
