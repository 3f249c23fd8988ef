"""From an examination to the records of a draft: the target and previous report joined, cleaned and checked.

This is the only place where report text is cleaned. The same text serves every context of an examination, as in
MIMIC-RG4.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import polars as pl

from pacer.core.contexts import availability
from pacer.corpus.mimic import bare_id
from pacer.corpus.readers import Format
from pacer.corpus.rows import Examination, LeftOut, Prior, Problem
from pacer.corpus.text.cleaning import CLEANERS
from pacer.corpus.text.wording import compares_with_prior
from pacer.params import Corpus
from pacer.records.schemas import PRIOR_SCHEMA, RECORD_SCHEMA

#: The records, and beside them where each comes from (so that a later check can still name its row), whether its
#: target presupposes a previous report (null where it has one), and what is known of that one.
DRAFT_SCHEMA: dict[str, pl.DataType] = (
    RECORD_SCHEMA
    | {"file": pl.String(), "index": pl.Int64(), "rows": pl.Int32(), "compares": pl.Boolean()}
    | {name: kind for name, kind in PRIOR_SCHEMA.items() if name != "study_id"}
)

_DECIMAL = re.compile(r"\d\.\d")

#: What upstream takes as the previous report where both of its sections are marked as absent: the mark itself.
_ABSENT_PRIOR = "s"


class Assembler:
    """Makes the records of one corpus.

    Args:
        config: its contexts, target, cleaner and limit count here.
        form: the layout of the input; its names of fields stand in messages.
        originals: untouched findings by study id, MIMIC's letter left out.

    Attributes:
        with_decimals: examinations whose target holds a number such as 1.2.
        empty_priors: examinations whose previous report was empty after cleaning, so that only their contexts without
            one were made.
        kept_priors: the same, where ``config.keep_empty_priors`` kept all contexts.
    """

    def __init__(self, config: Corpus, form: Format, originals: dict[str, str]):
        self.contexts, self.limit, self.form, self.originals = set(config.contexts), config.limit, form, originals
        self.findings_only, self.clean = config.target == "findings", CLEANERS[config.cleaner]
        self.studies: dict[tuple[str, str], set[str]] = defaultdict(set)
        self.keep_empty_priors = config.keep_empty_priors
        self.empty_priors = self.kept_priors = self.with_decimals = 0

    def records(self, exam: Examination) -> list[dict[str, Any]] | Problem | LeftOut:
        """The rows of :data:`DRAFT_SCHEMA` of an examination, none beyond the limit, or why there is none."""
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
        if not _says_something(prior) and any(availability(context)[1] for context in contexts):
            if self.keep_empty_priors:
                prior = prior or self.clean(_ABSENT_PRIOR)
                self.kept_priors += 1
            else:
                contexts = [context for context in contexts if not availability(context)[1]]
                if not contexts:
                    reason = "a context with a previous report needs one that is not empty (corpus.keep_empty_priors)"
                    return Problem(exam.place, self.form.prior, reason, exam.rows)
                self.empty_priors += 1
        origin = (exam.prior or Prior(None, None))._asdict()
        origin["prior_study_id"] = origin.pop("study_id")
        followed = None
        if self.findings_only and exam.impression is not None and exam.emphasis is not None:
            followed = self.clean(f"{exam.findings} {exam.impression}")
        rows = []
        compares = None
        for context in contexts:
            if not self._admits(context, exam):
                continue
            has_lateral, has_prior = availability(context)
            if not has_prior and compares is None:
                compares = compares_with_prior(text)
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
                    "file": exam.place.file,
                    "index": exam.place.index,
                    "rows": exam.rows,
                    "compares": None if has_prior else compares,
                    **origin,
                }
            )
        return rows

    def _admits(self, context: str, exam: Examination) -> bool:
        """Whether the study is among the first ``limit`` of its context and split."""
        if self.limit is None:
            return True
        studies = self.studies[context, exam.split]
        if len(studies) < self.limit:
            studies.add(exam.study_id)
        return exam.study_id in studies

    def _prior(self, exam: Examination) -> str:
        text = None if exam.prior is None else _join(exam.prior.findings, exam.prior.impression)[0]
        return "" if text is None else self.clean(text)


def _join(findings: str | None, impression: str | None) -> tuple[str | None, str | None]:
    """Text and name of the sections that are there."""
    if findings is not None and impression is not None:
        return f"{findings} {impression}", "findings+impression"
    if findings is not None:
        return findings, "findings"
    return impression, None if impression is None else "impression"


def _says_something(report: str) -> bool:
    return any(character.isalnum() for character in report)
