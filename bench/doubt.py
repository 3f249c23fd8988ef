"""Learn the weights of ``pacer/commitments/rules/doubt.tsv``.

    python bench/doubt.py openi/reports.jsonl.gz phantom/records.parquet

The files are the reports of Open-I, with ``split``, ``findings`` and ``impression``, and the corpus
of the profile phantom; of Open-I, the train split is read. Run it when the tables of the rules have
changed: it takes a minute or two.

Two linear classifiers learn from ``blind_sentences.tsv``, which language models wrote without
knowing the rules, and from the reports and the sentences of the rules' tests, which count as read
rightly. One learns whether the rules misread a mention of a finding, the other which state the
mention has. A weight of the table is how much a feature speaks for a misreading, plus :data:`SHARE`
of how much it speaks for other states than the one that the rules read.

The threshold is set so that :data:`RIGHT` of the sentences that the rules read rightly are in
doubt, with weights that were learnt from the sentences of other writers. So are the shares that are
printed. No mention of the phantom may be in doubt: where the sum of one is above the threshold, its
feature that is rarest among the blind sentences counts less.
"""

import csv
import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import polars as pl
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.svm import LinearSVC

from pacer.commitments.anchor import POLARITIES
from pacer.commitments.rules import extract, polarity
from pacer.commitments.rules.doubt import PLACES, STATES
from pacer.commitments.rules.segments import located_segments

TABLE = Path(__file__).parents[1] / "pacer/commitments/rules/doubt.tsv"
BLIND = Path(__file__).with_name("blind_sentences.tsv")
TESTED = Path(__file__).parents[1] / "tests/unit/commitments/rules/sentences.tsv"
#: The share of rightly read sentences in doubt.
RIGHT = 0.185
#: Features of fewer blind mentions are left out.
RARE = 4
#: The inverse strength of the penalty of either classifier.
INVERSE_MISREAD, INVERSE_STATE = 0.02, 0.1
#: When the optimisation of either classifier stops.
TOLERANCE = 1e-3
#: How much a mention counts, where it is not 1: for the first classifier a blind one with a
#: reversed finding, and for either classifier one of a report and one of the tests' sentences.
REVERSED, OF_REPORTS, OF_TESTS = 20.0, (3.0, 2.0), (6.0, 3.0)
#: The share of the second classifier in the weights.
SHARE = 0.3
#: What speaks against a state that was read: how much each other state counts.
OTHERS = {
    "positive": {"negative": 0.7, "uncertain": 0.3},
    "negative": {"positive": 0.7, "uncertain": 0.3},
    "uncertain": {"positive": 0.5, "negative": 0.5},
    "unstated": {"positive": 0.5, "negative": 0.5},
}
#: The writers are divided into so many groups; each group is tested on the others' weights.
GROUPS = 3
#: Whole numbers in the table are weights times this; those up to SMALL are left out.
SCALE, SMALL = 60, 4
SIGNS = dict(zip("+-?", POLARITIES, strict=True))
_SIGNS = {"n": "\n", "t": "\t", "-": "\xad"}


class Sentence(NamedTuple):
    """A blind sentence: its writer, the state of each finding, and findings that do not count."""

    writer: int
    states: dict[str, str]
    ignored: set[str]
    text: str


class Instance(NamedTuple):
    """A mention of a finding: its features, the state that the rules read and its true state,
    whether it is misread; how much it counts for either classifier; and the number and writer of
    its sentence (-1 for reports)."""

    features: tuple[Sequence[str], ...]
    state: str
    truth: str
    misread: bool
    counts: tuple[float, float]
    sentence: int = -1
    writer: int = -1


def blind_sentences() -> list[Sentence]:
    """Read the sentences and their readings ("+ edema ? pneumonia ~ atelectasis"; ~: ignored)."""
    rows = [line for line in BLIND.read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    return [
        _sentence(**row) for row in csv.DictReader(rows, delimiter="\t", quoting=csv.QUOTE_NONE)
    ]


def _sentence(writer: str, reading: str, text: str) -> Sentence:
    states, ignored = {}, set[str]()
    for sign, findings in re.findall(r"([+?~-]) ([a-z, ]+)", reading):
        for finding in findings.strip().split(", "):
            if sign == "~":
                ignored.add(finding)
            else:
                states[finding] = SIGNS[sign]
    return Sentence(int(writer), states, ignored, _written(text))


def _written(text: str) -> str:
    """Return a text without the backslashes that stand for other signs in a file."""
    return re.sub(r"\\(.)", lambda sign: _SIGNS.get(sign[1], sign[1]), text)


def tested_sentences() -> set[str]:
    """Read the sentences of the rules' tests."""
    rows = TESTED.read_text(encoding="utf-8").splitlines()
    return {_written(row.split("\t")[-1]) for row in rows if not row.startswith("#")}


def read(text: str) -> tuple[dict[str, str], list[tuple[str, tuple[Sequence[str], ...]]]]:
    """Return the state of each finding of a text, and the state and features of its mentions."""
    mentions = []

    def note(state: str, found: tuple[Sequence[str], ...]) -> bool:
        mentions.append((state, found))
        return False

    extract.read_report.cache_clear()
    extract.segment_readings.cache_clear()
    with patch.object(polarity, "is_doubtful", note):
        anchor = extract.extract_anchor(text)
    extract.read_report.cache_clear()
    extract.segment_readings.cache_clear()
    return {f: name for name in POLARITIES for f in getattr(anchor, name)}, mentions


def misread(sentence: Sentence, found: dict[str, str]) -> tuple[set[str], set[str]]:
    """Return the findings whose states are wrong, and those of them that are reversed."""
    wanted = sentence.states
    wrong = {
        finding
        for finding in (found.keys() | wanted.keys()) - sentence.ignored
        if found.get(finding) != wanted.get(finding)
    }
    both = {"positive", "negative"}
    return wrong, {one for one in wrong if {found.get(one), wanted.get(one)} == both}


def blind_mentions(sentences: Sequence[Sentence]) -> Iterator[Instance]:
    """Yield the mentions in the sentences."""
    for number, sentence in enumerate(sentences):
        found, mentions = read(sentence.text)
        wrong, turned = misread(sentence, found)
        for state, features in mentions:
            named = {one[2:] for one in features[2] if one.startswith("= ")}
            misreadings = sorted(wrong & named)
            truth = sentence.states.get(misreadings[0], "unstated") if misreadings else state
            counts = (REVERSED if turned & named else 1.0, 1.0)
            yield Instance(
                *(features, state, truth, bool(misreadings), counts),
                sentence=number,
                writer=sentence.writer,
            )


def plain_mentions(texts: Iterable[str], counts: tuple[float, float]) -> Iterator[Instance]:
    """Yield the mentions in some texts that count as read rightly."""
    for text in sorted(texts):
        for state, features in read(text)[1]:
            yield Instance(features, state, state, False, counts)


def segments(reports: Iterable[str]) -> set[str]:
    """Return the distinct segments of reports."""
    return {segment for report in reports for segment, _ in located_segments(report)}


def names(features: Iterable[Sequence[str]], state: str) -> list[str]:
    """Return the features of a mention as rows of the table name them."""
    return sorted(
        f"{place}{state}\t{one}"
        for place, ones in zip(PLACES, features, strict=True)
        for one in ones
    )


def fitted(mentions: Sequence[Instance]) -> dict[str, int]:
    """Return the weight of each row of the table."""
    weights = of_misreading(mentions)
    for (state, feature), weight in against(mentions).items():
        place, _, one = feature.partition("\t")
        name = f"{place}{state}\t{one}"
        weights[name] = weights.get(name, 0.0) + SHARE * weight
    rounded = {name: round(SCALE * weight) for name, weight in weights.items()}
    return {
        name: weight
        for name, weight in rounded.items()
        if abs(weight) > SMALL or name.endswith("\tany")
    }


def of_misreading(mentions: Sequence[Instance]) -> dict[str, float]:
    """Return how much each feature of a state speaks for a misreading."""
    vectorizer = CountVectorizer(analyzer=list, min_df=RARE)
    vectorizer.fit(names(one.features, one.state) for one in mentions if one.sentence >= 0)
    present = vectorizer.transform(names(one.features, one.state) for one in mentions)
    model = LinearSVC(C=INVERSE_MISREAD, dual=False, tol=TOLERANCE)
    model.fit(
        present,
        [one.misread for one in mentions],
        sample_weight=[one.counts[0] for one in mentions],
    )
    weights = dict(zip(vectorizer.get_feature_names_out(), model.coef_[0].tolist(), strict=True))
    for state in STATES:
        always = f"{state}\tany"
        weights[always] = weights.get(always, 0.0) + float(model.intercept_[0])
    return weights


def against(mentions: Sequence[Instance]) -> dict[tuple[str, str], float]:
    """Return how much each feature speaks against each state, from what the true states are."""
    vectorizer = CountVectorizer(analyzer=list, min_df=RARE)
    vectorizer.fit(names(one.features, "") for one in mentions if one.sentence >= 0)
    present = vectorizer.transform(names(one.features, "") for one in mentions)
    model = LinearSVC(C=INVERSE_STATE, dual=False, tol=TOLERANCE)
    model.fit(
        present,
        [one.truth for one in mentions],
        sample_weight=[one.counts[1] for one in mentions],
    )
    columns = vectorizer.get_feature_names_out().tolist()
    coefficients = np.array(model.coef_)
    coefficients[:, columns.index("\tany")] += model.intercept_
    of_state = dict(zip(model.classes_, coefficients, strict=True))
    found = {}
    for state, others in OTHERS.items():
        instead = sum(share * of_state[other] for other, share in others.items())
        weights = (instead - of_state[state]).tolist()
        found |= {(state, one): weight for one, weight in zip(columns, weights, strict=True)}
    return found


def total(mention: Instance, weights: Mapping[str, int]) -> int:
    """Return the sum of the weights of a mention, which is doubtful if it is positive."""
    return sum(weights.get(name, 0) for name in names(mention.features, mention.state))


def highest(mentions: Iterable[Instance], weights: Mapping[str, int]) -> dict[int, int]:
    """Return the highest sum of the mentions of each sentence."""
    found: dict[int, int] = {}
    for mention in mentions:
        of_mention = total(mention, weights)
        found[mention.sentence] = max(of_mention, found.get(mention.sentence, of_mention))
    return found


def spare(
    weights: dict[str, int], mentions: Iterable[Instance], threshold: int, blind: Sequence[Instance]
) -> None:
    """Lower weights until none of these mentions has a sum above the threshold: of each one's
    features, the weight of that which the fewest blind mentions have."""
    common = Counter(name for one in blind for name in set(names(one.features, one.state)))
    for mention in mentions:
        excess = total(mention, weights) - threshold
        if excess > 0:
            of_mention = names(mention.features, mention.state)
            rarest = min(of_mention, key=lambda name: (common[name], name))
            weights[rarest] = weights.get(rarest, 0) - excess


def write(rows: Iterable[str]) -> None:
    """Replace the rows of the table, whose first two lines stay."""
    head = TABLE.read_text(encoding="utf-8").splitlines()[:2]
    TABLE.write_text("\n".join([*head, *rows]) + "\n", encoding="utf-8")


def openi_texts(path: Path) -> list[str]:
    """Read the sections of Open-I's train reports."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if row["split"] == "train"]
    return [row[part] for row in rows for part in ("findings", "impression") if row[part]]


def main(openi: Path, phantom: Path) -> None:
    openi_reports = openi_texts(openi)
    records = pl.read_parquet(phantom)
    phantom_reports = pl.concat([records["report"], records["report_raw"]]).unique().sort()

    sentences = blind_sentences()
    blind = list(blind_mentions(sentences))
    of_phantom = list(plain_mentions(segments(phantom_reports), OF_REPORTS))
    plain = [
        *plain_mentions(segments(openi_reports), OF_REPORTS),
        *plain_mentions(tested_sentences(), OF_TESTS),
        *of_phantom,
    ]
    writers = sorted({sentence.writer for sentence in sentences})
    sums: dict[int, int] = {}
    for group in range(GROUPS):
        tested = writers[group::GROUPS]
        others = [mention for mention in blind if mention.writer not in tested]
        theirs = [mention for mention in blind if mention.writer in tested]
        sums |= highest(theirs, fitted(others + plain))
    states = {
        number: misread(sentences[number], read(sentences[number].text)[0]) for number in sums
    }
    kinds = {
        "right": [sums[number] for number, (wrong, _) in states.items() if not wrong],
        "wrong": [sums[number] for number, (wrong, _) in states.items() if wrong],
        "reversed": [sums[number] for number, (_, turned) in states.items() if turned],
    }
    threshold = int(np.quantile(kinds["right"], 1 - RIGHT))
    for kind, values in kinds.items():
        print(f"{kind}: {np.mean(np.array(values) > threshold):.3f} of {len(values)} in doubt")

    weights = fitted(blind + plain)
    spare(weights, of_phantom, threshold, blind)
    for state in STATES:
        weights[f"{state}\tany"] -= threshold
    rows = sorted(weights.items(), key=lambda row: (-row[1], row[0]))
    write([f"{name}\t{weight}" for name, weight in rows])


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
