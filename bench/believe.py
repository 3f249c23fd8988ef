"""Which score can be believed? Every score of a report with other words for the same facts, against
one with a fault.

``python bench/believe.py --chexbert models/backbones/chexbert`` writes synthetic reports and takes
each as its own reference. Rewordings keep the facts: sentences in another order, British spelling,
a numbered list, and another report that the generator writes of the same study with equal findings
and attributes. A fault changes a share of the sentences that have room for it, at least one. The
first table has what each fault costs; the second P(score of the reworded report > score of the
faulty one) over pairs of one report, ties as one half. CheXbert's F1 is that of the labeller given,
which is a stand-in where no other is at hand.
"""

import itertools
import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from measuring import options_of, table
from pycocoevalcap.cider.cider import Cider

import pacer
from pacer.commitments.attributes import read_attributes
from pacer.data.cleaning import clean_report
from pacer.data.findings import FINDINGS
from pacer.metrics.clinical import CONVENTIONS, averaged, label_rows
from pacer.metrics.commitments import KINDS, attribute_share
from pacer.metrics.nlg import bleu, bleu_statistics
from pacer.metrics.scores import score_of
from pacer.phantom.language import PhantomReport, contexts_of, report_of, write_report
from pacer.phantom.world import make_world

DOSES, UNCHANGED = (0.25, 0.5, 1.0), "unchanged"
#: Words and what takes their place: ``old new old new``.
BRITISH = "edema oedema visualized visualised tumor tumour center centre"
SIDES = "left right right left"
SEVERITIES = (
    "mild severe severe mild small large large small moderate severe mildly severely "
    "severely mildly moderately severely"
)
COURSES = (
    "increased decreased decreased increased increase decrease decrease increase "
    "worsening improving improving worsening worsened improved improved worsened worse better "
    "improvement worsening progressed improved new decreased unchanged increased "
    "stable decreased persistent new"
)


def exchanged(pairs: str, text: str) -> str:
    """Replace words by others; the case of the first letter stays."""
    listed = pairs.split()
    words = dict(zip(listed[::2], listed[1::2], strict=True))

    def other(found: re.Match[str]) -> str:
        word = words[found[0].lower()]
        return word.capitalize() if found[0][0].isupper() else word

    return re.sub(rf"\b(?:{'|'.join(words)})\b", other, text, flags=re.I)


def denied(text: str, findings: frozenset[str]) -> str:
    return " ".join(f"There is no {one}." for one in sorted(findings)) or text


#: Fault -> change of one sentence with its findings; a sentence that stays the same has no room for
#: it. An invented finding needs the study: see :func:`faulty`.
FAULTS: dict[str, Callable[[str, frozenset[str]], str]] = {
    "finding denied": denied,
    "finding dropped": lambda text, findings: "" if findings else text,
    "finding invented": lambda text, _: text,
    "side swapped": lambda text, _: exchanged(SIDES, text),
    "severity wrong": lambda text, _: exchanged(SEVERITIES, text),
    "course reversed": lambda text, _: exchanged(COURSES, text),
    "sentence repeated": lambda text, _: f"{text} {text}",
}


def faulty(
    report: PhantomReport, fault: str, dose: float, draw: random.Random
) -> tuple[str, int, int] | None:
    """Return a report with a fault in a share of its sentences, the number of findings that these
    state, and of those that had room (a sentence without one counts as one); None if none had."""
    sentences = report.sentences
    changed = [FAULTS[fault](text, findings) for text, findings in sentences]
    absent = [name for name in FINDINGS if name not in report.statuses]
    if fault == "finding invented" and absent:
        changed = [f"{text} There is {draw.choice(absent)}." for text, _ in sentences]
    room = [place for place, (text, _) in enumerate(sentences) if changed[place] != text]
    if not room:
        return None
    chosen = draw.sample(room, max(1, round(dose * len(room))))
    texts = [changed[at] if at in chosen else text for at, (text, _) in enumerate(sentences)]
    stated, possible = (
        len({name for place in places for name in sentences[place][1] or (place,)})
        for places in (chosen, room)
    )
    return " ".join(filter(None, texts)), stated, possible


def varied(report: PhantomReport) -> str:
    """Return another report of the study with the same statuses and attributes, or the same report
    if forty tries find none."""
    wanted = report.statuses, read_attributes(report.text)
    for attempt in range(40):
        other = write_report(report.study, report.context, report.study.rng(1000 + attempt))
        if (other.statuses, read_attributes(other.text)) == wanted and other.text != report.text:
            return other.text
    return report.text


def shuffled(report: PhantomReport, draw: random.Random) -> str:
    return " ".join(draw.sample([text for text, _ in report.sentences], len(report.sentences)))


def numbered(report: PhantomReport) -> str:
    return " ".join(f"{n}. {text}" for n, (text, _) in enumerate(report.sentences, 1))


#: Rewording -> the report in other words; the same text: there are none.
REWORDINGS: dict[str, Callable[[PhantomReport, random.Random], str]] = {
    "other order": shuffled,
    "British spelling": lambda report, _: exchanged(BRITISH, report.text),
    "list": lambda report, _: numbered(report),
    "other report": lambda report, _: varied(report),
}


def scores_of(
    references: dict[str, str], texts: dict[tuple[str, str], str], chexbert: Path | None
) -> pl.DataFrame:
    """Return each score of each text, by ``change`` and ``study``; NaN where it is undefined.
    Repetition is turned round. ``texts``: by change and study."""
    ids = {f"{number}": key for number, key in enumerate(texts)}
    expected = {name: references[study] for name, (_, study) in ids.items()}
    given = {name: texts[key] for name, key in ids.items()}
    cases = pacer.score(expected, given, chexbert=chexbert).cases
    pairs = cases["reference"].to_list(), cases["hypothesis"].to_list()
    _, cider = Cider().compute_score(
        *({row: [text] for row, text in enumerate(side)} for side in pairs)
    )
    rule = CONVENTIONS["llm-rg4"]

    def by_case(key: str) -> np.ndarray:
        sums = score_of(key).sums
        assert sums is not None
        return sums.score(sums.rows(cases, rule), rule)

    rows, attributes = bleu_statistics(*pairs), np.array(cases["attributes"].to_list(), dtype=float)
    found = {
        "BLEU-1": bleu(rows, 1),
        "BLEU-4": bleu(rows, 4),
        "ROUGE-L": cases["rougeL"].to_numpy(),
        "METEOR": cases["meteor"].to_numpy(),
        "CIDEr": np.asarray(cider),
        "positive F1": by_case("report_positive_f1"),
        "exact F1": by_case("exact_f1"),
        "attributes": attribute_share(attributes),
        **{kind: attribute_share(attributes, kind) for kind in KINDS},
        "1 − repetition": 1 - cases["hypothesis_repetition"].cast(pl.Float64).to_numpy(),
    }
    if chexbert is not None:
        found["CheXbert's F1"] = averaged(label_rows(cases, rule), "f1", rule.averages[0])
    change, study = zip(*(ids[name] for name in cases["record_id"]), strict=True)
    return pl.DataFrame({"change": change, "study": study, **found})


def tables(found: pl.DataFrame, shares: dict[str, str]) -> list[str]:
    """Return what each change costs, and how often a score puts a rewording above a fault, as
    Markdown. ``shares``: of sentences with room that each fault changed, by change."""
    names = [name for name in found.columns if name not in ("change", "study")]
    parts = {change: part for (change,), part in found.group_by("change", maintain_order=True)}
    whole, reworded = parts.pop(UNCHANGED), pl.concat(parts[kind] for kind in REWORDINGS)
    changes, scores = [], []
    for change, part in parts.items():
        pairs = whole.join(part, on="study", suffix=" now")
        drops = [(pairs[name] - pairs[f"{name} now"]).drop_nans().mean() for name in names]
        cells = ["–" if drop is None else f"{drop:+.3f}" for drop in drops]
        changes.append([change.partition(",")[0], str(len(pairs)), shares.get(change, ""), *cells])

    def above(name: str, change: str) -> str:
        pairs = reworded.join(parts[change], on="study", suffix=" now")
        both = pairs.select(name, f"{name} now").drop_nans().to_numpy()
        return f"{np.sign(both[:, 0] - both[:, 1]).mean() / 2 + 0.5:.2f}" if len(both) else "–"

    for name in names:
        ends = [[above(name, f"{fault}, {DOSES[end]}") for end in (0, -1)] for fault in FAULTS]
        scores.append([name, *map(" → ".join, ends)])
    first = table(["Change", "reports", "planted", *names], changes)
    return first + table(["Score", *FAULTS], scores)


def main() -> None:
    options = options_of(
        __doc__,
        chexbert={"type": Path, "default": None},
        reports={"type": int, "default": 300},
        seed={"type": int, "default": 106},
    )
    world = make_world(options.seed, options.reports)
    studies = [study for patient in world for study in patient.studies]
    made = (report_of(study, contexts_of(study)[-1]) for study in studies)
    named = [report for report in made if any(names for _, names in report.sentences)]
    reports = {report.study.study_id: report for report in named[: options.reports]}
    draw, shares = random.Random(options.seed), {}
    references = {study: clean_report(report.text) for study, report in reports.items()}
    texts = {(UNCHANGED, study): text for study, text in references.items()}
    for kind, reword in REWORDINGS.items():
        for study, report in reports.items():
            text = clean_report(reword(report, draw))
            if text != references[study]:
                texts[kind, study] = text
    for fault, dose in itertools.product(FAULTS, DOSES):
        planted = np.zeros(2)
        for study, report in reports.items():
            changed = faulty(report, fault, dose, draw)
            if changed is not None and changed[0]:
                texts[f"{fault}, {dose}", study] = clean_report(changed[0])
                planted += changed[1:]
        shares[f"{fault}, {dose}"] = f"{planted[0] / planted[1]:.2f}"
    print(*tables(scores_of(references, texts, options.chexbert), shares), sep="\n")


if __name__ == "__main__":
    main()
