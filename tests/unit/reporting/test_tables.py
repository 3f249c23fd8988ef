"""Tables: the right cells, and Markdown and LaTeX that other programs read."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.core.errors import DataError
from pacer.metrics.scores import scores_at
from pacer.reporting.score_tables import control_table, convention_table, score_table, truth_table
from pacer.reporting.tables import Heading, Table, latex_text, number

SCORES = {"mw": {"f1": 0.5, "n": 1200}, "sn": {"f1": 0.25, "precision": 1.0, "n": 10}, "mean": {"f1": 0.375}}


def test_scores_against_original_references_are_shown_where_there_are_any():
    scores = {"sn": {"f1": 0.5, "bleu1": 0.4}, "mean": {"f1": 0.5}}
    assert score_table(scores, scores_at("originals")).columns == ("Context",)
    scores["sn"] |= {f"original_{name}": 0.25 for name in ("bleu1", "bleu2", "bleu3", "bleu4", "rougeL", "meteor")}
    scores["sn"]["original_n"] = 12
    table = score_table(scores, scores_at("originals"))
    assert table.columns == ("Context", "BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-L", "METEOR", "n")
    assert table.rows[0] == ("SN", *["0.250"] * 6, "12")


def test_score_table_orders_contexts_and_leaves_out_columns_that_no_context_has():
    table = score_table(SCORES)
    assert table.columns == ("Context", "P", "F1", "n")
    assert table.rows == (("SN", "1.000", "0.250", "10"), ("MW", "–", "0.500", "1,200"), ("Mean", "", "0.375", ""))
    assert table.summary == 2


def test_scores_without_any_context_are_refused():
    with pytest.raises(DataError, match="no context"):
        score_table({"mean": {"f1": 1.0}})


def test_markdown_has_one_cell_a_column_in_every_line():
    lines = score_table(SCORES, caption="A | caption").markdown().strip().splitlines()
    assert lines[0] == "A | caption" and lines[1] == ""
    assert {line.count("|") for line in lines[2:]} == {5}
    assert lines[3] == "|:----------|------:|------:|------:|"


def test_latex_sets_the_mean_apart():
    latex = score_table(SCORES, caption="50 % of R_1").latex()
    assert r"\caption{50 \% of R\_1}" in latex
    assert re.search(r"MW +& +-- ", latex)
    assert latex.index("MW ") < latex.rindex(r"\midrule") < latex.index("Mean ")


@given(st.text(alphabet="ab&%$#_{}~^\\", max_size=20))
def test_latex_text_leaves_no_bare_special_character(text: str):
    bare = latex_text(text)
    for command in (r"\textbackslash{}", r"\textasciitilde{}", r"\textasciicircum{}", *("\\" + c for c in "&%$#_{}")):
        bare = bare.replace(command, "")
    assert not set(bare) & set("&%$#_{}~^\\")


def test_a_score_without_a_denominator_is_undefined_and_never_zero():
    table = score_table({"all": {"f1": None, "precision": 0.0, "n": 3}})
    assert table.rows == (("ALL", "0.000", "undefined", "3"),) and table.summary is None


def test_conventions_side_by_side():
    values = {f"{ratio}_micro": 0.5 for ratio in ("precision", "recall", "f1")}
    values |= {f"{ratio}_macro": None for ratio in ("precision", "recall", "f1")}
    table = convention_table({"sn": {}, "conventions": {"r2gen": {"sn": values}, "top5": {"sn": values}}})
    assert table.rows == (
        ("r2gen", "micro", "0.500", "0.500", "0.500"),
        ("r2gen", "macro", *["undefined"] * 3),
        ("top5", "micro", "0.500", "0.500", "0.500"),
    )
    assert table.rules == {2}
    assert convention_table({"sn": {}}) is None


def test_numbers():
    assert [number(v) for v in (0.12345, 12345, None, 1.0)] == ["0.123", "12,345", "–", "1.000"]


def test_truth_compares_with_the_first_entry_of_each_group():
    truth = {
        "mean_f1": 0.6,
        "another_patient_f1": 0.4,
        "mn_with_lateral_f1": 0.5,
        "mn_without_lateral_f1": 0.55,
        "sn_f1": 0.6,
    }
    table = truth_table(truth)
    assert [row[2] for row in table.rows] == ["", "−0.200", "", "+0.050", ""]
    assert table.rules == {2, 4}


def test_truth_groups_without_their_numbers_are_left_out():
    assert [row[0] for row in truth_table({"sn_f1": 0.6}).rows] == ["SN: frontal"]


def test_controls_leave_a_dash_where_a_context_has_none():
    found = {"no_lateral": {"mw": {"f1": 0.4, "unchanged_share": 0.5}}}
    table = control_table({**SCORES, "controls": found}, "A caption")
    assert table is not None and table.caption == "A caption"
    assert table.columns == ("Context", "Own sources", "Without the lateral view", "same report")
    assert table.rows == (("SN", "0.250", "–", "–"), ("MW", "0.500", "0.400", "0.500"))
    assert control_table(SCORES) is None


def test_a_first_cell_that_repeats_the_one_above_is_shown_once_in_its_group():
    table = Table(("who", "x"), (("a", "1"), ("a", "2"), ("a", "3"), ("b", "4")), rules=frozenset({2}))
    assert [table.repeats(row) for row in range(4)] == [False, True, False, False]
    assert table.markdown().splitlines()[2:4] == ["| a     |   1 |", "|       |   2 |"]


def test_headings_marks_and_notes_in_markdown_and_latex():
    table = Table(
        ("who", "x"),
        (("a", "1 ± 2"), ("b", "3")),
        headings={1: Heading("Others", "as printed")},
        marks={(0, 1): "best", (1, 1): "second"},
        notes=("a note",),
    )
    text, tex = re.sub(" +", " ", table.markdown()), table.latex()
    assert text.count("| who | x |") == 2 and "**Others** as printed" in text and "| b | <u>3</u> |" in text
    assert text.endswith("- a note\n") and "| a | **1 ± 2** |" in text
    assert "\\textbf{1}$_{\\pm 2}$" in tex and "\\emph{Others}" in tex and "a note Others: as printed" in tex
