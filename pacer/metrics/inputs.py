"""What scoring reads and how it counts: the objects that go through it together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class GroupTable:
    """``columns`` by which scores are shown, of a table with a row (or several that agree) for each patient, study or
    record; its ``column`` has what the records' ``id`` has."""

    file: str
    id: Literal["subject_id", "study_id", "record_id"]
    column: str
    columns: list[str]


@dataclass(frozen=True)
class ScoreSettings:
    """How reports are scored: the group ``score`` of ``params.yaml``.

    ``convention``: how CheXbert classes become present or absent. ``originals``: what is done to original references
    (:data:`~pacer.metrics.scoring.ORIGINALS`). ``batch_size``: reports of one labeller pass. ``precision``: of its
    arithmetic (:class:`~pacer.metrics.chexbert.labeller.CheXbert`). ``external``: commands of scorers by name, and the
    ``external_minutes`` that each call of one may take (:mod:`pacer.metrics.external_scorers`). ``groups``: a table by
    whose columns the scores are shown too.
    """

    convention: str = "llm-rg4"
    originals: str = "upstream"
    batch_size: int = 64
    precision: str = "float32"
    external: Mapping[str, str] = field(default_factory=dict)
    external_minutes: float = 60.0
    groups: GroupTable | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ScoreSettings:
        """From the group's plain values."""
        groups = values["groups"]
        settings = cls(**{name: value for name, value in values.items() if name != "groups"})
        return replace(settings, groups=None if groups is None else GroupTable(**groups))


#: The paper's convention, and references as the records have them.
DEFAULTS = ScoreSettings()


@dataclass(frozen=True)
class ScoreInputs:
    """What reports are scored with: ``chexbert``, the folder of the labeller, and three files that may be absent.

    ``labels``: CheXbert labels of the references; ``None``: labelled now. ``anchors``: reference anchors; ``None``: the
    rules read ``report_raw``. ``truth``: latent findings of every study, ``None`` for corpora without.
    """

    chexbert: Path
    labels: Path | None = None
    anchors: Path | None = None
    truth: Path | None = None


@dataclass(frozen=True)
class Origin:
    """Where references and reports come from, for the signature.

    ``files``: name -> file that was read (``None``: computed on the spot). ``about``: how the references were made.
    ``made``: the manifest beside the predictions, or ``None``. ``protocol``: how other systems' reports were read and
    changed before scoring; ``None`` for predictions of the pipeline.
    """

    files: Mapping[str, Path | None]
    about: Mapping[str, Any]
    made: Mapping[str, Any] | None = None
    protocol: Mapping[str, Any] | None = None

    @property
    def decoding(self) -> Mapping[str, Any]:
        """How the reports were searched for, as far as their manifest says."""
        return (self.made or {}).get("settings") or {}

    @property
    def max_new_tokens(self) -> int | None:
        return self.decoding.get("max_new_tokens")
