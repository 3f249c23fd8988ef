"""The cards by which a metric is judged: texts with planted faults, and texts with other words for
the same facts.

References are synthetic reports. A text of dose n has n faults of one kind, those of the smaller
doses among them: by the rules, exactly n findings differ from the reference. Other words change no
finding. The user's own references get other words alone, because only of synthetic reports it is
known what they state. Every random choice is a function of the seed and the reference.
"""

import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import polars as pl

from pacer.core.attributes import KINDS, Attributes
from pacer.core.contexts import availability
from pacer.core.findings import FINDINGS
from pacer.phantom.language import PhantomReport, contexts_of, report_of, write_report
from pacer.phantom.wording import WORDING, capitalised
from pacer.phantom.world import make_world
from pacer.text.cleaning.cleaners import raw_sentences
from pacer.text.rules import extract_anchor, read_attributes

FILE, UNCHANGED = "texts.csv", "unchanged"
COLUMNS = ("id", "patient_id", "reference", "text", "kind", "dose", "change")
OPPOSITE = "opposite stated"
#: Kind of fault -> the words that are exchanged, ``old new old new``: those of each attribute, then
#: those that deny a finding.
EXCHANGED = {
    "side swapped": "left right right left",
    "severity changed": "mild severe severe mild small large large small moderate severe "
    "mildly severely severely mildly moderately severely",
    "course reversed": "increased decreased decreased increased increase decrease decrease "
    "increase worsening improving improving worsening worsened improved improved worsened worse "
    "better improvement worsening progressed improved new decreased unchanged increased stable "
    "decreased persistent new",
    OPPOSITE: "present absent likely unlikely normal abnormal",
}
COMPARED, REPEATED, INVENTED = "comparison invented", "sentence repeated", "finding invented"


class Fault(NamedTuple):
    """How a fault is planted."""

    #: Which sentences are replaced: those that state a finding (:data:`STATING`), an empty one at
    #: the end for a finding that is not mentioned (:data:`UNMENTIONED`), or any one (:data:`ANY`).
    sentence: str
    #: What takes their place; a further sentence that states the finding is left out.
    replacement: str
    #: Number of findings that the rules then read differently.
    difference: int


STATING, UNMENTIONED, ANY = "stating", "unmentioned", "any"
FAULTS = {
    "finding denied": Fault(STATING, "No {name}.", 1),
    "finding dropped": Fault(STATING, "", 1),
    INVENTED: Fault(UNMENTIONED, "The study shows {name}.", 1),
    # all sentences that state the finding, with words exchanged
    **{kind: Fault(STATING, "{text}", 1) for kind in EXCHANGED},
    COMPARED: Fault(ANY, "{opening}, {lowered}", 0),
    REPEATED: Fault(ANY, "{text} {text}", 0),
}
#: The kinds of other words for the same facts.
WORDS = ("other order", "British spelling", "numbered list", "other report")
BRITISH = (
    "edema oedema edematous oedematous visualized visualised tumor tumour center centre "
    "esophagus oesophagus hemothorax haemothorax hemorrhage haemorrhage caliber calibre gray grey"
)


def exchanged(pairs: str, text: str) -> str:
    """Replace words by others, in small letters or with a capital."""
    each = iter(f"{pairs} {pairs.title()}".split())
    words = dict(zip(each, each))  # two at a time
    return re.sub(rf"\b(?:{'|'.join(words)})\b", lambda found: words[found[0]], text)


class Variant(NamedTuple):
    """A text made of a reference: the ``kind`` of its faults or other words, the number of faults
    (``dose``; 0: other words), and what was changed, in words."""

    text: str
    kind: str
    dose: int
    change: str


def facts(text: str) -> list[tuple]:
    """Return what the rules read in a text of each finding: its state, and its attributes."""
    anchor, attributes = extract_anchor(text), read_attributes(text)
    return [(anchor.polarity(name), attributes.get(name)) for name in FINDINGS]


def faulty_texts(kind: str, report: PhantomReport, draw: random.Random) -> list[Variant]:
    """Return the texts of one, two and three faults, and of all for which there is room."""
    fault = FAULTS[kind]
    sentences = [*report.sentences]
    targets = range(len(sentences)) if fault.sentence == ANY else FINDINGS
    if fault.sentence == UNMENTIONED:
        stated = {*report.statuses, *report.study.findings}
        unknown = [("", frozenset([name])) for name in FINDINGS if name not in stated]
        sentences = [(text, frozenset()) for text, _ in sentences] + unknown
    texts: list[Variant] = []
    changes: list[str] = []
    for target in draw.sample(targets, len(targets)):
        new = [*sentences]
        replacement = fault.replacement
        for at, (text, names) in enumerate(sentences):
            if target in (at, *names):
                changed = replacement.format(
                    name=target,
                    text=text,
                    opening=draw.choice(WORDING.compared),
                    lowered=f"{text[:1].lower()}{text[1:]}",
                )
                if kind in EXCHANGED:
                    changed = exchanged(EXCHANGED[kind], changed)
                else:
                    replacement = ""  # a finding that is denied is not mentioned again
                new[at] = changed, frozenset()
        text = " ".join(sentence for sentence, _ in new if sentence)
        differ = sum(map(tuple.__ne__, facts(report.text), facts(text)))
        if text and differ == fault.difference * (len(texts) + 1):
            changes += [f"{a} → {b}" for (a, _), (b, _) in zip(sentences, new) if a != b]
            sentences = new
            texts.append(Variant(text, kind, len(texts) + 1, " | ".join(changes)))
    return texts[:3] + texts[3:][-1:]


def with_opposites(report: PhantomReport) -> PhantomReport:
    """Return a report in words that have opposites: it first states each finding of another report
    as "present" or "likely", then has those of its sentences that affirm none."""
    anchor = extract_anchor(report.text).described(read_attributes(report.text))
    sentences = [
        (capitalised(f"{anchor.text(name)} {word}."), frozenset([name]))
        for names, word in ((anchor.positive, "present"), (anchor.uncertain, "likely"))
        for name in names
    ]
    sentences += [
        (text, frozenset(extract_anchor(text).negative))
        for text, names in report.sentences
        if not names
    ]
    text = " ".join(text for text, _ in sentences)
    return replace(report, findings=text, impression="", sentences=tuple(sentences))


def is_read_as_planned(sentence: str) -> bool:
    """Whether exchanging the words of a side, severity or course changes only this attribute of the
    findings that the rules read in a sentence."""

    def other_facts(text: str, kind: str) -> list[tuple]:
        cleared = {kind: frozenset[str]()}
        return [
            (state, (known or Attributes())._replace(**cleared)) for state, known in facts(text)
        ]

    return all(
        other_facts(exchanged(pairs, sentence), kind) == other_facts(sentence, kind)
        for kind, pairs in zip(KINDS, EXCHANGED.values())  # not of opposites
    )


def reworded_texts(text: str, draw: random.Random, others: Iterable[str] = ()) -> Iterator[Variant]:
    """Yield the rewordings of a text that change it and not its facts, and the first of ``others``
    that does."""
    sentences = raw_sentences(text)
    order = " ".join(draw.sample(sentences, len(sentences)))
    # without the numbers of a list, its form would change, too
    is_list = sorted(order.split()) != sorted(text.split())
    listed = " ".join(f"{number}. {one}" for number, one in enumerate(sentences, 1))
    tried = ([] if is_list else [order], [exchanged(BRITISH, text)], [listed], others)
    for kind, texts in zip(WORDS, tried, strict=True):
        right = (other for other in texts if other != text and facts(other) == facts(text))
        if found := next(right, None):
            yield Variant(found, kind, 0, kind)


def of_synthetic(seed: int, limit: int) -> Iterator[tuple]:
    """Yield the cards of synthetic reports, each of another patient; those of opposites are made of
    a second reference."""
    for patient in make_world(seed, limit):
        study = patient.studies[-1]
        draw = random.Random(f"{seed} {study.study_id}")
        report = report_of(study, draw.choice(contexts_of(study)))
        context = report.context
        # forty other reports are tried until one has the same facts
        others = [write_report(study, context, study.rng(1000 + n)).text for n in range(40)]
        texts = [*reworded_texts(report.text, draw, others)]
        for kind in FAULTS:
            if kind != OPPOSITE and (kind != COMPARED or not availability(context)[1]):
                texts += faulty_texts(kind, report, draw)
        yield from _cards(study.study_id, study.subject_id, report.text, texts)
        plain = with_opposites(report)
        faulty = faulty_texts(OPPOSITE, plain, draw)
        if faulty and plain.text != report.text:
            texts = [*reworded_texts(plain.text, draw, others), *faulty]
            yield from _cards(f"{study.study_id} plain", study.subject_id, plain.text, texts)


def of_reports(reports: pl.DataFrame, seed: int, limit: int) -> Iterator[tuple]:
    """Yield the cards of the user's references, rows of :class:`~pacer.tables.reports.Reports`.
    Only sentences that :func:`is_read_as_planned` accepts are used."""
    known = reports.select("id", "subject_id", "text").drop_nulls("text")
    for key, patient, text in known.unique("text", maintain_order=True).head(limit).iter_rows():
        sentences = raw_sentences(" ".join(text.split()))
        text = " ".join(one for one in sentences if is_read_as_planned(one))
        if text:
            variants = reworded_texts(text, random.Random(f"{seed} {key}"))
            yield from _cards(key, patient or key, text, variants)


def _cards(key: str, patient: str, reference: str, variants: Iterable[Variant]) -> Iterator[tuple]:
    """Yield a card for a reference as a text, and for each text made of it."""
    for text, kind, dose, change in (Variant(reference, UNCHANGED, 0, ""), *variants):
        yield f"{key}/{kind}/{dose}", patient, reference, text, kind, dose, change


def make_cards(cards: Iterable[tuple]) -> pl.DataFrame:
    """Return the table of the cards."""
    return pl.DataFrame([*cards], COLUMNS, orient="row")
