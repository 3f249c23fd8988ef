"""Tables: the right cells, and Markdown and LaTeX that other programs read."""

import re

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.core.errors import DataError
from pacer.display.numbers import number, p_value, signed
from pacer.display.tables import Heading, Table, latex_text
from pacer.metrics.scores import scores_at
from pacer.reporting import score_tables
from pacer.reporting.breakdowns import LabelScores
from pacer.reporting.score_tables import label_table, score_table
from pacer.statistics.halves import Interval, Intervals
from tests.support.cases import listed_cases

SCORES = {
    "mw": {"f1": 0.5, "n": 1200},
    "sn": {"f1": 0.25, "precision": 1.0, "n": 10},
    "mean": {"f1": 0.375},
}


@pytest.mark.parametrize(("make", "scores", "columns", "rows"), listed_cases(__file__, "scores"))
def test_scores_as_tables(
    make: str, scores: dict, columns: list[str] | None, rows: list[list[str]]
):
    cases = pl.DataFrame(
        {"context": ["sn"] * 5 + ["mw"] * 5}
        | {"no_lateral_unchanged": [None] * 5 + [True] * 3 + [False] * 2}
    )
    further = [cases] if make == "control_table" else []
    table = getattr(score_tables, make)(scores, *further)
    if columns is None:
        assert table is None
    else:
        assert (list(table.columns), [list(row) for row in table.rows]) == (columns, rows)


def test_the_mean_is_set_apart_and_a_table_without_a_context_is_refused():
    assert score_table(SCORES).summary == 2 and score_table({"sn": {"f1": 0.5}}).summary is None
    assert score_table(SCORES, scores_at("originals")).columns == ("Context",)
    with pytest.raises(DataError, match="no known context"):
        score_table({"mean": {"f1": 1.0}})


def test_intervals_stand_below_their_scores():
    bar = {"f1": Interval(0.5, 0.4512, 0.5488), "precision": Interval(None, None, None)}
    found = Intervals({"sn": bar, "mean": bar}, "subject", 30, 100)
    table = score_table(SCORES, intervals=found, notes=("a note",))
    assert table.rows == (
        ("SN", "1.000", "0.250", "10"),
        ("95%", "", "0.45–0.55", ""),
        ("MW", "–", "0.500", "1,200"),
        ("Mean", "", "0.375", ""),
        ("95%", "", "0.45–0.55", ""),
    )
    assert (table.summary, table.rules, table.dim_rows, table.notes) == (
        3,
        {2, 3},
        {1, 4},
        ("a note",),
    )


def test_markdown_has_one_cell_a_column_in_every_line_and_latex_sets_the_mean_apart():
    table = score_table(SCORES, caption="50 % of R_1 | a caption")
    lines, latex = table.markdown().strip().splitlines(), table.latex()
    assert lines[0] == "50 % of R_1 | a caption" and lines[1] == ""
    assert {line.count("|") for line in lines[2:]} == {5}
    assert lines[3] == "|:----------|------:|------:|------:|"
    assert r"\caption{50 \% of R\_1 | a caption}" in latex
    assert re.search(r"MW +& +-- ", latex)
    assert latex.index("MW ") < latex.rindex(r"\midrule") < latex.index("Mean ")


@given(st.text(alphabet="ab&%$#_{}~^\\", max_size=20))
def test_latex_text_leaves_no_bare_special_character(text: str):
    bare = latex_text(text)
    for command in (
        r"\textbackslash{}",
        r"\textasciitilde{}",
        r"\textasciicircum{}",
        *("\\" + c for c in "&%$#_{}"),
    ):
        bare = bare.replace(command, "")
    assert not set(bare) & set("&%$#_{}~^\\")


def test_observations_with_and_without_a_score():
    none = Interval(None, None, None)
    f1 = {key: Interval(0.5, 0.3, 0.7) for key in ("precision", "recall", "f1")}
    table = label_table(
        [
            LabelScores("Edema", 12, 9, f1, {"sn": 0.25, "mn": None}),
            LabelScores("Fracture", 0, 0, dict.fromkeys(f1, none), {"sn": None, "mn": None}),
        ]
    )
    assert table.rows[0] == (
        "Edema",
        "12",
        "9",
        "0.500",
        "0.500",
        "0.500",
        "0.30–0.70",
        "0.250",
        "–",
    )
    assert table.rows[1] == (
        "Fracture",
        "0",
        "0",
        "undefined",
        "undefined",
        "undefined",
        "",
        "–",
        "–",
    )


def test_a_first_cell_that_repeats_the_one_above_is_shown_once_in_its_group():
    table = Table(
        ("who", "x"), (("a", "1"), ("a", "2"), ("a", "3"), ("b", "4")), rules=frozenset({2})
    )
    assert [table.repeats(row) for row in range(4)] == [False, True, False, False]
    assert table.markdown().splitlines()[2:4] == ["| a     |   1 |", "|       |   2 |"]


def test_headings_bold_cells_and_notes_in_markdown_and_latex():
    table = Table(
        ("who", "x"),
        (("a", "1 ± 2"), ("b", "3")),
        headings={1: Heading("Others", "as printed")},
        bold=frozenset({(0, 1)}),
        notes=("a note",),
    )
    text, tex = re.sub(" +", " ", table.markdown()), table.latex()
    assert (
        text.count("| who | x |") == 2 and "**Others** as printed" in text and "| b | 3 |" in text
    )
    assert text.endswith("- a note\n") and "| a | **1 ± 2** |" in text
    assert (
        "\\textbf{1}$_{\\pm 2}$" in tex
        and "\\emph{Others}" in tex
        and "a note\\par Others: as printed" in tex
    )


def test_numbers_and_p_values_as_they_are_printed():
    assert [number(v) for v in (0.12345, 12345, None, 1.0)] == ["0.123", "12,345", "–", "1.000"]
    assert [signed(v) for v in (-0.0389, 0.0004, 0.0, None, 1)] == [
        "−0.039",
        "+0.00040",
        "+0.000",
        "–",
        "+1.000",
    ]
    assert [p_value(p) for p in (None, 0.0, 0.0009, 0.001, 0.049)] == [
        "–",
        "< 0.001",
        "< 0.001",
        "0.001",
        "0.049",
    ]
