"""The whole of ``params.yaml``: every key, its type, its range, and the checks across keys.

All values are validated before any work starts. Keys are explained in ``params.yaml``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import model_validator

from pacer.config.anchors import Anchors
from pacer.config.backbones import Backbones
from pacer.config.corpus import Corpus
from pacer.config.decode import Decode
from pacer.config.emphasis import Emphasis
from pacer.config.features import Features
from pacer.config.model import Commit, Interface, Lora, Prompt, Refine, Trajectory
from pacer.config.score import Score
from pacer.config.strict import Strict, read_params, validated
from pacer.config.training import Batches, Calibrate, Parent, Train, Warmup


class Params(Strict):
    """The whole of ``params.yaml``."""

    if_missing = "; correct the path, or write params.yaml with `pacer use NAME` (`pacer use` lists the profiles)"
    if_incomplete = "; compare with configs/phantom.yaml, which has every key, or write a profile with `pacer use NAME`"

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
    warmup: Warmup
    parent: Parent
    calibrate: Calibrate
    decode: Decode
    score: Score

    @model_validator(mode="after")
    def _across(self) -> Params:
        width = self.backbones.vision_standin.width
        if self.backbones.vision.provider in ("bundled", "standin") and width % self.interface.num_heads:
            raise ValueError(f"interface.num_heads ({self.interface.num_heads}) must divide the vision width ({width})")
        own, world = self.backbones.language_standin.vocabulary, self.corpus.phantom.vocabulary
        made = self.backbones.language.provider in ("bundled", "standin") and self.backbones.train_on == "phantom"
        if self.corpus.source == "phantom" and made and own != world:
            raise ValueError(
                f"backbones.language_standin.vocabulary ({own}) must equal corpus.phantom.vocabulary ({world}): "
                "the corpus marks emphasised tokens with that tokenizer"
            )
        if self.decode.split == "all":
            raise ValueError(
                "decode.split = 'all' is for `pacer decode --split all`; the pipeline, which trains on split train, "
                "decodes test or val"
            )
        if "sn" not in self.corpus.contexts:
            raise ValueError("corpus.contexts must contain sn: the warm-up trains on it")
        if others := set(self.parent.contexts or ()) - set(self.corpus.contexts):
            raise ValueError(f"parent.contexts has {', '.join(sorted(others))}, but corpus.contexts does not")
        return self


def load_params(path: str | Path = "params.yaml") -> Params:
    """Read and validate a parameter file, as :func:`~pacer.config.strict.read_params` does."""
    return read_params(path, Params)


def parse_params(raw: dict[str, Any], origin: str = "params") -> Params:
    """Validate a plain dictionary, as :func:`~pacer.config.strict.validated` does."""
    return validated(raw, origin, Params)
