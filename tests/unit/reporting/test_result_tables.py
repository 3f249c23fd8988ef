"""Tables with intervals: rows in their places, published rows only where they may stand, p values never 0."""

from __future__ import annotations

import pytest

from pacer.metrics.signature import Signature
from pacer.metrics.statistics.bootstrap import Interval
from pacer.metrics.statistics.intervals import Intervals, LabelScores
from pacer.reporting.charts import label_chart
from pacer.reporting.published import load_published, published_beside
from pacer.reporting.score_tables import label_table, score_table
from pacer.reporting.tables import p_value

CONTEXTS = ("sn", "sw", "mn", "mw")
NUMBERS = {"sn": 2357, "sw": 2026, "mn": 1004, "mw": 828}
MEAN = {"precision": 0.6, "f1": 0.515, "cider": 0.4}
SCORES = {
    context: MEAN | {"f1": 0.5 + 0.01 * place, "n": NUMBERS[context]} for place, context in enumerate(CONTEXTS)
} | {"mean": MEAN}
FOUND = Intervals(
    {
        name: {"f1": Interval(0.5, 0.4512, 0.5488, 0), "precision": Interval(None, None, None, 9)}
        for name in (*CONTEXTS, "mean")
    },
    "subject",
    30,
    100,
    0.95,
)
RG4 = {"source": "files", "format": "rg4", "target": "findings_and_impression", "limit": None}
SETTINGS = {"split": "test", "limit": None, **load_published()["main"].decoding}
SIGNATURE = {
    "standin_labeller": False,
    "predictions": {"stand_ins": [], "settings": SETTINGS},
    "clinical": {"convention": "llm-rg4", "labeller": {"arithmetic": "float32"}},
    "language": {"target": "findings_and_impression", "cleaner": "upstream", "unseen_comparisons": "keep"},
}
FINDINGS_ALONE = SIGNATURE | {
    "language": SIGNATURE["language"] | {"target": "findings"},
    "predictions": {
        "settings": SETTINGS | {"num_beams": 5, "min_new_tokens": 50, "max_new_tokens": 200, "length_penalty": 2.15}
    },
}


def test_the_interval_stands_below_its_score():
    table = score_table(SCORES, intervals=FOUND)
    assert table.columns == ("Context", "P", "F1", "CIDEr", "n")
    assert table.rows[:2] == (("SN", "0.600", "0.500", "0.400", "2,357"), ("95 %", "", "0.45–0.55", "", ""))
    assert len(table.rows) == 10 and table.rows[8][0] == "Mean" and table.summary == 8
    assert table.quiet == {1, 3, 5, 7, 9} and table.rules == {2, 4, 6, 8}


def test_published_rows_follow_their_context():
    published, words = published_beside(RG4, Signature.of(SIGNATURE), SCORES)
    assert published == load_published()["main"] and "Table 1" in words
    table = score_table(SCORES, intervals=FOUND, published=published)
    labels = [row[0] for row in table.rows]
    assert labels[:8] == [
        "SN",
        "95 %",
        "CXRMate, paper",
        "RadFM, paper",
        "LLM-RG4, paper",
        "SimMLM, paper",
        "RAGPT, paper",
        "PACER, paper",
    ]
    assert table.rows[7][1:] == ("0.620", "0.632", "–", "–") and labels[8] == "SW"
    assert set(range(len(labels))) - table.quiet == {0, 8, 16, 24, 32}


@pytest.mark.parametrize(
    ("corpus", "signature", "why"),
    [
        (RG4 | {"format": "openi"}, SIGNATURE, "the corpus is not MIMIC-RG4"),
        (RG4, SIGNATURE | {"standin_labeller": None}, "the labeller is not CheXbert as published"),
        (RG4, SIGNATURE | {"predictions": {"settings": SETTINGS | {"split": "val"}}}, "scored on split val"),
        (RG4, SIGNATURE | {"predictions": {"settings": SETTINGS | {"limit": 50}}}, "not all records were used"),
        (
            RG4,
            SIGNATURE | {"clinical": {"convention": "llm-rg4", "labeller": {"arithmetic": "bfloat16"}}},
            "labeller's precision bfloat16, published float32",
        ),
        (
            RG4,
            SIGNATURE | {"clinical": {"convention": "llm-rg4", "labeller": {}}},
            "labeller's precision not recorded, published float32",
        ),
        (RG4 | {"target": "findings"}, SIGNATURE, "target findings_and_impression, published findings"),
    ],
)
def test_no_published_row_where_a_comparison_means_nothing(corpus, signature, why):
    published, words = published_beside(corpus, Signature.of(signature), SCORES)
    assert published is None and why in words


def test_findings_alone_stand_beside_the_second_table():
    published, words = published_beside(
        RG4 | {"target": "findings"}, Signature.of(FINDINGS_ALONE), {"sn": SCORES["sn"]}
    )
    assert published == load_published()["conventional_sn"] and "Table 2" in words


@pytest.mark.parametrize(
    ("settings", "difference"),
    [
        (SETTINGS | {"num_beams": 1}, "decode.num_beams 1, published 3"),
        ({"split": "test", "limit": None}, "decode.num_beams not recorded, published 3"),
    ],
)
def test_published_rows_beside_a_run_decoded_otherwise_have_a_note(settings: dict, difference: str):
    published, words = published_beside(RG4, Signature.of(SIGNATURE | {"predictions": {"settings": settings}}), SCORES)
    assert published is not None and f"This run was decoded otherwise: {difference}" in words
    assert "decoded otherwise" not in published_beside(RG4, Signature.of(SIGNATURE), SCORES)[1]


def test_observations_with_and_without_a_score():
    none = Interval(None, None, None, 5)
    rows = [
        LabelScores(
            "Edema",
            12,
            9,
            {key: Interval(0.5, 0.3, 0.7, 0) for key in ("precision", "recall", "f1")},
            {"sn": 0.25, "mn": None},
        ),
        LabelScores("Fracture", 0, 0, dict.fromkeys(("precision", "recall", "f1"), none), {"sn": None, "mn": None}),
    ]
    table = label_table(rows, 0.95)
    assert table.rows[0] == ("Edema", "12", "9", "0.500", "0.500", "0.500", "0.30–0.70", "0.250", "–")
    assert table.rows[1] == ("Fracture", "0", "0", "undefined", "undefined", "undefined", "", "–", "–")
    svg = label_chart(rows)
    assert "Edema" in svg and "undefined" in svg


def test_p_values_as_they_are_printed():
    assert [p_value(p) for p in (None, 0.0, 0.0009, 0.001, 0.049)] == ["–", "< 0.001", "< 0.001", "0.001", "0.049"]
