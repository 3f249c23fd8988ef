"""One context's texts, labels and scores row by row, and ``cases.parquet``, where each record has a row.

The file holds what other evaluation packages read (``reference``, ``hypothesis``) and what `pacer compare` resamples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from pacer.commitments.anchor import POLARITIES
from pacer.metrics.lines import has_breaks, single_line
from pacer.metrics.nlg import LanguageScores
from pacer.metrics.pairing import Prediction

#: Name of the one context of reports of which it is not known what the model was given.
UNKNOWN = "all"
#: Name of the row that averages the contexts.
MEAN = "mean"

Lists = dict[str, list[str]]


@dataclass
class Scored:
    """One context, all lists row by row the same records. The texts to score, ``references`` and ``hypotheses``, are in
    one line each.

    ``anchors``: reference commitments. ``read``: what the rules read in the generated reports. ``*_labels``: CheXbert
    classes ``[n, 14]``, ``None`` without a labeller. ``*_wording``: rules of comparison that fire in each report.
    ``columns``: those of ``score.columns``. ``unchanged``: is a report the same as with a control's sources? ``train``:
    the texts of the training split; ``None``: not known.
    """

    records: pl.DataFrame
    predictions: list[Prediction]
    controls: dict[str, list[Prediction]]
    anchors: list[Lists]
    read: list[Lists] = field(default_factory=list)
    reference_labels: np.ndarray | None = None
    labels: np.ndarray | None = None
    control_labels: dict[str, np.ndarray] = field(default_factory=dict)
    reference_wording: list[tuple[str, ...]] = field(default_factory=list)
    wording: list[tuple[str, ...]] = field(default_factory=list)
    language: LanguageScores | None = None
    columns: pl.DataFrame = field(default_factory=pl.DataFrame)
    unchanged: dict[str, list[bool]] = field(default_factory=dict)
    train: frozenset[str] | None = None

    @property
    def ids(self) -> list[str]:
        return self.records["record_id"].to_list()

    @property
    def studies(self) -> list[str | None]:
        """None where it is not known."""
        return self.records["study_id"].to_list()

    @property
    def references(self) -> list[str]:
        return list(map(single_line, self.records["report"].to_list()))

    @property
    def originals(self) -> list[str | None]:
        """Untouched findings sections; None where there is none."""
        return self.records["findings_original"].to_list()

    @property
    def hypotheses(self) -> list[str]:
        return [single_line(prediction.report) for prediction in self.predictions]

    @property
    def line_breaks(self) -> dict[str, int]:
        """How many texts of each side arrived with line breaks; empty where none did."""
        sides = {
            "references": self.records["report"].to_list(),
            "hypotheses": [prediction.report for prediction in self.predictions],
        }
        found = {side: sum(map(has_breaks, texts)) for side, texts in sides.items()}
        return found if any(found.values()) else {}


_TEXTS = pl.List(pl.String)
#: Columns that every ``cases.parquet`` has.
COLUMNS: dict[str, pl.DataType] = {
    **dict.fromkeys(("record_id", "context", "study_id", "subject_id"), pl.String()),
    **dict.fromkeys(("reference", "hypothesis", "findings_original"), pl.String()),
    **dict.fromkeys(("reference_labels", "hypothesis_labels"), pl.List(pl.Int64)),
    **{f"{side}_{polarity}": _TEXTS for side in ("anchor", "reference", "report") for polarity in POLARITIES},
    **dict.fromkeys(("reference_wording", "hypothesis_wording"), _TEXTS),
    "gate": pl.Float64(),
    **dict.fromkeys(("fallback", "unclosed"), pl.Boolean()),
    "tokens": pl.Int64(),
    **dict.fromkeys(("rougeL", "meteor"), pl.Float64()),
    "meteor_statistics": pl.List(pl.Float64),
}
#: Columns of the records by which the cases can be grouped, where the records have them.
_GROUPED = ("view", "sections", "prior_days")


def case_table(contexts: Mapping[str, Scored], truths: Mapping[str, Sequence[list[str]]] | None) -> pl.DataFrame:
    """One row a record: ids, texts, labels, language scores, commitments, wording, gate, fallback, latent findings, and
    CheXbert's labels of the report of each control (``{control}_labels``, null where it was not run), whether that is
    the same report, and whether texts are copied from the training split."""
    tables = [_case_table(name, scored, truths[name] if truths else None) for name, scored in contexts.items()]
    return pl.concat(tables, how="diagonal")


def _case_table(name: str, scored: Scored, truth: Sequence[list[str]] | None) -> pl.DataFrame:
    language, predictions = scored.language, scored.predictions
    assert language is not None
    generated = [prediction.anchor for prediction in predictions]
    lists = {"anchor": generated, "reference": scored.anchors, "report": scored.read}
    columns = {
        "record_id": scored.ids,
        "context": [name] * len(scored.ids),
        "study_id": scored.studies,
        "subject_id": scored.records["subject_id"].to_list(),
        "reference": scored.references,
        "hypothesis": scored.hypotheses,
        "findings_original": scored.originals,
        "reference_labels": _rows(scored.reference_labels, scored),
        "hypothesis_labels": _rows(scored.labels, scored),
        "rougeL": language.rouge,
        "meteor": language.meteor,
        "meteor_statistics": language.meteor_statistics,
        **{
            f"{side}_{polarity}": [None if anchor is None else anchor[polarity] for anchor in anchors]
            for side, anchors in lists.items()
            for polarity in POLARITIES
        },
        "reference_wording": [list(rules) for rules in scored.reference_wording],
        "hypothesis_wording": [list(rules) for rules in scored.wording],
        **{
            name: [getattr(prediction, name) for prediction in predictions]
            for name in ("gate", "fallback", "unclosed", "tokens")
        },
    }
    columns |= (
        {}
        if scored.train is None
        else {
            "reference_copied": [text in scored.train for text in scored.references],
            "hypothesis_copied": [text in scored.train for text in scored.hypotheses],
        }
    )
    table = pl.DataFrame(columns, schema_overrides=COLUMNS).with_columns(
        *(pl.Series(f"{name}_unchanged", same) for name, same in scored.unchanged.items()),
        *(
            pl.Series(f"{name}_labels", labels.tolist(), dtype=COLUMNS["hypothesis_labels"])
            for name, labels in scored.control_labels.items()
        ),
        *(column for column in scored.records if column.name in _GROUPED),
        *scored.columns,
    )
    return table if truth is None else table.with_columns(pl.Series("truth", truth, dtype=_TEXTS))


def _rows(labels: np.ndarray | None, scored: Scored) -> list[list[int] | None]:
    return [None] * len(scored.ids) if labels is None else labels.tolist()


def own_columns(contexts: Mapping[str, Scored]) -> set[str]:
    """Names that a column of the cases may have by itself, so that none of ``score.columns`` may."""
    controls = {control for scored in contexts.values() for control in scored.controls}
    of_controls = {f"{control}_{what}" for control in controls for what in ("labels", "unchanged")}
    return {*COLUMNS, *_GROUPED, *of_controls, "truth", "reference_copied", "hypothesis_copied"}
