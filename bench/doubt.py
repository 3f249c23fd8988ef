"""Learn the weights of ``pacer/commitments/rules/doubt.tsv``.

    python bench/doubt.py openi/reports.jsonl.gz phantom/records.parquet

The files are the reports of Open-I, with ``split``, ``findings`` and ``impression``, and the corpus
of the profile phantom; of Open-I, the train split is read. Run it when the tables of the rules have
changed: it takes less than a minute.

A linear classifier learns from ``blind_sentences.tsv``, which language models wrote without knowing
the rules, and from the reports, which count as read rightly. The threshold is set so that
:data:`RIGHT` of the sentences that the rules read rightly are in doubt, with weights that were
learnt from the sentences of other writers. So are the shares that are printed. The table leaves no
report of the phantom in doubt.
"""

import csv
import gzip
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import polars as pl
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.svm import LinearSVC

from pacer.commitments.anchor import POLARITIES
from pacer.commitments.rules import extract, polarity
from pacer.commitments.rules.segments import located_segments

TABLE = Path(__file__).parents[1] / "pacer/commitments/rules/doubt.tsv"
BLIND = Path(__file__).with_name("blind_sentences.tsv")
#: The share of rightly read sentences in doubt.
RIGHT = 0.24
#: Features of fewer blind segments are left out.
RARE = 4
#: The inverse strength of the penalty.
INVERSE = 0.03
#: How much a segment counts: a blind one with a reversed finding (others: 1), and one of a report.
REVERSED, OPENI, PHANTOM = 6.0, 0.3, 15.0
#: The writers are divided into so many groups; each group is tested on the others' weights.
GROUPS = 20
#: Whole numbers in the table are weights times this.
SCALE = 20
#: The feature of every segment.
ANY = "segment\tany"
SIGNS = dict(zip("+-?", POLARITIES, strict=True))


class Sentence(NamedTuple):
    """A blind sentence: its writer, the state of each finding, and findings that do not count."""

    writer: int
    states: dict[str, str]
    ignored: set[str]
    text: str


class Segment(NamedTuple):
    """The features of a segment, each with what it is of before it; whether it is misread; how much
    it counts; and the number and writer of its sentence (-1 for reports)."""

    features: set[str]
    misread: bool
    weight: float
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
    plain = re.sub(r"\\(.)", lambda sign: {"n": "\n"}.get(sign[1], sign[1]), text)
    return Sentence(int(writer), states, ignored, plain)


def read(text: str) -> tuple[dict[str, str], list[tuple[set[str], set[str]]]]:
    """Return the state of each finding of a text, and the features and findings of its segments."""
    segments = []

    def note(found: Mapping[str, Set[str]]) -> bool:
        features = {f"{kind}\t{one}" for kind, ones in found.items() for one in ones}
        named = {one[2:] for ones in found.values() for one in ones if one.startswith("= ")}
        segments.append((features, named))
        return False

    extract.read_report.cache_clear()
    extract.segment_readings.cache_clear()
    with patch.object(polarity, "is_doubtful", note):
        anchor = extract.extract_anchor(text)
    extract.read_report.cache_clear()
    extract.segment_readings.cache_clear()
    return {f: name for name in POLARITIES for f in getattr(anchor, name)}, segments


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


def blind_segments(sentences: Sequence[Sentence]) -> Iterator[Segment]:
    """Yield the segments of the sentences."""
    for number, sentence in enumerate(sentences):
        found, segments = read(sentence.text)
        wrong, turned = misread(sentence, found)
        for features, named in segments:
            weight = REVERSED if turned & named else 1.0
            yield Segment(features, bool(wrong & named), weight, number, sentence.writer)


def plain_segments(reports: Iterable[str], weight: float) -> Iterator[Segment]:
    """Yield the distinct segments of reports."""
    for text in sorted({segment for report in reports for segment, _ in located_segments(report)}):
        yield from (Segment(features, False, weight) for features, _ in read(text)[1])


def fitted(segments: Sequence[Segment]) -> dict[str, float]:
    """Return the weights of the features; that of :data:`ANY` is the intercept."""
    vectorizer = CountVectorizer(analyzer=list, min_df=RARE)
    vectorizer.fit(sorted(one.features) for one in segments if one.sentence >= 0)
    present = vectorizer.transform(sorted(one.features) for one in segments)
    model = LinearSVC(C=INVERSE, dual=False, max_iter=10000)
    model.fit(
        present,
        [one.misread for one in segments],
        sample_weight=[one.weight for one in segments],
    )
    table = dict(zip(vectorizer.get_feature_names_out(), model.coef_[0].tolist(), strict=True))
    return table | {ANY: table.get(ANY, 0.0) + float(model.intercept_[0])}


def scores(segments: Iterable[Segment], weights: Mapping[str, float]) -> dict[int, float]:
    """Return the highest sum of the segments of each sentence."""
    highest: dict[int, float] = {}
    for segment in segments:
        total = sum(weights.get(feature, 0.0) for feature in segment.features)
        highest[segment.sentence] = max(total, highest.get(segment.sentence, total))
    return highest


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
    blind = list(blind_segments(sentences))
    of_phantom = list(plain_segments(phantom_reports, PHANTOM))
    plain = [*plain_segments(openi_reports, OPENI), *of_phantom]
    writers = sorted({sentence.writer for sentence in sentences})
    sums: dict[int, float] = {}
    for group in range(GROUPS):
        tested = writers[group::GROUPS]
        others = [segment for segment in blind if segment.writer not in tested]
        theirs = [segment for segment in blind if segment.writer in tested]
        sums |= scores(theirs, fitted(others + plain))
    states = {
        number: misread(sentences[number], read(sentences[number].text)[0]) for number in sums
    }
    kinds = {
        "right": [sums[number] for number, (wrong, _) in states.items() if not wrong],
        "wrong": [sums[number] for number, (wrong, _) in states.items() if wrong],
        "reversed": [sums[number] for number, (_, turned) in states.items() if turned],
    }
    threshold = float(np.quantile(kinds["right"], 1 - RIGHT))
    for kind, values in kinds.items():
        print(f"{kind}: {np.mean(np.array(values) > threshold):.3f} of {len(values)} in doubt")

    weights = fitted(blind + plain)
    weights[ANY] -= threshold
    numbers = {name: round(SCALE * weight) for name, weight in weights.items()}
    numbers[ANY] -= int(max(0, *scores(of_phantom, numbers).values()))
    rows = sorted(numbers.items(), key=lambda row: (-row[1], row[0]))
    write([f"{name}\t{weight}" for name, weight in rows if weight])


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
