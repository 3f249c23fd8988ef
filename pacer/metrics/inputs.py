"""Inputs of scoring and their origin, other than the group ``score`` of ``params.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pacer.config.decode import Score
from pacer.core.errors import ConfigError

#: Default settings: the paper's convention, and original findings cleaned by ``upstream``.
DEFAULTS = Score(convention="llm-rg4", originals="upstream", batch_size=64, precision="float32", columns=None)


@dataclass(frozen=True)
class ScoreInputs:
    """Files used for scoring. ``chexbert``: the folder of the labeller; ``None``: no scores of labels. All others are
    optional.

    ``labels``: CheXbert labels of the references; ``None``: labelled on the spot. ``anchors``: reference anchors;
    ``None``: the rules read ``report_raw``. ``truth``: latent findings of every study; ``None``: there are none.
    """

    chexbert: Path | None
    labels: Path | None = None
    anchors: Path | None = None
    truth: Path | None = None

    def __post_init__(self) -> None:
        """Raise a :class:`ConfigError` if labels or truth are given without a labeller."""
        if self.chexbert is None and (self.labels or self.truth):
            raise ConfigError("labels of the references and scores against the truth need a labeller: give --chexbert")


@dataclass(frozen=True)
class Origin:
    """Origin of references and reports, for the signature.

    ``files``: name -> file that was read (``None``: computed on the spot). ``about``: how the references were made.
    ``manifest``: the manifest of the predictions, or ``None``. ``protocol``: how other systems' reports were read and
    changed before scoring; ``None`` for predictions of the pipeline.
    """

    files: Mapping[str, Path | None]
    about: Mapping[str, Any]
    manifest: Mapping[str, Any] | None = None
    protocol: Mapping[str, Any] | None = None

    @property
    def decoding(self) -> Mapping[str, Any]:
        """The decoding settings in the manifest; empty if there are none."""
        return (self.manifest or {}).get("settings") or {}
