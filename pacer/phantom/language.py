"""Findings and impression of an examination in the style of radiologists, with the statuses that
the text states.

The context determines the content of a report. Without a previous report there is no comparison of
any kind. Without a lateral view, lateral-only findings are not mentioned, either as present or as
absent. Known findings that are slight and stable are left out in every context.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import Literal

import numpy as np

from pacer.core.contexts import Context, availability, contexts_within
from pacer.core.findings import FINDINGS
from pacer.phantom import wording
from pacer.phantom.wording import WORDING, Option, Style, by_style, capitalised, fill, pick
from pacer.phantom.world import FINDING_PRIORS, FindingState, PhantomStudy, make_world

Status = Literal["positive", "negative", "uncertain"]
Sentence = tuple[str, frozenset[str]]

#: Share of reports with both sections.
_BOTH = 0.62
#: Share of reports with only the findings section; the rest have only the impression.
_FINDINGS_ALONE = 0.20
#: Share of reports with a previous report that open with a comparison phrase.
_OPENING = 0.30
#: Share of enlarged hearts and mediastina that are stated by a special sentence.
_CLAUSE = 0.35
#: Share of reports with a remark on body or exposure.
_REMARK = 0.36
#: With this many findings, a report omits remarks, and has fewer denials.
_MANY = 4
#: Findings outside the lungs; if no others are present, the lungs are clear.
_OUTSIDE_LUNGS = frozenset({"cardiomegaly", "enlarged mediastinum", "fracture", "support devices"})
_PURPOSE = 20


@dataclass(frozen=True, slots=True)
class PhantomReport:
    """One report, written for a context."""

    findings: str  # the section, '' if the report has none
    impression: str  # likewise
    # in order, with the findings that each states as present or possible
    sentences: tuple[Sentence, ...]
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
    """Random choices, each a function of the report's key, the decision's name and the finding that
    it is about.

    So the reports of an examination in different contexts share their style, and their wording for
    the same statements.
    """

    def __init__(self, rng: np.random.Generator):
        self._key = rng.bytes(16)
        drawn = self.number("style")
        self.style: Style = next(style for style, share in wording.STYLES.items() if drawn < share)

    def number(self, decision: str, finding: str = "") -> float:
        """Return the number in [0, 1) of a decision; each is used for one thing."""
        digest = blake2b(f"{decision}/{finding}".encode(), digest_size=8, key=self._key).digest()
        return int.from_bytes(digest) / 2**64

    def pick(self, options: Sequence[Option], decision: str, finding: str = "") -> Option:
        return pick(options, self.number(decision, finding))

    def frame(self, frames: dict[str, Sequence[str]], decision: str, finding: str = "") -> str:
        """Choose a wording of the report's style."""
        return self.pick(by_style(frames, self.style), decision, finding)


def write_report(study: PhantomStudy, context: Context, rng: np.random.Generator) -> PhantomReport:
    """Write the report of an examination for one of its contexts; equal generators give all of them
    the same wording."""
    lateral, prior = availability(context)
    choices = _Choices(rng)
    known = [s for s in study.findings.values() if s.known_from(lateral, prior)]
    stated = [state for state in known if not state.left_out]
    statuses: dict[str, Status] = {
        state.finding: "uncertain" if state.certainty == "hedged" else "positive"
        for state in stated
    }
    ordered = sorted(stated, key=lambda state: choices.number("order", state.finding))
    body: list[Sentence] = [
        (_statement(state, prior, choices), frozenset({state.finding})) for state in ordered
    ]
    if prior and body and choices.number("is_compared") < _OPENING:
        opening = choices.pick(WORDING.compared, "comparison")
        sentence, names = body[0]
        if not sentence[:2].isupper():
            sentence = sentence[0].lower() + sentence[1:]
        body[0] = (f"{opening}, {sentence}", names)
    endings = _endings(study, lateral, statuses, choices) if prior else []
    if prior and known and not (stated or endings):
        body.append((choices.frame(WORDING.unchanged, "unchanged"), frozenset()))
    body += endings
    denials = _denials(study, statuses, choices)
    body = denials + body if choices.number("denies_first") < 0.2 else body + denials
    if study.findings.keys() <= _OUTSIDE_LUNGS and choices.number("says_clear") < 0.7:
        body.insert(0, (choices.frame(WORDING.clear, "clear"), frozenset()))
    if choices.number("has_remark") < _REMARK and len(stated) < _MANY:
        remark = choices.pick(wording.remarks(study, choices.style), "remark")
        place = 0 if choices.number("remarks_first") < 0.3 else len(body)
        body.insert(place, (remark, frozenset()))
    summary = _impression(study, stated, prior, choices)
    shape = choices.number("sections")
    findings = body or summary
    impression = summary
    if shape >= _BOTH + _FINDINGS_ALONE:
        findings, impression = [], findings
    elif shape >= _BOTH:
        impression = []
    return PhantomReport(
        findings=" ".join(text for text, _ in findings),
        impression=" ".join(text for text, _ in impression),
        sentences=tuple(findings + impression),
        statuses={name: statuses[name] for name in FINDINGS if name in statuses},
        context=context,
        study=study,
    )


def _statement(state: FindingState, prior: bool, choices: _Choices) -> str:
    """Write the sentence that states or hedges one finding."""
    finding = state.finding
    hedged = state.certainty == "hedged"
    if not prior and not hedged and choices.number("has_clause", finding) < _CLAUSE:
        sentence = wording.clause(state, choices.number("clause", finding))
        if sentence:
            return sentence
    phrase = wording.describe(
        state, choices.number("name", finding), choices.number("detail", finding)
    )
    if prior and hedged:
        frames = WORDING.hedged_changes[state.course]
    elif prior:
        # verbs such as "develop" do not suit devices
        style = "plain" if finding == "support devices" else choices.style
        frames = WORDING.changes[state.course][style]
    else:
        frames = by_style(WORDING.hedges if hedged else WORDING.statements, choices.style)
    return fill(choices.pick(frames, "frame", finding), phrase)


def _endings(
    study: PhantomStudy, lateral: bool, statuses: dict[str, Status], choices: _Choices
) -> list[Sentence]:
    """Write sentences on at most two findings that have ended; add these to ``statuses``."""
    ended = [state for state in study.resolved.values() if state.known_from(lateral, True)]
    sentences: list[Sentence] = []
    for state in ended[:2]:
        statuses[state.finding] = "negative"
        phrase = wording.short(state, choices.number("ended_name", state.finding))
        # the last prose frame needs a singular phrase
        frames = by_style(WORDING.resolved, choices.style)[: 2 if phrase.plural else None]
        name = phrase.text.replace(" and ", " or ")
        frame = choices.pick(frames, "ended_frame", state.finding)
        sentences.append((capitalised(frame.format(name)), frozenset()))
    return sentences


def _denials(study: PhantomStudy, statuses: dict[str, Status], choices: _Choices) -> list[Sentence]:
    """Deny absent findings, those that ``denied`` names most often first; add them to
    ``statuses``. Heart and mediastinum have sentences of their own, the others share one."""
    absent = [
        (choices.number("denied", name) / prior.denied, name)
        for name, prior in FINDING_PRIORS.items()
        if name not in study.findings and name not in statuses and prior.denied > 0
    ]
    most = 3.2 if len(statuses) < _MANY else 2.0
    count = 1 + int(choices.number("denials") * most) + (not study.findings)
    chosen = [name for rank, name in sorted(absent) if rank < 1.4][:count]
    statuses.update(dict.fromkeys(chosen, "negative"))
    sentences: list[Sentence] = [
        (choices.frame(WORDING.absences[name], "absence", name), frozenset())
        for name in chosen
        if name in WORDING.absences
    ]
    # "pleural effusion or pleural thickening" could be read as one phrase, so thickening comes
    # first
    listed = sorted(
        (name for name in chosen if name not in WORDING.absences),
        key=lambda name: name != "pleural abnormality",
    )
    if listed:
        denial = wording.denial(listed, choices.style, choices.number("denial"))
        sentences.append((denial, frozenset()))
    return sentences


def _impression(
    study: PhantomStudy, stated: list[FindingState], prior: bool, choices: _Choices
) -> list[Sentence]:
    """Write at most three short sentences that repeat the most urgent findings."""
    if not stated:
        frames = WORDING.nothing_acute if study.findings else WORDING.normal
        return [(choices.frame(frames, "normal_summary"), frozenset())]
    ranked = sorted(stated, key=lambda s: FINDING_PRIORS[s.finding].urgency)
    count = 1 + int(choices.number("summaries") * (2.4 if len(stated) <= _MANY else 1.6))
    sentences: list[Sentence] = []
    for state in ranked[:count]:
        phrase = wording.short(state, choices.number("summary_name", state.finding))
        if state.certainty == "hedged":
            frames = WORDING.impression_hedges
        else:
            frames = WORDING.impression_changes[state.course] if prior else ("{0}.",)
        frame = choices.pick(frames, "summary_frame", state.finding)
        sentences.append((fill(frame, phrase), frozenset({state.finding})))
    return sentences


def contexts_of(study: PhantomStudy) -> tuple[Context, ...]:
    """Return the contexts for which an examination has the sources."""
    return contexts_within(study.has_lateral, study.prior is not None)


def report_of(study: PhantomStudy, context: Context) -> PhantomReport:
    """Return the fixed report of an examination for a context; always the same text."""
    return write_report(study, context, study.rng(_PURPOSE))


def fullest_report_of(study: PhantomStudy) -> PhantomReport:
    """Return the report that uses all sources of the examination; later examinations have it as
    their previous report."""
    return report_of(study, contexts_of(study)[-1])


def sample_texts(seed: int, count: int) -> list[PhantomReport]:
    """Write ``count`` reports of the world of ``seed``, one per examination, each in a random
    context that the examination supports."""

    def written() -> Iterator[PhantomReport]:
        for patient in make_world(seed, count):
            for study in patient.studies:
                rng = study.rng(_PURPOSE + 1)
                contexts = contexts_of(study)
                yield write_report(study, contexts[rng.integers(len(contexts))], rng)

    return list(islice(written(), count))
