"""Findings and impression of an examination in the style of radiologists, with the statuses that
the text states.

The context determines the content of a report. Without a previous report there is no comparison of
any kind. Without a lateral view, lateral-only findings are not mentioned, either as present or as
absent.

The tokenizer of these texts has Llama's layout (``<unk>`` 0, ``<s>`` 1, ``</s>`` 2, the 256 byte
tokens, then the learned pieces), dummy space before the first word, and byte fallback, so texts map
to tokens as with the real model. It is trained on a fixed sample of cleaned reports, commitments
and prompts: the same vocabulary size always yields the same tokenizer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Literal

import numpy as np

from pacer.core.contexts import Context, availability, contexts_within
from pacer.core.findings import FINDINGS
from pacer.phantom import wording
from pacer.phantom.wording import WORDING, Option, Phrase, Style, by_style, fill, pick
from pacer.phantom.world import FINDING_PRIORS, FindingState, PhantomStudy, make_world
from pacer.text.cleaning.cleaners import clean_report

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Status = Literal["positive", "negative", "uncertain"]
Sentence = tuple[str, frozenset[str]]

#: Tokens of the bundled language model, to which the corpus's emphasis marks refer.
VOCABULARY = 1200
#: Share of reports with both sections.
_BOTH = 0.62
#: Share of reports with only the findings section; the rest have only the impression.
_FINDINGS_ALONE = 0.20
#: Share of reports with a previous report that open with a comparison phrase.
_OPENING = 0.30
#: Share of definite statements with a detail, by style.
_DETAIL = {"terse": 0.20, "plain": 0.38, "prose": 0.45, "numbered": 0.35}
#: Share of reports that state two findings in one sentence.
_JOINED = 0.25
#: Share of reports that add the absence of a finding to a statement.
_WITHOUT = 0.15
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
#: Decisions on a whole report, and on one finding, in the order of their draws; each is used at one
#: place.
_OF_REPORT = (
    "style",
    "is_compared",
    "comparison",
    "denies_first",
    "says_clear",
    "clear",
    "has_remark",
    "remark",
    "remarks_first",
    "normal",
    "sections",
    "joins",
    "names_absent",
    "absent",
    "denials",
    "denial",
    "silhouette_alone",
    "denies_apart",
    "denies_in_reverse",
    "summaries",
    "normal_summary",
)
_OF_FINDING = (
    "order",
    "name",
    "detail",
    "frame",
    "has_clause",
    "clause",
    "elaboration",
    "absent_name",
    "second_name",
    "ended_name",
    "ended_frame",
    "denied",
    "silhouette",
    "summary_name",
    "summary_frame",
)
SPECIAL_TOKENS = ("<unk>", "<s>", "</s>")
_BYTES = tuple(f"<0x{value:02X}>" for value in range(256))
#: Maximum number of distinct characters learned.
_LETTERS = 100
#: Seed and number of the reports that the tokenizer is trained on.
_SAMPLE_SEED = 20_240_607
_SAMPLE_SIZE = 5_000
_TASKS = (
    "Human: <Img><ImageHere></Img> Write radiological finding and impression for this posterior "
    "anterior chest X-ray visual feature. Assistant:",
    "Human: <Img><ImageHere></Img> Write radiological finding section of report for this anterior "
    "posterior chest X-ray visual feature. First output <ANCHOR> positive, negative and uncertain "
    "findings, then output the final report in <REPORT>. Assistant:",
    "Write radiological impression section of report for this posterior anterior chest X-ray "
    "visual feature",
    "Write radiological finding section of report for chest X-ray examination",
)


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
    """Random choices that depend only on the current text element, not on the text before it.

    So the reports of an examination in different contexts share their style, and their wording for
    the same statements.
    """

    def __init__(self, rng: np.random.Generator):
        self._of_report = dict(zip(_OF_REPORT, rng.random(len(_OF_REPORT)).tolist(), strict=True))
        of_findings = rng.random((len(FINDINGS), len(_OF_FINDING))).tolist()
        self._of_findings = {
            name: dict(zip(_OF_FINDING, row)) for name, row in zip(FINDINGS, of_findings)
        }
        drawn = self.number("style")
        self.style: Style = next(style for style, share in wording.STYLES.items() if drawn < share)

    def number(self, decision: str, finding: str = "") -> float:
        return (self._of_findings[finding] if finding else self._of_report)[decision]

    def pick(self, options: Sequence[Option], decision: str, finding: str = "") -> Option:
        return pick(options, self.number(decision, finding))

    def phrase(self, state: FindingState) -> Phrase:
        return wording.describe(
            state, self.number("name", state.finding), self.number("detail", state.finding)
        )

    def frame(self, frames: Sequence[str], state: FindingState) -> str:
        return self.pick(frames, "frame", state.finding)


def write_report(study: PhantomStudy, context: Context, rng: np.random.Generator) -> PhantomReport:
    """Write the report of an examination for one of its contexts; equal generators give all of them
    the same wording."""
    lateral, prior = availability(context)
    choices = _Choices(rng)
    stated = [s for s in study.findings.values() if s.known_from(lateral, prior)]
    statuses: dict[str, Status] = {
        state.finding: "uncertain" if state.certainty == "hedged" else "positive"
        for state in stated
    }
    body = _statements(stated, study, prior, statuses, choices)
    if prior and body and choices.number("is_compared") < _OPENING:
        opening = choices.pick(WORDING.compared, "comparison")
        sentence, names = body[0]
        if not sentence[:2].isupper():
            sentence = sentence[0].lower() + sentence[1:]
        body[0] = (f"{opening}, {sentence}", names)
    body += _endings(study, lateral, prior, statuses, choices)
    denials = _denials(study, statuses, choices)
    body = denials + body if choices.number("denies_first") < 0.2 else body + denials
    if study.findings.keys() <= _OUTSIDE_LUNGS and choices.number("says_clear") < 0.7:
        body.insert(0, (choices.pick(by_style(WORDING.clear, choices.style), "clear"), frozenset()))
    if choices.number("has_remark") < _REMARK and len(stated) < _MANY:
        remark = choices.pick(wording.remarks(study, choices.style), "remark")
        place = 0 if choices.number("remarks_first") < 0.3 else len(body)
        body.insert(place, (remark, frozenset()))
    summary = _impression(stated, prior, choices)
    if not body:
        body = [(choices.pick(by_style(WORDING.normal, choices.style), "normal"), frozenset())]
    shape = choices.number("sections")
    findings: list[Sentence] = []
    impression: list[Sentence] = []
    if shape < _BOTH:
        findings = body
        impression = summary
    elif shape < _BOTH + _FINDINGS_ALONE:
        findings = body
    else:
        impression = body
    if choices.style == "numbered" and len(impression) > 1:
        impression = [
            (f"{number}) {text}", names) for number, (text, names) in enumerate(impression, 1)
        ]
    return PhantomReport(
        findings=" ".join(text for text, _ in findings),
        impression=" ".join(text for text, _ in impression),
        sentences=tuple(findings + impression),
        statuses={name: statuses[name] for name in FINDINGS if name in statuses},
        context=context,
        study=study,
    )


def _statements(
    stated: list[FindingState],
    study: PhantomStudy,
    prior: bool,
    statuses: dict[str, Status],
    choices: _Choices,
) -> list[Sentence]:
    """Write the sentences that state or hedge findings; some state two findings, or add the absence
    of another."""
    ordered = sorted(stated, key=lambda s: choices.number("order", s.finding))
    pair = _pair(ordered, prior) if choices.number("joins") < _JOINED else None
    absent = None
    if choices.number("names_absent") < _WITHOUT:
        free = [
            name
            for name in _NAMED_ABSENT
            if name not in study.findings and name not in study.resolved
        ]
        absent = choices.pick(tuple(free), "absent") if free else None
    body: list[Sentence] = []
    for state in ordered:
        if pair and state is pair[1]:
            continue
        if pair and state is pair[0]:
            first, second = pair
            also = wording.short(second, choices.number("second_name", second.finding))
            frames = by_style(WORDING.joint, choices.style)
            if prior:
                frames = WORDING.joint_changes[first.course]
            sentence = fill(choices.frame(frames, first), choices.phrase(first), also)
            body.append((sentence, frozenset({first.finding, second.finding})))
        elif (
            absent
            and not prior
            and state.certainty == "definite"
            and state.finding != "support devices"
        ):
            name = choices.pick(WORDING.denied_names[absent], "absent_name", state.finding)
            frame = choices.frame(by_style(WORDING.without, choices.style), state)
            sentence = fill(frame, choices.phrase(state), absent=name)
            body.append((sentence, frozenset({state.finding})))
            statuses[absent] = "negative"
            absent = None
        else:
            sentence = _statement(state, prior, choices, len(stated) < _MANY)
            body.append((sentence, frozenset({state.finding})))
    return body


def _pair(states: list[FindingState], prior: bool) -> tuple[FindingState, FindingState] | None:
    """Find the first two definite findings that can share a sentence; with a previous report, their
    course is equal."""
    candidates = [
        state
        for state in states
        if state.finding != "support devices"
        and not state.lateral_only
        and state.certainty == "definite"
    ]
    for first, second in combinations(candidates, 2):
        if not prior or first.course == second.course:
            return first, second
    return None


def _statement(state: FindingState, prior: bool, choices: _Choices, detailed: bool) -> str:
    """Write the sentence that states or hedges one finding, with a visible detail if ``detailed``
    allows it."""
    finding = state.finding
    hedged = state.certainty == "hedged"
    if not prior and not hedged and choices.number("has_clause", finding) < _CLAUSE:
        sentence = wording.clause(state, choices.number("clause", finding))
        if sentence:
            return sentence
    phrase = choices.phrase(state)
    detail = choices.number("elaboration", finding)
    share = _DETAIL[choices.style]
    if detailed and not hedged and detail < share:
        phrase = wording.elaborate(state, phrase, detail / share)
    if prior:
        # verbs such as "develop" do not suit devices
        style = "plain" if finding == "support devices" else choices.style
        frames = by_style(WORDING.changes[state.course], style)
        if hedged:
            frames = WORDING.hedged_changes[state.course]
    else:
        frames = by_style(WORDING.hedges if hedged else WORDING.statements, choices.style)
    return fill(choices.frame(frames, state), phrase)


def _endings(
    study: PhantomStudy, lateral: bool, prior: bool, statuses: dict[str, Status], choices: _Choices
) -> list[Sentence]:
    """Write sentences on at most two findings that have ended; add these to ``statuses``."""
    ended = [s for s in study.resolved.values() if prior and s.known_from(lateral, prior)]
    sentences: list[Sentence] = []
    for state in ended[:2]:
        statuses[state.finding] = "negative"
        phrase = wording.short(state, choices.number("ended_name", state.finding))
        # the last prose frame needs a singular phrase
        frames = by_style(WORDING.resolved, choices.style)[: 2 if phrase.plural else None]
        name = phrase.text.replace(" and ", " or ")
        frame = choices.pick(frames, "ended_frame", state.finding)
        sentences.append((wording.capitalised(frame.format(name)), frozenset()))
    return sentences


def _denials(study: PhantomStudy, statuses: dict[str, Status], choices: _Choices) -> list[Sentence]:
    """Write up to three sentences that deny findings; add these to ``statuses``."""
    absent = [
        (choices.number("denied", name) / FINDING_PRIORS[name].denied, name)
        for name in FINDINGS
        if name not in study.findings and name not in statuses and FINDING_PRIORS[name].denied > 0
    ]
    absent = [name for rank, name in sorted(absent) if rank < 1.4]
    most = 3.2 if len(statuses) < _MANY else 2.0
    count = 1 + int(choices.number("denials") * most)
    if not study.findings:
        count += 1
    chosen = absent[:count]
    if not chosen:
        return []
    for name in chosen:
        statuses[name] = "negative"
    style = choices.style
    choice = choices.number("denial")
    silhouette = [name for name in chosen if name in ("cardiomegaly", "enlarged mediastinum")]
    if len(silhouette) == 2 and choices.number("silhouette_alone") < 0.4:
        silhouette = silhouette[:1]
    # "pleural effusion or pleural thickening" could be read as one phrase, so thickening comes
    # first
    listed = sorted(
        (name for name in chosen if name not in silhouette),
        key=lambda name: name != "pleural abnormality",
    )
    sentences: list[Sentence] = []
    if silhouette:
        frames = by_style(
            WORDING.both_absent if len(silhouette) == 2 else WORDING.absences[silhouette[0]], style
        )
        sentences.append((choices.pick(frames, "silhouette", silhouette[0]), frozenset()))
    if len(listed) == 2 and style == "terse" and choices.number("denies_apart") < 0.3:
        sentences += [(wording.denial([name], style, choice), frozenset()) for name in listed]
    elif listed:
        sentences.append((wording.denial(listed, style, choice), frozenset()))
    if choices.number("denies_in_reverse") < 0.5:
        sentences.reverse()
    return sentences


def _impression(stated: list[FindingState], prior: bool, choices: _Choices) -> list[Sentence]:
    """Write at most three short sentences that repeat the most urgent findings."""
    if not stated:
        return [
            (choices.pick(by_style(WORDING.normal, choices.style), "normal_summary"), frozenset())
        ]
    ranked = sorted(stated, key=lambda s: FINDING_PRIORS[s.finding].urgency)
    count = 1 + int(choices.number("summaries") * (2.4 if len(stated) < _MANY + 1 else 1.6))
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
    """Write ``count`` reports of separate worlds, one per examination, each in a random context
    that the examination supports."""
    reports: list[PhantomReport] = []
    chunk = 0
    size = max(count // 2, 8)
    while len(reports) < count:
        for patient in make_world(seed + 1_000_003 * chunk, size):
            for study in patient.studies:
                rng = study.rng(_PURPOSE + 1)
                contexts = contexts_of(study)
                weights = [_SAMPLED[context] for context in contexts]
                place = np.searchsorted(np.cumsum(weights), rng.random() * sum(weights))
                reports.append(write_report(study, contexts[int(place)], rng))
        chunk += 1
    return reports[:count]


def commitment_text(report: PhantomReport) -> str:
    """Format the statuses of a report as a commitment."""
    lists = {
        status: ", ".join(report.listed(status)[:8])
        for status in ("positive", "negative", "uncertain")
    }
    fields = "; ".join(f"{status}: {names or 'none'}" for status, names in lists.items())
    return f"<ANCHOR> {fields} </ANCHOR>"


@lru_cache(maxsize=1)
def _training_texts() -> tuple[str, ...]:
    texts: list[str] = []
    for report in sample_texts(_SAMPLE_SEED, _SAMPLE_SIZE):
        texts += [clean_report(report.text), commitment_text(report), "<REPORT>", "</REPORT>"]
    for patient in make_world(_SAMPLE_SEED + 1, 400):
        for study in patient.studies:
            texts += [f"INDICATION: {study.indication}. HISTORY: {study.history}."]
    return (*texts, *(_TASKS * 200), *(FINDINGS * 20))


@lru_cache(maxsize=4)
def phantom_tokenizer(vocabulary: int) -> "Tokenizer":
    """Return the tokenizer of the phantom's language model; see :func:`train_tokenizer`."""
    return train_tokenizer(_training_texts(), vocabulary)


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> "Tokenizer":
    """Learn a Llama-style tokenizer, which puts ``<s>`` first if special tokens are requested.
    ``decode`` inverts ``encode`` for every text that does not begin with a space; unlearned
    characters become byte tokens.

    Args:
        texts: training texts. They are split at newlines, so a newline is always a byte token.
        vocabulary: number of tokens, including the three special and 256 byte tokens; at least 260.
    """
    from tokenizers import (  # of the extra `pipeline`; reports need no tokenizer
        AddedToken,
        Tokenizer,
        decoders,
        models,
        pre_tokenizers,
        processors,
        trainers,
    )

    special = [*SPECIAL_TOKENS, *_BYTES]
    learner = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    learner.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first")
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        show_progress=False,
        special_tokens=special,
        limit_alphabet=min(_LETTERS, vocabulary - len(special)),
    )
    learner.train_from_iterator((line for text in texts for line in text.split("\n")), trainer)
    # without the learner's special tokens, so that byte tokens are ordinary
    tokenizer = Tokenizer(learner.model)
    tokenizer.add_special_tokens(
        [AddedToken(token, normalized=False, special=True) for token in SPECIAL_TOKENS]
    )
    tokenizer.pre_tokenizer = learner.pre_tokenizer
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    return tokenizer
