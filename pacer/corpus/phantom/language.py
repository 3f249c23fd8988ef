"""Findings and impression of a study as radiologists would write them, with the statuses that the text states.

What a report may say follows from its context: without a previous report there is no comparison of any kind; without
a lateral view the lateral-only findings are not mentioned, neither as present nor as absent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from pacer.core.contexts import CONTEXTS, Context, availability
from pacer.corpus.findings import FINDINGS
from pacer.corpus.phantom.phrases import (
    CHANGES,
    CLEAR,
    COMPARED,
    HEDGES,
    IMPRESSION_CHANGES,
    NORMAL_IMPRESSIONS,
    RESOLVED,
    STATEMENTS,
    Phrase,
    absence,
    denial,
    describe,
    elaborate,
    short,
)
from pacer.corpus.phantom.world import FindingState, Study, make_world

Status = Literal["positive", "negative", "uncertain"]
Sentence = tuple[str, frozenset[str]]

#: How often reports deny each finding when it is absent, relative to each other, in the order of FINDINGS.
_DENIED = (0.08, 0.60, 0.75, 0.30, 0.22, 0.25, 0.10, 0.12, 1.00, 0.06, 0.30, 1.00, 0.0)
#: What impressions name first.
_URGENCY = (5, 7, 3, 2, 4, 8, 6, 9, 3, 10, 1, 0, 11)
#: Shares of reports with both sections and with the findings section alone; the rest have the impression alone.
_BOTH, _FINDINGS_ALONE = 0.62, 0.20
#: Share of the reports with a previous one that open with a comparison phrase.
_OPENING = 0.30
#: Share of definite statements with a detail.
_DETAIL = 0.45
#: Weights of the contexts of sampled texts; rarer sources weigh more.
_SAMPLED = {"sn": 1.0, "sw": 2.5, "mn": 2.0, "mw": 4.0}
#: With nothing else present the lungs are clear.
_OUTSIDE_LUNGS = frozenset({"cardiomegaly", "enlarged mediastinum", "fracture", "support devices"})
_PURPOSE = 20


@dataclass(frozen=True, slots=True)
class Report:
    """One report.

    Attributes:
        findings: the findings section, '' when the report has none.
        impression: the impression section, '' when the report has none.
        sentences: every sentence in order, with the findings that it states as present or possible.
        statuses: what the report says of the findings that it mentions.
        context: the context that it was written for.
        study: the examination.
    """

    findings: str
    impression: str
    sentences: tuple[Sentence, ...]
    statuses: dict[str, Status]
    context: Context
    study: Study = field(repr=False, compare=False)

    @property
    def text(self) -> str:
        """Findings and impression joined by a space, or the section that there is."""
        return " ".join(section for section in (self.findings, self.impression) if section)

    @property
    def present(self) -> frozenset[str]:
        """Findings that the report states or holds possible."""
        return frozenset(name for name, status in self.statuses.items() if status != "negative")

    def listed(self, status: Status) -> tuple[str, ...]:
        """The findings of one status, in the order of FINDINGS."""
        return tuple(name for name in FINDINGS if self.statuses.get(name) == status)


class _Choices:
    """Random choices that depend on what is being written and not on what was written before.

    The reports of one study in different contexts so share their wording wherever they state the same.
    """

    def __init__(self, rng: np.random.Generator):
        self._draws = rng.random((len(FINDINGS) + 1, 8)).tolist()

    def number(self, row: int, column: int) -> float:
        return self._draws[row][column]

    def pick(self, options: tuple, row: int, column: int):
        return options[int(self._draws[row][column] * len(options))]


_GENERAL = len(FINDINGS)


def write_report(study: Study, context: Context, rng: np.random.Generator) -> Report:
    """Write the report of a study for a context.

    Args:
        study: the examination.
        context: one that the study has the sources for: ``m`` needs a lateral view, ``w`` a previous study.
        rng: decides the wording. Equal generators give the reports of a study in its contexts a common wording.

    Raises:
        ValueError: the study lacks a source of the context.
    """
    lateral, prior = availability(context)
    if (lateral and not study.has_lateral) or (prior and study.prior is None):
        raise ValueError(f"study {study.study_id} has no {'lateral view' if lateral else 'previous study'}")
    choices = _Choices(rng)
    stated = [s for s in study.findings.values() if lateral or not s.lateral_only]
    statuses: dict[str, Status] = {}
    body: list[Sentence] = []
    for state in sorted(stated, key=lambda s: choices.number(FINDINGS.index(s.finding), 0)):
        statuses[state.finding] = "uncertain" if state.certainty == "hedged" else "positive"
        body.append((_statement(state, study, prior, choices), frozenset({state.finding})))
    if prior and body and choices.number(_GENERAL, 0) < _OPENING:
        opening, sentence = choices.pick(COMPARED, _GENERAL, 1), body[0][0]
        body[0] = (f"{opening}, {_lowered(sentence)}", body[0][1])
    ended = [s for s in study.resolved.values() if prior and (lateral or not s.lateral_only)] if prior else []
    for state in ended[:2]:
        row = FINDINGS.index(state.finding)
        statuses[state.finding] = "negative"
        name = short(state, choices.number(row, 2)).text.replace(" and ", " or ")
        text = choices.pick(RESOLVED, row, 1).format(name)
        body.append((_capitalised(text), frozenset()))
    body += _denials(study, statuses, choices)
    if study.present <= _OUTSIDE_LUNGS and choices.number(_GENERAL, 2) < 0.7:
        body.insert(0, (choices.pick(CLEAR, _GENERAL, 3), frozenset()))
    summary = _impression(stated, study, prior, choices)
    if not body:
        body = [(choices.pick(NORMAL_IMPRESSIONS, _GENERAL, 3), frozenset())]
    shape = choices.number(_GENERAL, 4)
    if shape < _BOTH:
        findings, impression = body, summary
    elif shape < _BOTH + _FINDINGS_ALONE:
        findings, impression = body, []
    else:
        findings, impression = [], body
    return Report(
        findings=" ".join(text for text, _ in findings),
        impression=" ".join(text for text, _ in impression),
        sentences=tuple(findings + impression),
        statuses={name: statuses[name] for name in FINDINGS if name in statuses},
        context=context,
        study=study,
    )


def _statement(state: FindingState, study: Study, prior: bool, choices: _Choices) -> str:
    """The sentence that states or hedges one finding."""
    row = FINDINGS.index(state.finding)
    phrase = describe(state, choices.number(row, 1), choices.number(row, 2))
    detail = choices.number(row, 5)
    if state.certainty == "definite" and detail < _DETAIL:
        phrase = elaborate(state, phrase, detail / _DETAIL)
    if prior:
        frames = CHANGES["hedged " + state.course if state.certainty == "hedged" else state.course]
    else:
        frames = HEDGES if state.certainty == "hedged" else STATEMENTS
    return _fill(choices.pick(frames, row, 3), phrase)


def _fill(frame: str, phrase: Phrase) -> str:
    be, have = ("are", "have") if phrase.plural else ("is", "has")
    first = "are" if phrase.plural and phrase.with_article == phrase.text else "is"
    return _capitalised(frame.format(phrase.text, a=phrase.with_article, is_=first, be=be, have=have))


def _denials(study: Study, statuses: dict[str, Status], choices: _Choices) -> list[Sentence]:
    """One or two sentences that deny findings; adds them to ``statuses``."""
    absent = [
        (choices.number(row, 4) / max(_DENIED[row], 1e-9), name)
        for row, name in enumerate(FINDINGS)
        if name not in study.findings and name not in statuses and _DENIED[row] > 0
    ]
    absent = [name for rank, name in sorted(absent) if rank < 1.4]
    count = 1 + int(choices.number(_GENERAL, 5) * 3.2) + (not study.findings)
    chosen = absent[:count]
    if not chosen:
        return []
    for name in chosen:
        statuses[name] = "negative"
    own = [name for name in chosen if name in ("cardiomegaly", "enlarged mediastinum")][:1]
    # "pleural effusion or pleural thickening" could be read as one phrase; thickening goes first
    listed = sorted((name for name in chosen if name not in own), key=lambda name: name != "pleural abnormality")
    sentences: list[Sentence] = []
    if own:
        row = FINDINGS.index(own[0])
        sentences.append((absence(own[0], choices.number(row, 5)), frozenset()))
    if listed:
        sentences.append((denial(listed, choices.number(_GENERAL, 6)), frozenset()))
    if choices.number(_GENERAL, 7) < 0.5:
        sentences.reverse()
    return sentences


def _impression(stated: list[FindingState], study: Study, prior: bool, choices: _Choices) -> list[Sentence]:
    """At most three short sentences that repeat the most urgent findings."""
    if not stated:
        return [(choices.pick(NORMAL_IMPRESSIONS, _GENERAL, 3), frozenset())]
    ranked = sorted(stated, key=lambda s: _URGENCY[FINDINGS.index(s.finding)])
    count = 1 + int(choices.number(_GENERAL, 7) * 2.4)
    sentences: list[Sentence] = []
    for state in ranked[:count]:
        row = FINDINGS.index(state.finding)
        phrase = short(state, choices.number(row, 6))
        if state.certainty == "hedged":
            frame = choices.pick(("Possible {0}.", "Probable {0}.", "Possible {0}."), row, 7)
        elif prior:
            frame = choices.pick(IMPRESSION_CHANGES[state.course], row, 7)
        else:
            frame = "{0}."
        sentences.append((_fill(frame, phrase), frozenset({state.finding})))
    return sentences


def _capitalised(text: str) -> str:
    return text[0].upper() + text[1:]


def _lowered(text: str) -> str:
    return text if text[:2].isupper() else text[0].lower() + text[1:]


def contexts_of(study: Study) -> tuple[Context, ...]:
    """The contexts that a study has the sources for."""
    return tuple(
        context
        for context in CONTEXTS
        if availability(context)[0] <= study.has_lateral and availability(context)[1] <= (study.prior is not None)
    )


def report_of(study: Study, context: Context) -> Report:
    """The study's own report for a context; always the same text."""
    return write_report(study, context, study.rng(_PURPOSE))


def fullest_report_of(study: Study) -> Report:
    """The report written with all the sources that the study has: what later studies know of it."""
    return report_of(study, contexts_of(study)[-1])


def sample_texts(seed: int, count: int) -> list[Report]:
    """Reports of a world of their own, without images.

    Args:
        seed: seed of the world.
        count: number of reports, one for each study, in a context drawn from those that the study has.
    """
    reports: list[Report] = []
    chunk, size = 0, max(count // 2, 8)
    while len(reports) < count:
        for patient in make_world(seed + 1_000_003 * chunk, size):
            for study in patient.studies:
                rng = study.rng(_PURPOSE + 1)
                contexts = contexts_of(study)
                weights = [_SAMPLED[context] for context in contexts]
                context = contexts[int(np.searchsorted(np.cumsum(weights), rng.random() * sum(weights)))]
                reports.append(write_report(study, context, rng))
        chunk += 1
    return reports[:count]
