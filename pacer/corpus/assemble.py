"""From an examination to its scenario records: the target and previous report joined, cleaned and checked.

This is the only place where report text is cleaned. The same text serves every context of an examination, as in
MIMIC-RG4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pacer.core.contexts import availability
from pacer.corpus.rows import Examination, LeftOut, Problem


class Assembler:
    """Makes the records of one corpus.

    Args:
        contexts: in use; others are not made.
        findings_only: the target is the findings section alone.
        clean: the report cleaner.
        fields: names of the target's and the previous report's field, for messages.
        originals: untouched findings by study id.

    Attributes:
        empty_priors: examinations whose previous report was empty after cleaning, so that only their contexts without
            one were made.
    """

    def __init__(
        self,
        contexts: Sequence[str],
        findings_only: bool,
        clean: Callable[[str], str],
        fields: tuple[str, str] = ("findings", "prior"),
        originals: dict[str, str] | None = None,
    ):
        self.contexts, self.findings_only, self.clean = set(contexts), findings_only, clean
        self.target_field, self.prior_field = fields
        self.originals = originals or {}
        self.empty_priors = 0

    def records(self, exam: Examination) -> list[dict[str, Any]] | Problem | LeftOut:
        """The rows of :data:`~pacer.corpus.records.RECORD_SCHEMA` of an examination, or why there is none."""
        contexts = [context for context in exam.contexts if context in self.contexts]
        if not contexts:
            return LeftOut(exam.place, "its sources fit no context of corpus.contexts", exam.rows)
        if self.findings_only and exam.findings is None and exam.impression is not None:
            return LeftOut(exam.place, "no findings section (corpus.target: findings)", exam.rows)
        text, sections = _join(exam.findings, None if self.findings_only else exam.impression)
        if text is None:
            return Problem(exam.place, self.target_field, "neither findings nor impression is there", exam.rows)
        report = self.clean(text)
        if not _says_something(report):
            return Problem(exam.place, self.target_field, "the target report is empty after cleaning", exam.rows)
        prior = self._prior(exam)
        if prior is None and any(availability(context)[1] for context in contexts):
            contexts = [context for context in contexts if not availability(context)[1]]
            if not contexts:
                reason = "a context with a previous report needs one that is not empty"
                return Problem(exam.place, self.prior_field, reason, exam.rows)
            self.empty_priors += 1
        followed = None
        if self.findings_only and exam.impression is not None and exam.emphasis is not None:
            followed = self.clean(f"{exam.findings} {exam.impression}")
        rows = []
        for context in contexts:
            has_lateral, has_prior = availability(context)
            rows.append({
                "record_id": f"{context}-{exam.id}", "context": context, "split": exam.split,
                "study_id": exam.study_id, "subject_id": exam.subject_id, "view": exam.view, "frontal": exam.frontal,
                "lateral": exam.lateral if has_lateral else None, "report": report, "report_raw": text,
                "findings_original": self.originals.get(exam.study_id), "sections": sections,
                "prior_report": prior if has_prior else None, "indication": exam.indication, "history": exam.history,
                "emphasis": exam.emphasis, "emphasis_text": followed,
            })  # fmt: skip
        return rows

    def _prior(self, exam: Examination) -> str | None:
        if exam.prior is None:
            return None
        text, _ = _join(exam.prior.findings, exam.prior.impression)
        prior = None if text is None else self.clean(text)
        return prior if prior is not None and _says_something(prior) else None


def _join(findings: str | None, impression: str | None) -> tuple[str | None, str | None]:
    """Text and name of the sections that are there."""
    if findings is not None and impression is not None:
        return f"{findings} {impression}", "findings+impression"
    if findings is not None:
        return findings, "findings"
    return impression, None if impression is None else "impression"


def _says_something(report: str) -> bool:
    return any(character.isalnum() for character in report)
