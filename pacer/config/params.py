"""The whole of ``params.yaml``, validated before any work starts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import model_validator

from pacer.config.anchors import Anchors, Emphasis
from pacer.config.backbones import Backbones, Features
from pacer.config.corpus import Corpus
from pacer.config.decode import Decode, Score
from pacer.config.model import Commit, Interface, Lora, Prompt, Refine, Trajectory
from pacer.config.strict import Strict, read_params, validated
from pacer.config.training import Batches, Calibrate, Parent, Schedule, Train
from pacer.core.errors import DataError
from pacer.core.io import Locks


class Params(Strict):
    """The whole of ``params.yaml``, with the checks across groups."""

    corpus: Corpus
    backbones: Backbones
    features: Features
    anchors: Anchors
    emphasis: Emphasis
    prompt: Prompt
    trajectory: Trajectory
    commit: Commit
    refine: Refine
    interface: Interface
    lora: Lora
    train: Train
    batches: Batches
    warmup: Schedule
    parent: Parent
    calibrate: Calibrate
    decode: Decode
    score: Score
    locks: Locks = "auto"

    @model_validator(mode="after")
    def _across(self) -> Self:
        tokens, marked = self.backbones.language_standin.vocabulary, self.corpus.phantom.vocabulary
        trained_here = self.backbones.language.provider in ("bundled", "standin")
        if trained_here and self.backbones.train_on == self.corpus.source == "phantom" and tokens != marked:
            raise ValueError(
                f"backbones.language_standin.vocabulary ({tokens}) must equal corpus.phantom.vocabulary ({marked}): "
                "emphasis marks in the corpus depend on this vocabulary"
            )
        if self.decode.split == "all":
            raise ValueError("decode.split = 'all' is only for `pacer decode`; the pipeline decodes test or val")
        listed = self.decode.commitment == "read" or "gold_list" in self.decode.controls
        if listed and self.commit.route == "direct":
            raise ValueError(
                "decode.commitment = 'read' and the control gold_list need a model that is trained to write from a "
                "commitment, but commit.route = 'direct' trains none; set decode.commitment: generated, and leave "
                "gold_list out of decode.controls"
            )
        if self.decode.risk.promised and self.train.checkpoint == "best":
            raise ValueError(
                "decode.risk needs train.checkpoint = 'last': 'best' selects the weights on the val split, on which "
                "the threshold is calibrated"
            )
        if "sn" not in self.corpus.contexts:
            raise ValueError("corpus.contexts must contain sn, on which the warm-up trains")
        if others := set(self.parent.contexts or ()) - set(self.corpus.contexts):
            raise ValueError(f"parent.contexts has {', '.join(sorted(others))}, but corpus.contexts does not")
        return self


def load_params(path: str | Path = "params.yaml") -> Params:
    """Read and validate a complete parameter file, as :func:`~pacer.config.strict.read_params` does."""
    return read_params(path, Params)


def parse_params(raw: dict[str, Any], origin: str = "params") -> Params:
    """Validate a plain dictionary, as :func:`~pacer.config.strict.validated` does."""
    return validated(raw, origin, Params)


def check_splits(contexts: Mapping[str, Mapping[str, Mapping[str, Any]]], params: Params) -> None:
    """Raise a DataError, before features are computed, if a split that a later stage needs has no record; ``contexts``
    has the counts by context and split, as in the corpus's audit."""
    present = {(c, split) for c, splits in contexts.items() for split in splits if splits[split]["records"]}
    needed = [("train", "the phases train on")]
    if params.train.checkpoint == "best":
        needed.append(("val", "train.checkpoint = 'best' needs"))
    for split, why in needed:
        if ("sn", split) not in present:
            raise DataError(
                f"split {split}, which {why}, has no records for context sn; fix the corpus's splits or corpus.split"
                f"{', or set train.checkpoint: last' if split == 'val' else ''}. "
                "To only evaluate a trained model, use `pacer audit`, `decode` and `score` (README)"
            )
    if not any(split == params.decode.split for _, split in present):
        raise DataError(f"split {params.decode.split} has no records; choose a different decode.split")
