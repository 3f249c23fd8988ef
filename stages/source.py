"""Stage `source`: the raw corpus, generated in MIMIC-RG4's layout, or a pointer to files that stay
in place."""

from pathlib import Path

from pacer.config import load_params
from pacer.core.io import atomic_directory
from pacer.corpus.source import point_to_files
from pacer.phantom.generate import generate_phantom


def main() -> None:
    corpus = load_params().corpus
    with atomic_directory(Path("data/source")) as out:
        if corpus.source == "phantom":
            generate_phantom(corpus.phantom, corpus.seed, out)
        else:
            point_to_files(corpus, out)
