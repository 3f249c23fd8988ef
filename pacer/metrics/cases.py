"""One context's texts, labels and scores row by row, and ``cases.parquet``, where each record has a row.

The file holds what other evaluation packages read (``reference``, ``hypothesis``) and what `pacer compare` resamples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from pacer.metrics.lines import has_breaks, joined
from pacer.metrics.nlg import LanguageScores
from pacer.metrics.pairing import Prediction
from pacer.metrics.polarity import STATES

POLARITIES = STATES[:3]

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
    classes ``[n, 14]``. ``*_wording``: rules of comparison that fire in each report.
    """

    records: pl.DataFrame
    predictions: list[Prediction]
    controls: dict[str, list[Prediction]]
    anchors: list[Lists]
    read: list[Lists] = field(default_factory=list)
    reference_labels: np.ndarray = field(default_factory=lambda: np.empty(0))
    labels: np.ndarray = field(default_factory=lambda: np.empty(0))
    control_labels: dict[str, np.ndarray] = field(default_factory=dict)
    reference_wording: list[tuple[str, ...]] = field(default_factory=list)
    wording: list[tuple[str, ...]] = field(default_factory=list)
    language: LanguageScores | None = None

    @property
    def ids(self) -> list[str]:
        return self.records["record_id"].to_list()

    @property
    def studies(self) -> list[str | None]:
        """None where it is not known."""
        return self.records["study_id"].to_list()

    @property
    def references(self) -> list[str]:
        return list(map(joined, self.records["report"].to_list()))

    @property
    def originals(self) -> list[str | None]:
        """Untouched findings sections; None where there is none."""
        return self.records["findings_original"].to_list()

    @property
    def hypotheses(self) -> list[str]:
        return [joined(prediction.report) for prediction in self.predictions]

    @property
    def line_breaks(self) -> dict[str, int]:
        """How many texts of each side arrived with line breaks; empty where none did."""
        sides = {
            "references": self.records["report"].to_list(),
            "hypotheses": [prediction.report for prediction in self.predictions],
        }
        found = {side: sum(map(has_breaks, texts)) for side, texts in sides.items()}
        return found if any(found.values()) else {}


def case_table(contexts: Mapping[str, Scored], truths: Mapping[str, Sequence[list[str]]] | None) -> pl.DataFrame:
    """One row a record: ids, texts, labels, language scores, commitments, wording, gate, fallback, latent findings."""
    tables = []
    texts = pl.List(pl.String)
    for name, scored in contexts.items():
        language = scored.language
        assert language is not None
        generated = [prediction.anchor for prediction in scored.predictions]
        columns: dict[str, pl.Series] = {
            "record_id": pl.Series(scored.ids, dtype=pl.String),
            "context": pl.Series([name] * len(scored.ids), dtype=pl.String),
            "study_id": pl.Series(scored.studies, dtype=pl.String),
            "subject_id": pl.Series(scored.records["subject_id"].to_list(), dtype=pl.String),
            "reference": pl.Series(scored.references, dtype=pl.String),
            "hypothesis": pl.Series(scored.hypotheses, dtype=pl.String),
            "reference_labels": pl.Series(scored.reference_labels.tolist(), dtype=pl.List(pl.Int64)),
            "hypothesis_labels": pl.Series(scored.labels.tolist(), dtype=pl.List(pl.Int64)),
            "rougeL": pl.Series(language.rouge, dtype=pl.Float64),
            "meteor": pl.Series(language.meteor, dtype=pl.Float64),
            "meteor_statistics": pl.Series(language.meteor_statistics, dtype=pl.List(pl.Float64)),
        }
        for polarity in POLARITIES:
            lists = [None if anchor is None else anchor[polarity] for anchor in generated]
            columns[f"anchor_{polarity}"] = pl.Series(lists, dtype=texts)
        for prefix, anchors in (("reference", scored.anchors), ("report", scored.read)):
            for polarity in POLARITIES:
                columns[f"{prefix}_{polarity}"] = pl.Series([anchor[polarity] for anchor in anchors], dtype=texts)
        columns["reference_wording"] = pl.Series(list(map(list, scored.reference_wording)), dtype=texts)
        columns["hypothesis_wording"] = pl.Series(list(map(list, scored.wording)), dtype=texts)
        columns["gate"] = pl.Series([prediction.gate for prediction in scored.predictions], dtype=pl.Float64)
        columns["fallback"] = pl.Series([prediction.fallback for prediction in scored.predictions], dtype=pl.Boolean)
        if truths is not None:
            columns["truth"] = pl.Series(truths[name], dtype=texts)
        tables.append(pl.DataFrame(columns))
    return pl.concat(tables)
