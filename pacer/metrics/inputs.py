"""The inputs of scoring and where they come from, besides the group ``score`` of ``params.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pacer.config.decode import Score
from pacer.core.errors import ConfigError

#: The paper's convention, and references as the records have them.
DEFAULTS = Score(convention="llm-rg4", originals="upstream", batch_size=64, precision="float32", columns=None)


@dataclass(frozen=True)
class ScoreInputs:
    """What reports are scored with: ``chexbert``, the folder of the labeller (``None``: no scores of labels), and three
    files that may be absent.

    ``labels``: CheXbert labels of the references; ``None``: labelled now. ``anchors``: reference anchors; ``None``: the
    rules read ``report_raw``. ``truth``: latent findings of every study, ``None`` for corpora without.
    """

    chexbert: Path | None
    labels: Path | None = None
    anchors: Path | None = None
    truth: Path | None = None

    def __post_init__(self) -> None:
        """Raises a :class:`ConfigError` where labels are asked for without a labeller."""
        if self.chexbert is None and (self.labels or self.truth):
            raise ConfigError("labels of the references and scores against the truth need a labeller: give --chexbert")


@dataclass(frozen=True)
class Origin:
    """Where references and reports come from, for the signature.

    ``files``: name -> file that was read (``None``: computed on the spot). ``about``: how the references were made.
    ``manifest``: of the predictions, or ``None``. ``protocol``: how other systems' reports were read and
    changed before scoring; ``None`` for predictions of the pipeline.
    """

    files: Mapping[str, Path | None]
    about: Mapping[str, Any]
    manifest: Mapping[str, Any] | None = None
    protocol: Mapping[str, Any] | None = None

    @property
    def decoding(self) -> Mapping[str, Any]:
        """How the reports were searched for, as far as their manifest says."""
        return (self.manifest or {}).get("settings") or {}
