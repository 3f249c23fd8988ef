"""Polarity-aware scores of commitments and reports: is each finding affirmed, denied, left uncertain or not mentioned?

Three comparisons: the generated commitment with the reference's, the generated report with its own commitment (is the
model faithful to what it committed to?), and the generated report with the reference commitment, which any system's
reports allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pacer.commitments.anchor import POLARITIES
from pacer.metrics.polarity import Agreement, polarity_agreement

_AGAINST_REFERENCE = ("agreement", "stated_agreement", *(f"{polarity}_f1" for polarity in POLARITIES))

Anchor = Mapping[str, Sequence[str]]


def commitment_scores(
    references: Sequence[Anchor], generated: Sequence[Anchor | None], reports: Sequence[Anchor]
) -> tuple[dict[str, float | None], dict[str, Agreement]]:
    """Scores, and the whole comparisons behind them.

    Args:
        references: reference commitments. generated: generated commitments, ``None`` where there is none.
        reports: what the rules read in the generated reports. All row by row the same records.

    Returns:
        Scores by name, ``None`` where undefined. ``report_*``: generated report against reference commitment, all
        records. Over records with a generated commitment, left out where there is none: ``anchor_*``: generated
        against reference commitment; ``report_follows_anchor``: share of the commitment's statements that the report
        makes with the same polarity, ``report_follows_{polarity}_f1``; ``report_covered_by_anchor``: share of the
        report's statements that the commitment had made. And the comparisons with their confusion matrices (rows: the
        first named): ``reference_report``, ``reference_anchor``, ``anchor_report``.
    """
    whole = {"reference_report": polarity_agreement(references, reports)}
    scores = _named("report", whole["reference_report"], _AGAINST_REFERENCE)
    rows = [row for row, anchor in enumerate(generated) if anchor is not None]
    if not rows:
        return scores, whole
    own, stated = [generated[row] for row in rows], [reports[row] for row in rows]
    whole["reference_anchor"] = polarity_agreement([references[row] for row in rows], own)
    whole["anchor_report"] = follows = polarity_agreement(own, stated)
    scores |= _named("anchor", whole["reference_anchor"], _AGAINST_REFERENCE)
    scores["report_follows_anchor"] = follows["stated_agreement"]
    scores |= _named("report_follows", follows, _AGAINST_REFERENCE[2:])
    scores["report_covered_by_anchor"] = polarity_agreement(stated, own)["stated_agreement"]
    return scores, whole


def _named(prefix: str, values: Mapping[str, Any], names: Sequence[str]) -> dict[str, float | None]:
    return {f"{prefix}_{name}": values[name] for name in names}
