"""From an examination to the records of a draft: the target and previous report joined, cleaned and checked.

This is the only place where report text is cleaned. The same text serves every context of an examination, but for the
sentences that ``corpus.unseen_comparisons: strip`` takes out where there is no previous report.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, NamedTuple

import polars as pl

from pacer.config import Corpus
from pacer.core.contexts import availability
from pacer.core.hygiene import id_fault, is_absent
from pacer.data.cleaning import CLEANERS
from pacer.data.formats import Format
from pacer.data.mimic import bare_id
from pacer.data.rows import Examination, LeftOut, Prior, Problem
from pacer.data.schemas import PRIOR_SCHEMA, RECORD_SCHEMA
from pacer.data.sentences import says_something, without_sentences
from pacer.data.wording import compares_with_prior

#: The records, and beside them where each comes from (so that a later check can still name its row), whether its
#: target presupposes a previous report (null where it has one), why it is left out for that, and what is known of the
#: previous report.
DRAFT_SCHEMA: dict[str, pl.DataType] = (
    RECORD_SCHEMA
    | {"file": pl.String(), "index": pl.Int64(), "rows": pl.Int32(), "compares": pl.Boolean(), "left_out": pl.String()}
    | {name: kind for name, kind in PRIOR_SCHEMA.items() if name != "study_id"}
)

#: What upstream takes as the previous report where both of its sections are marked as absent: the mark itself.
_ABSENT_PRIOR = "s"


class _Target(NamedTuple):
    """The target of an examination's records in some contexts; see :data:`DRAFT_SCHEMA`."""

    report: str
    raw: str
    sections: str | None
    emphasis: list[float] | None = None
    followed: str | None = None
    compares: bool | None = None
    left_out: str | None = None


class Assembler:
    """Makes the records of one corpus.

    Args:
        config: its contexts, target, cleaner and limit count here.
        form: the layout of the input; its names of fields stand in messages.
        originals: untouched findings by study id, MIMIC's letter left out.

    Attributes:
        absent: texts that are a word for no text (``N/A``), which count as absent, by field.
        empty_priors: examinations whose previous report was empty after cleaning, so that only their contexts without
            one were made.
        kept_priors: the same, where ``config.keep_empty_priors`` kept all contexts.
    """

    def __init__(self, config: Corpus, form: Format, originals: dict[str, str]):
        self.contexts, self.limit, self.form, self.originals = set(config.contexts), config.limit, form, originals
        self.findings_only, self.clean = config.target == "findings", CLEANERS[config.cleaner]
        self.studies: dict[tuple[str, str], set[str]] = defaultdict(set)
        self.keep_empty_priors, self.unseen = config.keep_empty_priors, config.unseen_comparisons
        # of MIMIC-RG4, text of marks alone is cleaned as upstream cleans it, and new_scores follow the outcome
        self.upstream = config.format == "rg4"
        self.absent: Counter[str] = Counter()
        self.empty_priors = self.kept_priors = 0

    def records(self, exam: Examination) -> list[dict[str, Any]] | Problem | LeftOut:
        """The rows of :data:`DRAFT_SCHEMA` of an examination, none beyond the limit, or why there is none."""
        for field, value in (("id", exam.id), ("study_id", exam.study_id), ("subject_id", exam.subject_id)):
            if reason := id_fault(value):
                return Problem(exam.place, field, reason, exam.rows)
        exam = self._without_absent(exam)
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
            return Problem(exam.place, self.form.target, "neither findings nor impression", exam.rows)
        report = self.clean(text)
        if not says_something(report):
            return Problem(exam.place, self.form.target, "the target report is empty after cleaning", exam.rows)
        prior = self._prior(exam)
        if not says_something(prior) and any(availability(context)[1] for context in contexts):
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
        target = _Target(report, text, sections, exam.emphasis, followed)
        alone: _Target | None = None
        for context in contexts:
            if not self._admits(context, exam):
                continue
            has_lateral, has_prior = availability(context)
            if not has_prior and alone is None:
                alone = self._without_prior(target, exam)
            own = target if has_prior or alone is None else alone
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
                    "report": own.report,
                    "report_raw": own.raw,
                    "findings_original": self.originals.get(bare_id(exam.study_id)),
                    "sections": own.sections,
                    "prior_report": prior if has_prior else None,
                    "indication": exam.indication,
                    "history": exam.history,
                    "emphasis": own.emphasis,
                    "emphasis_text": own.followed,
                    "file": exam.place.file,
                    "index": exam.place.index,
                    "rows": exam.rows,
                    "compares": own.compares,
                    "left_out": own.left_out,
                    **origin,
                }
            )
        return rows

    def _without_prior(self, target: _Target, exam: Examination) -> _Target:
        """The target of a context without a previous report, as ``corpus.unseen_comparisons`` says."""
        target = target._replace(compares=compares_with_prior(target.raw))
        if not target.compares or self.unseen == "keep":
            return target
        kept = [
            text and without_sentences(text, compares_with_prior)
            for text in (exam.findings, None if self.findings_only else exam.impression)
        ]
        raw, sections = _join(*kept)
        report = "" if raw is None else self.clean(raw)
        if raw is None or not says_something(report):
            reason = "every sentence presupposes a previous report (corpus.unseen_comparisons: strip)"
            return target._replace(left_out=reason)
        # the list of weights follows the tokens of the whole report
        return _Target(report, raw, sections, compares=True)

    def _without_absent(self, exam: Examination) -> Examination:
        """The examination with None for each text that is none."""

        def judged(text: str | None, name: str) -> str | None:
            if text is None or not is_absent(text) or (self.upstream and not says_something(text)):
                return text
            self.absent[name] += 1
            return None

        prior = exam.prior
        if prior is not None:
            findings = judged(prior.findings, "previous findings")
            prior = prior._replace(findings=findings, impression=judged(prior.impression, "previous impression"))
        return exam._replace(
            prior=prior,
            findings=judged(exam.findings, "findings"),
            impression=judged(exam.impression, "impression"),
            indication=judged(exam.indication, "indication"),
            history=judged(exam.history, "history"),
        )

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
