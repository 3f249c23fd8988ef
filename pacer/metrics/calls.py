"""Scoring from Python: ``pacer.score``, ``pacer.compare`` and ``pacer.label``. The command line calls them too."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from pacer.commitments.anchor import Anchor
from pacer.commitments.rules.extract import extract_anchor
from pacer.config import validated
from pacer.config.decode import Score
from pacer.metrics.inputs import DEFAULTS
from pacer.metrics.report_files import Protocol, Source, score_reports
from pacer.metrics.signature import Signature
from pacer.metrics.statistics.comparison import Comparison, Run, compare_runs
from pacer.metrics.statistics.intervals import Intervals, score_intervals


@dataclass(frozen=True)
class Scores:
    """The scores of one system.

    ``scores``: context (``all`` unless the references name the four) -> score -> number. ``cases``: one row per case.
    ``signature``: what each number means and was computed from.
    """

    scores: dict[str, dict[str, Any]]
    cases: pl.DataFrame
    signature: Signature
    convention: str

    @cached_property
    def intervals(self) -> Intervals:
        """Bootstrap intervals (95 %) of the scores that are sums over cases; computed when first asked for."""
        return score_intervals(self.cases, self.convention, columns=self.signature.own_scores)


def score(
    references: Source,
    hypotheses: Source,
    *,
    out: str | Path | None = None,
    chexbert: str | Path | None = None,
    labels: str | Path | None = None,
    columns: str | Path | None = None,
    settings: Score = DEFAULTS,
    **protocol: Any,
) -> Scores:
    """Score reports of any system against references.

    Args:
        references, hypotheses: each ``{id: text}``, a sequence of texts in the same order, a polars or pandas frame, or
            the path of a file (docs/evaluation.md).
        out: folder for the files that `pacer score` writes; None: none is written.
        chexbert: folder of the labeller; None: no scores of its labels. labels: file for the references' labels.
        columns: table with your own scores and groups by ``record_id``.
        protocol: fields of :class:`~pacer.metrics.report_files.Protocol`, such as ``missing="empty"``.

    Raises:
        DataError: reports do not pair one to one, or an input is malformed. ConfigError: an option is not known.
    """
    chosen = validated(protocol, "pacer.score", Protocol)
    if columns is not None:
        settings = settings.model_copy(update={"columns": str(columns)})
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) if out is None else Path(out)
        scores = score_reports(references, hypotheses, chexbert, folder, chosen, labels_path=labels, settings=settings)
        cases, signature = pl.read_parquet(folder / "cases.parquet"), Signature.read(folder / "signature.json")
    return Scores(scores, cases, signature, settings.convention)


def compare(
    first: Scores | str | Path,
    second: Scores | str | Path,
    *,
    convention: str = "llm-rg4",
    resamples: int = 10_000,
    salt: str | Path | None = None,
) -> Comparison:
    """Compare two scored systems case by case; differences are second minus first.

    Args:
        first, second: what :func:`score` returned, or folders that `pacer score` wrote; with ``salt`` also its
            receipts.
        convention, resamples, salt: as in :func:`~pacer.metrics.statistics.comparison.compare_runs`, which lists the
            errors.
    """
    runs = [
        Run(name, system.cases, system.signature) if isinstance(system, Scores) else system
        for name, system in (("first", first), ("second", second))
    ]
    return compare_runs(*runs, convention=convention, resamples=resamples, salt=salt)


def label(texts: Iterable[str]) -> list[Anchor]:
    """Return the commitment that the rules read in each report: findings present, absent and uncertain."""
    return [extract_anchor(text) for text in ([texts] if isinstance(texts, str) else texts)]
