"""The ledger of findings: verdicts by hand, and scores that are sums over its rows."""

from collections import Counter
from collections.abc import Iterator

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pacer
from pacer.core.anchor import Anchor
from pacer.core.attributes import KINDS
from pacer.core.errors import DataError
from pacer.core.findings import FINDINGS
from pacer.metrics.ledger import FINDINGS_SCHEMA, VERDICTS, mentions
from pacer.metrics.score_kinds import ContextCases
from pacer.metrics.scores import score_of
from pacer.reporting.findings import ALL, of_systems, verdict_counts
from pacer.reporting.labelled import label_table, mention_table
from pacer.statistics.system import Scores
from pacer.text.rules import extract_anchor, find_mentions
from pacer.text.rules.layout import Part, parts
from pacer.text.rules.more import with_more_findings
from tests.support.cases import listed_cases
from tests.support.metrics import read_texts

SENTENCES = (
    "no evidence of pneumothorax .",
    "there is a small left pleural effusion .",
    "no pleural effusion .",
    "small right effusion , unchanged .",
    "possible pneumonia at the right base .",
    "the heart is mildly enlarged .",
    "severe cardiomegaly , worse .",
    "mild edema has improved .",
    "no edema or consolidation .",
    "effusion on the left .",
    "there may be a left pneumothorax .",
    "views are frontal .",
)
REPORTS = st.lists(st.sampled_from(SENTENCES), max_size=6).map(" ".join)


@pytest.mark.parametrize(
    ("reference", "report", "finding", "verdict", "wrong"), listed_cases(__file__, "verdicts")
)
def test_verdicts(
    reference: str, report: str, finding: str, verdict: str | None, wrong: list[str]
) -> None:
    _, findings = read_texts([reference], [report])
    row = findings.row(by_predicate=pl.col("finding") == finding, named=True)
    assert (row["verdict"], row["wrong"]) == (verdict, wrong)
    assert findings.schema == FINDINGS_SCHEMA


def score(cases: pl.DataFrame, key: str) -> float | None:
    return score_of(key).of(ContextCases(cases, "llm-rg4")).get(key)


def f1(right: int, stated: int, wanted: int) -> float | None:
    return pytest.approx(2 * right / (stated + wanted)) if stated + wanted else None


@given(st.lists(st.tuples(REPORTS, REPORTS, st.none() | REPORTS), min_size=1, max_size=4))
def test_scores_are_sums_over_the_ledger(texts: list[tuple[str, str, str | None]]) -> None:
    references, reports, lists = (list(side) for side in zip(*texts, strict=True))
    listed = [None if text is None else extract_anchor(text) for text in lists]
    cases, findings = read_texts(references, reports, listed)
    assert set(findings["verdict"].drop_nulls()) <= {*VERDICTS}
    assert not findings.select("record_id", "finding").is_duplicated().any()
    counts = verdict_counts(of_systems({"one": findings})).filter(finding=ALL)
    for one in counts.iter_rows(named=True):
        assert one["hit"] + one["missed"] == one["in_references"]
        assert one["hit"] + one["invented"] == one["in_reports"]
        sums = (one["hit"], one["in_references"], one["in_reports"])
        assert score(cases, "report_positive_f1") == f1(*sums)
    rows = findings.to_dicts()
    for polarity in ("positive", "negative", "uncertain"):
        sides = (
            [row[f"{side}_state"] == polarity for row in rows] for side in ("report", "reference")
        )
        stated, wanted = sides
        right = sum(map(bool.__and__, stated, wanted))
        expected = f1(right, sum(stated), sum(wanted))
        assert score(cases, f"report_{polarity}_f1") == expected
    affirmed = [row for row in rows if row["reference_state"] == row["report_state"] == "positive"]
    counts = [
        sum(row[f"{side}_state"] == "positive" for row in rows) for side in ("report", "reference")
    ]
    exact = sum(row["verdict"] == "correct" for row in affirmed)
    assert score(cases, "exact_f1") == f1(exact, *counts)
    for kind in KINDS:
        named = [row for row in affirmed if row[f"reference_{kind}"]]
        right = [row for row in named if kind not in row["wrong"]]
        share = pytest.approx(len(right) / len(named)) if named else None
        assert score(cases, f"attributes_{kind}") == share
    opposite = {("positive", "negative"), ("negative", "positive")}
    contradicted = {
        row["record_id"]
        for row in rows
        if (row["committed_state"], row["report_state"]) in opposite
    }
    known = sum(one is not None for one in listed)
    assert score(cases, "contradiction_rate") == (len(contradicted) / known if known else None)


@given(REPORTS)
def test_places_are_those_of_the_mentions(text: str) -> None:
    found = mentions([None, text])
    expected = [(m.finding, m.polarity, m.start, m.end) for m in find_mentions(text)]
    assert found.select("finding", "state", "start", "end").rows() == expected
    assert set(found["row"]) <= {1}
    _, findings = read_texts([""], [text])
    for row in findings.iter_rows(named=True):
        assert row["report_places"] and not row["reference_places"]
        for place in row["report_places"]:
            assert text[place["start"] : place["end"]] == place["words"]
            assert (row["finding"], place["start"]) in {(one[0], one[2]) for one in expected}


def test_each_text_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """States, mentions and attributes are from one reading."""
    counts: Counter[str] = Counter()

    def counted(text: str) -> Iterator[Part]:
        counts[text] += 1
        return parts(text)

    monkeypatch.setattr("pacer.text.rules.report.parts", counted)
    labelled = pl.DataFrame({"id": ["a", "b"], "text": ["Left effusion, 3 mm.", "No mass, 4 mm."]})
    label_table(labelled, attributes=True)
    mention_table(labelled)
    read_texts(["Small left effusion, 5 mm."], ["No right effusion, 6 mm."])
    assert len(counts) == 4 and {*counts.values()} == {1}


def test_mentions_of_further_findings_stand_among_the_others() -> None:
    reports = pl.DataFrame({"id": ["a"], "text": ["No effusion or hernia. Small mass, scoliosis."]})
    rows = mention_table(reports, with_more_findings("builtin"))
    assert rows.select("finding", "polarity", "words", "cue").rows() == [
        ("pleural effusion", "negative", "effusion", "No"),
        ("hernia", "negative", "hernia", "No"),
        ("lung lesion", "positive", "mass", None),
        ("scoliosis", "positive", "scoliosis", None),
    ]
    kept = rows.filter(pl.col("finding").is_in(FINDINGS))
    assert kept.equals(mention_table(reports))


def test_a_commitment_stands_beside_what_the_texts_say() -> None:
    listed = Anchor.of_lists({"positive": ["pleural effusion"]})
    _, findings = read_texts(
        ["effusion .", "edema ."], ["right effusion . no edema .", ""], [listed, None]
    )
    rows = findings.select("record_id", "finding", "committed_state").rows()
    assert rows == [
        ("0", "edema", None),
        ("0", "pleural effusion", "positive"),
        ("1", "edema", None),
    ]


def test_findings_are_written_and_read_with_their_run(tmp_path, quick_meteor) -> None:
    references = {"a": "Left effusion.", "b": "No edema."}
    made = pacer.score(references, {"a": "right effusion .", "b": "edema ."}, out=tmp_path / "a")
    other = pacer.score(references, references, out=tmp_path / "b")
    assert made.findings.schema == FINDINGS_SCHEMA
    assert made.findings["verdict"].to_list() == ["partly", "opposite"]
    assert made.scores["all"]["exact_f1"] == 0 and other.scores["all"]["exact_f1"] == 1
    read = Scores.read(tmp_path / "a")
    assert read.findings.equals(made.findings) and read.scores == made.scores
    (tmp_path / "b" / "findings.parquet").replace(tmp_path / "a" / "findings.parquet")
    with pytest.raises(DataError, match=r"findings\.parquet and signature\.json come from differ"):
        Scores.read(tmp_path / "a")
    with pytest.raises(DataError, match=r"has no findings\.parquet; pass a folder written by"):
        Scores.read(tmp_path / "b")
    assert Scores.read(tmp_path / "b", whole=False).cases.equals(other.cases)


def test_findings_of_version_0_4_are_read(tmp_path, quick_meteor) -> None:
    """Its tables also had a column ``doubtful``; systems of both versions are compared."""
    texts = {"a": "Left effusion.", "b": "No edema."}
    made = pacer.score(texts, {"a": "right effusion .", "b": "edema ."}, out=tmp_path)
    run = {"run": made.signature.run}
    before = made.findings.with_columns(doubtful=pl.Series([True, False]))
    before.write_parquet(tmp_path / "findings.parquet", metadata=run)
    read = Scores.read(tmp_path)
    assert read.findings.equals(made.findings) and read.findings.schema == FINDINGS_SCHEMA
    both = of_systems({"before": read.findings, "now": made.findings})
    assert both["system"].to_list() == ["before"] * 2 + ["now"] * 2


def test_lists_of_findings_are_in_one_piece() -> None:
    """polars fails on sets of two columns of lists that are cut at different rows."""
    texts = ["edema .", "no edema .", "effusion ."] * 200
    cases, _ = read_texts(texts, ["edema ."] * 600, prior_report=texts)
    assert {name: cases[name].n_chunks() for name in cases.columns if "positive" in name} == (
        dict.fromkeys((name for name in cases.columns if "positive" in name), 1)
    )
    assert score(cases, "report_positive_f1") == pytest.approx(2 / 5)
