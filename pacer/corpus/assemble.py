"""From an examination to its scenario records: the target and previous report joined, cleaned and checked.

This is the only place where report text is cleaned. The same text serves every context of an examination, as in
MIMIC-RG4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from pacer.core.contexts import availability
from pacer.corpus.mimic import bare_id
from pacer.corpus.readers import Format
from pacer.corpus.rows import Examination, LeftOut, Problem

_DECIMAL = re.compile(r"\d\.\d")


class Assembler:
    """Makes the records of one corpus.

    Args:
        contexts: in use; others are not made.
        findings_only: the target is the findings section alone.
        clean: the report cleaner.
        form: the layout of the input; its names of fields stand in messages.
        originals: untouched findings by study id, MIMIC's letter left out.

    Attributes:
        with_decimals: examinations whose target holds a number such as 1.2.
        empty_priors: examinations whose previous report was empty after cleaning, so that only their contexts without
            one were made.
    """

    def __init__(
        self,
        contexts: Sequence[str],
        findings_only: bool,
        clean: Callable[[str], str],
        form: Format,
        originals: dict[str, str] | None = None,
    ):
        self.contexts, self.findings_only, self.clean = set(contexts), findings_only, clean
        self.form = form
        self.originals = originals or {}
        self.empty_priors = self.with_decimals = 0

    def records(self, exam: Examination) -> list[dict[str, Any]] | Problem | LeftOut:
        """The rows of :data:`~pacer.records.schemas.RECORD_SCHEMA` of an examination, or why there is none."""
        contexts = [context for context in exam.contexts if context in self.contexts]
        if not contexts:
            return LeftOut(exam.place, "its sources fit no context of corpus.contexts", exam.rows)
        if self.findings_only and exam.findings is None and exam.impression is not None:
            return LeftOut(exam.place, "no findings section (corpus.target: findings)", exam.rows)
        if exam.lateral == exam.frontal:
            reason = "the same file is given as frontal and as lateral"
            return Problem(exam.place, self.form.images[1], reason, exam.rows)
        text, sections = _join(exam.findings, None if self.findings_only else exam.impression)
        if text is None:
            return Problem(exam.place, self.form.target, "neither findings nor impression is there", exam.rows)
        self.with_decimals += _DECIMAL.search(text) is not None
        report = self.clean(text)
        if not _says_something(report):
            return Problem(exam.place, self.form.target, "the target report is empty after cleaning", exam.rows)
        prior = self._prior(exam)
        if prior is None and any(availability(context)[1] for context in contexts):
            contexts = [context for context in contexts if not availability(context)[1]]
            if not contexts:
                reason = "a context with a previous report needs one that is not empty"
                return Problem(exam.place, self.form.prior, reason, exam.rows)
            self.empty_priors += 1
        followed = None
        if self.findings_only and exam.impression is not None and exam.emphasis is not None:
            followed = self.clean(f"{exam.findings} {exam.impression}")
        rows = []
        for context in contexts:
            has_lateral, has_prior = availability(context)
            rows.append(
                {
                    "record_id": f"{context}-{exam.id}",
                    "context": context,
                    "split": exam.split,
                    "study_id": exam.study_id,
                    "subject_id": exam.subject_id,
                    "view": exam.view,
                    "frontal": exam.frontal,
                    "lateral": exam.lateral if has_lateral else None,
                    "report": report,
                    "report_raw": text,
                    "findings_original": self.originals.get(bare_id(exam.study_id)),
                    "sections": sections,
                    "prior_report": prior if has_prior else None,
                    "indication": exam.indication,
                    "history": exam.history,
                    "emphasis": exam.emphasis,
                    "emphasis_text": followed,
                }
            )
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
