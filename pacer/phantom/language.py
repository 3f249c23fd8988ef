"""Findings and impression of a study in the style of radiologists, with the statuses that the text states.

The context determines the content of a report. Without a previous report there is no comparison of any kind. Without a
lateral view, lateral-only findings are not mentioned, either as present or as absent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from pacer.core.contexts import Context, availability, contexts_within
from pacer.data.findings import FINDINGS
from pacer.phantom.phrases import clause, describe, elaborate, remarks, short
from pacer.phantom.wording import WORDING, Option, Style, by_style, capitalised, denial, fill, pick, style_of
from pacer.phantom.world import FINDING_PRIORS, FindingState, PhantomStudy, make_world

Status = Literal["positive", "negative", "uncertain"]
Sentence = tuple[str, frozenset[str]]

#: Shares of reports with both sections and with only the findings section; the rest have only the impression.
_BOTH, _FINDINGS_ALONE = 0.62, 0.20
#: Share of reports with a previous report that open with a comparison phrase.
_OPENING = 0.30
#: Share of definite statements with a detail, by style.
_DETAIL = {"terse": 0.20, "plain": 0.38, "prose": 0.45, "numbered": 0.35}
#: Shares of reports that state two findings in one sentence, and that add the absence of a finding to a statement.
_JOINED, _WITHOUT = 0.25, 0.15
#: Share of enlarged hearts and mediastina that are stated by a special sentence.
_CLAUSE = 0.35
#: Share of reports with a remark on body or exposure.
_REMARK = 0.36
#: With this many findings, a report omits details and remarks, and has fewer denials.
_MANY = 4
#: Findings whose absence a statement may mention.
_NAMED_ABSENT = ("pneumothorax", "pleural effusion", "consolidation", "edema")
#: Weights of the contexts of sampled texts; rarer sources have larger weights.
_SAMPLED = {"sn": 1.0, "sw": 2.5, "mn": 2.0, "mw": 4.0}
#: Findings outside the lungs; if no others are present, the lungs are clear.
_OUTSIDE_LUNGS = frozenset({"cardiomegaly", "enlarged mediastinum", "fracture", "support devices"})
_PURPOSE = 20


@dataclass(frozen=True, slots=True)
class PhantomReport:
    """One report, written for a context."""

    findings: str  # the section, '' if the report has none
    impression: str  # likewise
    sentences: tuple[Sentence, ...]  # in order, with the findings that each states as present or possible
    statuses: dict[str, Status]  # status of each finding that the report mentions
    context: Context
    study: PhantomStudy = field(repr=False, compare=False)

    @property
    def text(self) -> str:
        """Findings and impression joined by a space, or the only section."""
        return " ".join(section for section in (self.findings, self.impression) if section)

    def listed(self, status: Status) -> tuple[str, ...]:
        """Return the findings with a status, in the order of FINDINGS."""
        return tuple(name for name in FINDINGS if self.statuses.get(name) == status)


class _Choices:
    """Random choices that depend only on the current text element, not on the text before it.

    So the reports of a study in different contexts share their style, and their wording for the same statements.
    """

    def __init__(self, rng: np.random.Generator):
        self._draws = rng.random((len(FINDINGS) + 1, 16)).tolist()
        self.style: Style = style_of(self._draws[_GENERAL][8])

    def number(self, row: int, column: int) -> float:
        return self._draws[row][column]

    def pick(self, options: Sequence[Option], row: int, column: int) -> Option:
        return pick(options, self._draws[row][column])


_GENERAL = len(FINDINGS)


def write_report(study: PhantomStudy, context: Context, rng: np.random.Generator) -> PhantomReport:
    """Write the report of a study for one of its contexts; equal generators give all of them the same wording."""
    lateral, prior = availability(context)
    choices = _Choices(rng)
    stated = [s for s in study.findings.values() if s.known_from(lateral, prior)]
    statuses: dict[str, Status] = {
        state.finding: "uncertain" if state.certainty == "hedged" else "positive" for state in stated
    }
    body = _statements(stated, study, prior, statuses, choices)
    if prior and body and choices.number(_GENERAL, 0) < _OPENING:
        opening, sentence = choices.pick(WORDING.compared, _GENERAL, 1), body[0][0]
        body[0] = (f"{opening}, {_lowered(sentence)}", body[0][1])
    body += _endings(study, lateral, prior, statuses, choices)
    denials = _denials(study, statuses, choices)
    body = denials + body if choices.number(_GENERAL, 9) < 0.2 else body + denials
    if study.findings.keys() <= _OUTSIDE_LUNGS and choices.number(_GENERAL, 2) < 0.7:
        body.insert(0, (choices.pick(by_style(WORDING.clear, choices.style), _GENERAL, 3), frozenset()))
    if choices.number(_GENERAL, 10) < _REMARK and len(stated) < _MANY:
        remark = choices.pick(remarks(study, choices.style), _GENERAL, 11)
        body.insert(0 if choices.number(_GENERAL, 12) < 0.3 else len(body), (remark, frozenset()))
    summary = _impression(stated, prior, choices)
    if not body:
        body = [(choices.pick(by_style(WORDING.normal, choices.style), _GENERAL, 3), frozenset())]
    shape = choices.number(_GENERAL, 4)
    if shape < _BOTH:
        findings, impression = body, summary
    elif shape < _BOTH + _FINDINGS_ALONE:
        findings, impression = body, []
    else:
        findings, impression = [], body
    if choices.style == "numbered" and len(impression) > 1:
        impression = [(f"{number}) {text}", names) for number, (text, names) in enumerate(impression, 1)]
    return PhantomReport(
        findings=" ".join(text for text, _ in findings),
        impression=" ".join(text for text, _ in impression),
        sentences=tuple(findings + impression),
        statuses={name: statuses[name] for name in FINDINGS if name in statuses},
        context=context,
        study=study,
    )


def _statements(
    stated: list[FindingState], study: PhantomStudy, prior: bool, statuses: dict[str, Status], choices: _Choices
) -> list[Sentence]:
    """Write the sentences that state or hedge findings; some state two findings, or add the absence of another."""
    ordered = sorted(stated, key=lambda s: choices.number(FINDINGS.index(s.finding), 0))
    pair = _pair(ordered, prior) if choices.number(_GENERAL, 13) < _JOINED else None
    absent = None
    if choices.number(_GENERAL, 14) < _WITHOUT:
        free = [name for name in _NAMED_ABSENT if name not in study.findings and name not in study.resolved]
        absent = choices.pick(tuple(free), _GENERAL, 15) if free else None
    body: list[Sentence] = []
    for state in ordered:
        if pair and state is pair[1]:
            continue
        if pair and state is pair[0]:
            body.append((_joined(*pair, prior, choices), frozenset(s.finding for s in pair)))
        elif absent and not prior and state.certainty == "definite" and state.finding != "support devices":
            row = FINDINGS.index(state.finding)
            phrase = describe(state, choices.number(row, 1), choices.number(row, 2))
            name = pick(WORDING.denied_names[absent], choices.number(row, 9))
            frame = choices.pick(by_style(WORDING.without, choices.style), row, 3)
            body.append((fill(frame, phrase, absent=name), frozenset({state.finding})))
            statuses[absent], absent = "negative", None
        else:
            body.append((_statement(state, prior, choices, len(stated) < _MANY), frozenset({state.finding})))
    return body


def _pair(states: list[FindingState], prior: bool) -> tuple[FindingState, FindingState] | None:
    """Find the first two definite findings that can share a sentence; with a previous report, their course is equal."""
    plain = [s for s in states if s.finding != "support devices" and not s.lateral_only]
    definite = [s for s in plain if s.certainty == "definite"]
    for number, first in enumerate(definite):
        for second in definite[number + 1 :]:
            if not prior or first.course == second.course:
                return first, second
    return None


def _joined(first: FindingState, second: FindingState, prior: bool, choices: _Choices) -> str:
    """Write one sentence for two findings."""
    row, other = FINDINGS.index(first.finding), FINDINGS.index(second.finding)
    phrase = describe(first, choices.number(row, 1), choices.number(row, 2))
    also = short(second, choices.number(other, 6))
    frames = WORDING.joint_changes[first.course] if prior else by_style(WORDING.joint, choices.style)
    return fill(choices.pick(frames, row, 3), phrase, also)


def _statement(state: FindingState, prior: bool, choices: _Choices, detailed: bool) -> str:
    """Write the sentence that states or hedges one finding, with a visible detail if ``detailed`` allows it."""
    row = FINDINGS.index(state.finding)
    hedged = state.certainty == "hedged"
    if not prior and not hedged and choices.number(row, 8) < _CLAUSE:
        sentence = clause(state, choices.number(row, 3))
        if sentence:
            return sentence
    phrase = describe(state, choices.number(row, 1), choices.number(row, 2))
    detail, share = choices.number(row, 5), _DETAIL[choices.style]
    if detailed and not hedged and detail < share:
        phrase = elaborate(state, phrase, detail / share)
    if prior:
        # verbs such as "develop" do not suit devices
        style = "plain" if state.finding == "support devices" else choices.style
        frames = WORDING.hedged_changes[state.course] if hedged else by_style(WORDING.changes[state.course], style)
    else:
        frames = by_style(WORDING.hedges if hedged else WORDING.statements, choices.style)
    return fill(choices.pick(frames, row, 3), phrase)


def _endings(
    study: PhantomStudy, lateral: bool, prior: bool, statuses: dict[str, Status], choices: _Choices
) -> list[Sentence]:
    """Write sentences on at most two findings that have ended; add these to ``statuses``."""
    ended = [s for s in study.resolved.values() if prior and s.known_from(lateral, prior)]
    sentences: list[Sentence] = []
    for state in ended[:2]:
        row = FINDINGS.index(state.finding)
        statuses[state.finding] = "negative"
        phrase = short(state, choices.number(row, 2))
        # the last prose frame needs a singular phrase
        frames = by_style(WORDING.resolved, choices.style)[: 2 if phrase.plural else None]
        name = phrase.text.replace(" and ", " or ")
        sentences.append((capitalised(choices.pick(frames, row, 1).format(name)), frozenset()))
    return sentences


def _denials(study: PhantomStudy, statuses: dict[str, Status], choices: _Choices) -> list[Sentence]:
    """Write up to three sentences that deny findings; add these to ``statuses``."""
    absent = [
        (choices.number(row, 4) / FINDING_PRIORS[name].denied, name)
        for row, name in enumerate(FINDINGS)
        if name not in study.findings and name not in statuses and FINDING_PRIORS[name].denied > 0
    ]
    absent = [name for rank, name in sorted(absent) if rank < 1.4]
    count = 1 + int(choices.number(_GENERAL, 5) * (3.2 if len(statuses) < _MANY else 2.0)) + (not study.findings)
    chosen = absent[:count]
    if not chosen:
        return []
    for name in chosen:
        statuses[name] = "negative"
    style, wording = choices.style, choices.number(_GENERAL, 6)
    silhouette = [name for name in chosen if name in ("cardiomegaly", "enlarged mediastinum")]
    if len(silhouette) == 2 and wording > 0.6:
        silhouette = silhouette[:1]
    # "pleural effusion or pleural thickening" could be read as one phrase, so thickening comes first
    listed = sorted((name for name in chosen if name not in silhouette), key=lambda name: name != "pleural abnormality")
    sentences: list[Sentence] = []
    if silhouette:
        frames = by_style(WORDING.both_absent if len(silhouette) == 2 else WORDING.absences[silhouette[0]], style)
        sentences.append((choices.pick(frames, FINDINGS.index(silhouette[0]), 5), frozenset()))
    if len(listed) == 2 and style == "terse" and wording < 0.3:
        sentences += [(denial([name], style, wording), frozenset()) for name in listed]
    elif listed:
        sentences.append((denial(listed, style, wording), frozenset()))
    if choices.number(_GENERAL, 7) < 0.5:
        sentences.reverse()
    return sentences


def _impression(stated: list[FindingState], prior: bool, choices: _Choices) -> list[Sentence]:
    """Write at most three short sentences that repeat the most urgent findings."""
    if not stated:
        return [(choices.pick(by_style(WORDING.normal, choices.style), _GENERAL, 3), frozenset())]
    ranked = sorted(stated, key=lambda s: FINDING_PRIORS[s.finding].urgency)
    count = 1 + int(choices.number(_GENERAL, 7) * (2.4 if len(stated) < _MANY + 1 else 1.6))
    sentences: list[Sentence] = []
    for state in ranked[:count]:
        row = FINDINGS.index(state.finding)
        phrase = short(state, choices.number(row, 6))
        if state.certainty == "hedged":
            frame = choices.pick(WORDING.impression_hedges, row, 7)
        elif prior:
            frame = choices.pick(WORDING.impression_changes[state.course], row, 7)
        else:
            frame = "{0}."
        sentences.append((fill(frame, phrase), frozenset({state.finding})))
    return sentences


def _lowered(text: str) -> str:
    return text if text[:2].isupper() else text[0].lower() + text[1:]


def contexts_of(study: PhantomStudy) -> tuple[Context, ...]:
    """Return the contexts for which a study has the sources."""
    return contexts_within(study.has_lateral, study.prior is not None)


def report_of(study: PhantomStudy, context: Context) -> PhantomReport:
    """Return the fixed report of a study for a context; always the same text."""
    return write_report(study, context, study.rng(_PURPOSE))


def fullest_report_of(study: PhantomStudy) -> PhantomReport:
    """Return the report that uses all sources of the study; later studies have it as their previous report."""
    return report_of(study, contexts_of(study)[-1])


def sample_texts(seed: int, count: int) -> list[PhantomReport]:
    """Write ``count`` reports of separate worlds, one per study, each in a random context that the study supports."""
    reports: list[PhantomReport] = []
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
