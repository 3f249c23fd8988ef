"""Scores against the latent truth of a generated corpus, which real corpora do not have.

A finding counts as present in a report when CheXbert labels it positive or uncertain; micro-F1 runs over records
and the 13 findings. The yardstick of every such number is the same model shown another patient's images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pacer.core.errors import DataError
from pacer.data.findings import FINDINGS
from pacer.data.schemas import read_truth
from pacer.metrics.chexbert.observations import OBSERVATION_OF, OBSERVATIONS, POSITIVE, UNCERTAIN
from pacer.metrics.clinical import as_labels, plain_mean, precision_recall_f1
from pacer.metrics.pairing import named


class Truth:
    """The latent findings of every study, from ``truth.parquet``.

    Raises:
        DataError: as :func:`~pacer.data.schemas.read_truth`, or a study occurs twice.
    """

    def __init__(self, path: str | Path):
        self.path, self.table = path, read_truth(path)
        self.rows = {study: row for row, study in enumerate(self.table["study_id"])}
        if len(self.rows) != len(self.table):
            raise DataError(f"{path}: a study occurs more than once")

    def __call__(self, study_ids: Sequence[str]) -> np.ndarray:
        """Presence of the 13 findings, Boolean ``[n, 13]``; a :class:`DataError` names a study that is not there."""
        missing = [study for study in study_ids if study not in self.rows]
        if missing:
            raise DataError(f"{self.path} does not hold study {named(missing, 1)}")
        return self._of(study_ids).select(FINDINGS).to_numpy()

    def only(self, source: str, study_ids: Sequence[str]) -> np.ndarray:
        """Findings that one source alone shows, ``lateral`` or ``prior``: Boolean ``[n, 13]``."""
        shown = pl.col(f"{source}_only").list
        return self._of(study_ids).select(shown.contains(name).alias(name) for name in FINDINGS).to_numpy()

    def _of(self, study_ids: Sequence[str]) -> pl.DataFrame:
        return self.table[[self.rows[study] for study in study_ids]]


def findings_present(labels: Any) -> np.ndarray:
    """CheXbert labels ``[n, 14]`` -> which of the 13 findings are positive or uncertain, Boolean ``[n, 13]``."""
    columns = [OBSERVATIONS.index(OBSERVATION_OF[finding]) for finding in FINDINGS]
    return np.isin(as_labels(labels, "labels")[:, columns], (POSITIVE, UNCERTAIN))


def truth_f1(truth: np.ndarray, present: np.ndarray) -> float | None:
    """Micro-F1 over records x findings of two Boolean arrays ``[n, 13]``; ``None`` when nothing is present."""
    return precision_recall_f1(truth, present)["f1"]


def truth_scores(
    contexts: Mapping[str, Any], truth_path: str | Path
) -> tuple[dict[str, float | None], dict[str, list[list[str]]]]:
    """All scores against the latent truth, and the latent findings of every record.

    Args:
        contexts: context -> object with ``records``, ``labels`` ``[n, 14]`` and ``control_labels`` (control ->
            ``[n, 14]``), row by row the same records.

    Returns:
        ``{context}_f1`` and their ``mean_f1``; the mean ``{control}_f1`` of controls that cover all contexts; where
        ``no_lateral`` was run, ``mn_with_lateral_f1`` and ``mn_without_lateral_f1``, and the recall of what only the
        lateral shows, ``lateral_only_recall`` and ``lateral_only_recall_without_lateral``; the same of ``sw``,
        ``no_prior`` and ``prior``. And context -> findings per record.
    """
    truth = Truth(truth_path)
    latent = {name: truth(scored.records["study_id"].to_list()) for name, scored in contexts.items()}

    def f1(name: str, labels: np.ndarray) -> float | None:
        return truth_f1(latent[name], findings_present(labels))

    scores = {f"{name}_f1": f1(name, scored.labels) for name, scored in contexts.items()}
    scores["mean_f1"] = plain_mean(list(scores.values()))
    controls = [set(scored.control_labels) for scored in contexts.values()]
    for control in sorted(set.intersection(*controls)):
        found = [f1(name, scored.control_labels[control]) for name, scored in contexts.items()]
        scores[f"{control}_f1"] = plain_mean(found)
    for context, source in (("mn", "lateral"), ("sw", "prior")):
        if context in contexts and f"no_{source}" in contexts[context].control_labels:
            scores |= _source_scores(context, source, contexts[context], latent[context], truth)
    names = np.array(FINDINGS, dtype=object)
    return scores, {name: [names[row].tolist() for row in rows] for name, rows in latent.items()}


def _source_scores(context: str, source: str, scored: Any, latent: np.ndarray, truth: Truth) -> dict[str, float | None]:
    """What a source contributes: F1 with and without it, and the recall of what it alone shows."""
    with_it, without = findings_present(scored.labels), findings_present(scored.control_labels[f"no_{source}"])
    scores = {
        f"{context}_with_{source}_f1": truth_f1(latent, with_it),
        f"{context}_without_{source}_f1": truth_f1(latent, without),
    }
    only = truth.only(source, scored.records["study_id"].to_list())
    for name, present in (("", with_it), (f"_without_{source}", without)):
        scores[f"{source}_only_recall{name}"] = precision_recall_f1(only, present)["recall"]
    return scores
