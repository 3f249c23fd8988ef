"""Stage `corpus`: records, images and the audit, from the annotation files."""

from pathlib import Path

from pacer.config.params import check_splits, load_params
from pacer.corpus.build_corpus import build_corpus


def main() -> None:
    params = load_params()
    audit = build_corpus(params.corpus, Path("data/source"), Path("data/corpus"))
    # checks settings of later stages; dvc.yaml does not declare them here, because no output
    # depends on them
    check_splits(audit["contexts"], params)
