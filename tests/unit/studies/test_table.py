"""The table against a calculation by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pacer.core.errors import DataError
from pacer.core.io import write_json
from pacer.metrics.signature import Signature
from pacer.metrics.statistics.bootstrap import Difference
from pacer.reporting.score_tables import context_mean
from pacer.reporting.tables import Table
from pacer.studies import table as tables
from pacer.studies.paired import PATIENTS_NOTE, REPLICATES_NOTE, Compare, RowDifference, ScoredRun, difference_table
from pacer.studies.study import Study
from pacer.studies.table import build_table, collect, study_curve, write_table
from pacer.studies.worktree import Repository
from tests.support.cases import listed_cases
from tests.support.studies import TinyRepository

SIGNATURE = {
    "standin_labeller": True,
    "clinical": {"convention": "llm-rg4", "labeller": {"files": {"a": "1"}}},
    "language": {"target": "findings_and_impression", "cleaner": "upstream"},
}


def seeds(*values: int) -> list[dict[str, int]]:
    return [{"train.seed": value} for value in values]


def study(**changes: Any) -> Study:
    described = {"name": "mine", "title": "Mine", "layout": "mean", "metrics": ["f1", "bleu4"], "replicates": seeds(1)}
    return Study.model_validate(described | {"rows": [{"name": name} for name in ("one", "two", "three")]} | changes)


def scored(row: int, replicate: int | None = 1, signature: dict = SIGNATURE, **contexts: dict[str, float]) -> ScoredRun:
    record = {"split": "test", "corpus": {"source": "phantom", "format": "rg4"}}
    label = None if replicate is None else str(replicate)
    return ScoredRun(row, label, Path(f"{row}-{label}"), contexts, Signature.of(signature), record)


def built(study: Study, runs: Sequence[ScoredRun]) -> Table:
    return build_table(study, runs)[0]


def compared(
    study: Study, runs: Sequence[ScoredRun], compare: Compare
) -> tuple[list[tuple[str, ...]], Sequence[RowDifference], tuple[str, ...]]:
    """The table of differences row by row, what was tested, and the notes."""
    table, tested = build_table(study, runs, compare)
    return list(difference_table("", tested).rows), tested, table.notes


class Seen(NamedTuple):
    """A block as it is printed: by label the text and the mark of every cell."""

    title: str
    published: bool
    lines: dict[str, list[tuple[str, str | None]]]


def blocks(table: Table) -> list[Seen]:
    found: list[Seen] = []
    for row, (label, *cells) in enumerate(table.rows):
        if table.opens(row):
            heading = table.headings.get(row)
            found.append(Seen(heading.text if heading else "", bool(heading and "(published)" in heading.text), {}))
        found[-1].lines[label] = [(cell, table.marks.get((row, at))) for at, cell in enumerate(cells, 1)]
    return found


def test_the_mean_over_contexts_is_taken_before_rounding() -> None:
    """Rounded first, (0.100 + 0.100) / 2 would print 0.100; unrounded it is 0.10045, and of 0.1008 more than that."""
    runs = [
        scored(0, sn={"f1": 0.1004, "bleu4": 0.25}, mw={"f1": 0.1005, "bleu4": 0.35}),
        scored(1, sn={"f1": 0.1008, "bleu4": 0.30}, mw={"f1": 0.1004, "bleu4": 0.30}),
    ]
    table = built(study(rows=[{"name": "one"}, {"name": "two"}]), runs)
    assert table.columns == ("Model", "F1", "B@4")
    # 0.10045 -> 0.100; 0.1006 -> 0.101; both bleu4 means are 0.300
    assert blocks(table)[0].lines == {
        "one": [("0.100", "second"), ("0.300", "best")],
        "two": [("0.101", "best"), ("0.300", "best")],
    }


def test_several_replicates_are_mean_and_sample_deviation() -> None:
    """Means over two contexts: 0.50, 0.53, 0.47; deviation sqrt((0 + 9 + 9) / 2) / 100 = 0.03."""
    runs = [
        scored(0, seed, sn={"f1": a, "bleu4": 0.1}, sw={"f1": b, "bleu4": 0.1})
        for seed, a, b in ((1, 0.4, 0.6), (2, 0.5, 0.56), (3, 0.4, 0.54))
    ]
    runs.append(scored(1, 1, sn={"f1": 0.5, "bleu4": 0.2}, sw={"f1": 0.5, "bleu4": 0.2}))
    table = built(study(replicates=seeds(1, 2, 3), rows=[{"name": "one"}, {"name": "two"}]), runs)
    assert blocks(table)[0].lines == {
        "one": [("0.500 ± 0.030", "best"), ("0.100 ± 0.000", "second")],
        "two": [("0.500", "best"), ("0.200", "best")],
    }
    assert "two: not run yet with 2, 3." in table.notes
    assert "Mean ± sample standard deviation over train.seed 1, 2, 3." in table.notes


def test_a_curve_joins_its_rows_and_shows_the_others(monkeypatch) -> None:
    """Means over contexts and replicates; nothing without a curve."""
    runs = [
        scored(row, seed, sn={"recall": 0.1 * row + at, "precision": 0.5}, mw={"recall": 0.2, "precision": 0.7})
        for row, seed, at in ((0, 1, 0.1), (0, 2, 0.3), (1, 1, 0.2), (2, 1, 0.3))
    ]
    drawn = study_curve(study(curve=["three", "one"]), runs)
    assert all(f">{name}</text>" in drawn for name in ("one", "two", "three", "recall", "precision"))
    assert study_curve(study(), runs) == study_curve(study(curve=["one"]), []) == ""
    monkeypatch.setattr(tables, "curve_chart", lambda points, joined: (points, joined))
    points, joined = study_curve(study(curve=["three", "one"]), runs)
    assert points == {name: pytest.approx((at, 0.6)) for name, at in (("one", 0.2), ("two", 0.25), ("three", 0.35))}
    assert joined == ["three", "one"]


def test_a_score_that_one_context_lacks_has_no_mean() -> None:
    assert context_mean({"sn": {"f1": 0.5}, "mw": {}}, "f1") is None
    runs = [scored(0, sn={"f1": 0.5}), scored(1, sn={"f1": 0.6})]
    assert blocks(built(study(), runs))[0].lines == {
        "one": [("0.500", "second"), ("–", None)],
        "two": [("0.600", "best"), ("–", None)],
        "three": [("–", None), ("–", None)],
    }
    [alone] = blocks(built(study(rows=[{"name": "one"}]), runs[:1]))
    assert alone.lines == {"one": [("0.500", None), ("–", None)]}  # not the best of anything


PAPER = {"sn": 2357, "sw": 2026, "mn": 1004, "mw": 828}
REAL = SIGNATURE | {
    "standin_labeller": False,
    "language": {"target": "findings_and_impression", "cleaner": "upstream", "unseen_comparisons": "keep"},
}


def on_mimic(
    n: dict[str, int] = PAPER, signature: dict = REAL, row: int = 0, f1: float = 0.5, **record: Any
) -> ScoredRun:
    """A run on the paper's own data, but for what is said."""
    corpus = {"source": "files", "format": "rg4", "limit": None} | record.pop("corpus", {})
    scores = {context: {"f1": f1, "n": count} for context, count in n.items()}
    described = {"split": "test", "limit": None, "corpus": corpus} | record
    return ScoredRun(row, "1", Path("nowhere"), scores, Signature.of(signature), described)


def test_contexts_make_blocks_that_are_ranked_apart_with_the_published_rows_below() -> None:
    runs = [on_mimic({"sn": 2357, "mw": 828}, row=row, f1=f1) for row, f1 in ((0, 0.5), (1, 0.6))]
    rows = [{"name": "one"}, {"name": "two"}]
    found = blocks(built(study(layout="contexts", metrics=["f1"], published="main", rows=rows), runs))
    below = [name for block in found for name in ([block.title] if block.published else [f"own {block.title}"])]
    assert below == ["own SN", "SN (published)", "own MW", "MW (published)", "SW (published)", "MN (published)"]
    assert found[0].lines == {"one": [("0.500", "second")], "two": [("0.600", "best")]}
    assert found[1].published and found[1].lines["LLM-RG4"] == [("0.609", "second")]


def test_groups_are_ranked_apart_beside_the_published_group() -> None:
    rows = [{"name": name, "group": "Refine" if name in "ab" else "Commit"} for name in "abcd"]
    runs = [on_mimic(row=i, f1=value) for i, value in enumerate((0.1, 0.2, 0.4, 0.3))]
    found = blocks(built(study(rows=rows, metrics=["f1"], published="mechanisms"), runs))
    assert [block.title.split(" (")[0] for block in found] == ["Refine", "Refine", "Commit", "Commit", "Calibrate"]
    own = [block.lines.values() for block in found if not block.published]
    assert [[mark for cells in lines for _, mark in cells] for lines in own] == [["second", "best"], ["best", "second"]]


def test_stand_ins_and_generated_corpora_are_named_and_kept_from_comparison() -> None:
    table = built(study(rows=[{"name": "one"}], metrics=["f1"], published="components"), [scored(0, sn={"f1": 0.5})])
    notes = " ".join(table.notes)
    assert "generated corpus" in notes and "stand-in for CheXbert" in notes
    assert "Published rows are not shown: they are of all records of MIMIC-RG4's test split" in notes
    assert len(blocks(table)) == 1


def components(run: ScoredRun, **changes: Any) -> Table:
    """Table 3 with one row."""
    return built(study(rows=[{"name": "one"}], metrics=["f1"], published="components", **changes), [run])


@pytest.mark.parametrize(
    "changes",
    [
        {"corpus": {"source": "phantom"}},
        {"corpus": {"format": "openi"}},
        {"corpus": {"limit": 100}},
        {"limit": 50},
        {"split": "val"},
        {"n": PAPER | {"mw": 827}},
        {"n": {"sn": 2357}},
        {"signature": REAL | {"standin_labeller": True}},
        {"signature": REAL | {"clinical": {"convention": "r2gen"}}},
        *({"signature": REAL | {"language": REAL["language"] | {key: "other"}}} for key in REAL["language"]),
    ],
)
def test_only_runs_on_the_papers_own_data_stand_beside_the_published_rows(changes: dict[str, Any]) -> None:
    table, own = components(on_mimic(**changes)), components(on_mimic())
    assert [block.title for block in blocks(own)] == ["", "Components (published)"]
    assert [block.title for block in blocks(table)] == [""]
    assert any(note.startswith("Published rows are not shown") for note in table.notes)
    assert not any("not shown" in note or "compared" in note for note in own.notes)
    rows, runs = [{"name": "one"}, {"name": "two"}], [on_mimic(), on_mimic(**changes, row=1)]
    both = built(study(rows=rows, metrics=["f1"], published="components"), runs)
    assert blocks(both)[1].published  # one of the rows can stand there
    assert any(note.startswith("Not all of our rows can be compared") for note in both.notes)


def test_foreign_scores_are_known_by_the_number_of_their_records() -> None:
    rows = [{"name": "theirs", "files": "theirs"}]
    theirs = on_mimic()._replace(record=None, replicate=None)
    [_, block] = blocks(built(study(rows=rows, metrics=["f1"], published="components"), [theirs]))
    assert block.title == "Components (published)"
    findings = REAL | {"language": REAL["language"] | {"target": "findings"}}
    alone = on_mimic({"sn": 2000}, findings)._replace(record=None, replicate=None)
    settings = study(rows=rows, metrics=["f1"], published="transfer", layout="contexts")
    assert any("not shown" in note for note in built(settings, [alone]).notes)


def test_the_form_of_original_references_is_told_where_they_have_columns() -> None:
    signature = SIGNATURE | {"language": {"original_references": "findings as published, cleaned by upstream"}}
    run = scored(0, signature=signature, sn={"f1": 0.5, "original_bleu1": 0.4})
    other = scored(1, sn={"f1": 0.5, "original_bleu1": 0.4})
    said = "Original references: findings as published, cleaned by upstream; not recorded."
    assert said in built(study(metrics=["original_bleu1"], layout="contexts"), [run, other]).notes
    assert not any("Original" in note for note in built(study(layout="contexts"), [run]).notes)


@pytest.mark.parametrize("part", listed_cases(__file__, "differently"))
def test_rows_that_were_scored_differently_are_told(part: dict) -> None:
    signature = SIGNATURE | {"counts": {"sn": {"n": 8}}, "data": {"records": "a", "predictions/sn": "x"}}
    runs = [scored(0, signature=signature, sn={"f1": 0.5}), scored(1, signature=signature | part, sn={"f1": 0.5})]
    assert any("not scored alike" in note for note in built(study(), runs).notes)
    same = [runs[0], scored(1, signature=signature, sn={"f1": 0.4})]
    assert not any("not scored alike" in note for note in built(study(), same).notes)


def difference(value: float | None = -0.0123, p: float | None = 0.0004) -> Difference:
    return Difference(0.5, 0.5, value, -0.02, 0.001, p)


def test_all_replicates_of_a_row_are_compared_at_once_with_the_same_ones_of_the_other() -> None:
    both = {"f1": 0.5, "bleu4": 0.1}
    runs = [scored(row, seed, sn=both) for row in (0, 1, 2) for seed in (1, 2) if (row, seed) != (2, 1)]
    runs.append(scored(3, None, sn=both))
    asked = []

    def compare(repeats) -> dict[str, Difference]:
        asked.append([(str(first), str(second)) for first, second in repeats])
        return {"f1": difference()}

    rows = [{"name": "one"}, {"name": "two"}, {"name": "three"}, {"name": "theirs", "files": "theirs"}]
    settings = study(replicates=seeds(1, 2), against="one", rows=rows)
    lines, _, notes = compared(settings, runs, compare)
    assert asked == [[("0-1", "1-1"), ("0-2", "1-2")], [("0-2", "2-2")], [("0-1", "3-None"), ("0-2", "3-None")]]
    # three tests: 0.0004 times 3
    cells = ("F1", "−0.012", "−0.020 to +0.001", "< 0.001", "0.001")
    assert lines == [(f"{name} − one", *cells) for name in ("two", "three", "theirs")]
    assert "three was tested only with 2." in notes and notes.count(PATIENTS_NOTE) == 1
    assert build_table(settings, runs)[1] == []


@pytest.mark.parametrize("worlds", [True, False])
def test_three_replicates_have_an_interval_by_students_t(worlds: bool) -> None:
    """Differences .03, .05, .01: mean .03, standard deviation .02, and t(2) of a 95 % interval is 4.3027. Replicates
    with records of their own have no other; training seeds have it beside that over patients."""
    values = {0: (0.50, 0.40, 0.60), 1: (0.53, 0.45, 0.61)}
    runs = []
    for row, f1s in values.items():
        for seed, f1 in enumerate(f1s, 1):
            own = {"counts": {"sn": {"n": seed}}, "data": {"records": f"world {seed}"}} if worlds else {}
            runs.append(scored(row, seed, signature=SIGNATURE | own, sn={"f1": f1}))
    settings = study(replicates=seeds(1, 2, 3), metrics=["f1"], against="one", rows=[{"name": "one"}, {"name": "two"}])
    lines, _, notes = compared(settings, runs, lambda repeats: {"f1": difference()})
    student = "−0.020 to +0.080"  # t = .03 / (.02 / sqrt(3)) = 2.598
    if worlds:
        assert lines == [("two − one", "F1", "+0.030", student, "0.122", "0.122")] and REPLICATES_NOTE in notes
    else:
        assert lines == [("two − one", "F1", "−0.012", "−0.020 to +0.001", "< 0.001", "< 0.001")]
    assert not any("not scored" in note for note in notes)
    few = [run for run in runs if run.replicate != "3"]
    lines, _, notes = compared(settings, few, lambda repeats: {"f1": difference()})
    both = ("−0.012", "−0.020 to +0.001", "< 0.001", "< 0.001")
    assert lines == [("two − one", "F1", *(("+0.040", "–", "–", "–") if worlds else both))]


def test_further_pairs_of_rows_are_tested() -> None:
    runs = [scored(row, sn={"f1": 0.5, "bleu4": 0.1}) for row in range(3)]
    settings = study(against="one", compared=[["three", "two"], ["two", "one"]])
    lines, _, _ = compared(settings, runs, lambda repeats: {"f1": difference()})
    assert [line[0] for line in lines] == ["two − one", "three − one", "three − two"]
    assert {line[-1] for line in lines} == {"0.001"}  # three tests


def test_a_row_that_cannot_be_compared_leaves_the_table_whole() -> None:
    def compare(repeats) -> dict[str, Difference]:
        raise DataError("record sn-1 has another reference")

    runs = [scored(row, sn={"f1": 0.5, "bleu4": 0.1}) for row in range(3)]
    table, tested = build_table(study(against="two"), runs, compare)
    assert len(blocks(table)) == 1 and tested == []
    assert "one was not tested against two: record sn-1 has another reference." in table.notes


def test_each_group_has_its_own_control() -> None:
    rows = [{"name": name, "group": group} for name, group in (("off", "A"), ("on", "A"), ("off", "B"), ("on", "B"))]
    rows.append({"name": "more", "group": "C"})
    runs = [scored(i, sn={"f1": 0.1 * i}) for i in range(5)]
    asked = []
    settings = study(rows=rows, metrics=["f1"], against={"A": "off", "B": "off"})
    build_table(settings, runs, lambda repeats: asked.append(repeats) or {})
    assert asked == [[(Path("0-1"), Path("1-1"))], [(Path("2-1"), Path("3-1"))]]
    with pytest.raises(ValueError, match="off must be the name of one row"):
        study(rows=rows, metrics=["f1"], against="off")


def test_scores_of_other_outputs_stand_beside_runs(tiny: TinyRepository) -> None:
    rows = [
        {"name": "ours"},
        {"name": "theirs", "files": "data/external/theirs"},
        {"name": "absent", "files": "data/external/absent"},
    ]
    settings = study(rows=rows, metrics=["f1"], notes=["No row here for Base: nobody has it."])
    write_json(tiny.folder / "data/external/theirs/scores.json", {"sn": {"f1": 0.25}})
    write_json(tiny.folder / "data/external/theirs/signature.json", SIGNATURE)
    table = built(settings, collect(settings, Repository(tiny.folder), tiny.folder / "state"))
    assert blocks(table)[0].lines == {"ours": [("–", None)], "theirs": [("0.250", None)], "absent": [("–", None)]}
    assert table.notes[-3:] == (
        "ours: not run yet with 1.",
        "absent: data/external/absent holds no scores; `pacer score --out data/external/absent` makes them.",
        "No row here for Base: nobody has it.",
    )
    write_json(tiny.folder / "data/external/absent/scores.json", {"mw": {"f1": 0.25}})
    write_json(tiny.folder / "data/external/absent/signature.json", SIGNATURE)
    with pytest.raises(DataError, match="the same contexts"):
        collect(settings, Repository(tiny.folder), tiny.folder / "state")


def test_both_formats_have_the_scores_and_the_differences(tmp_path: Path) -> None:
    """Cells, marks and notes in either format: the tests of tables."""
    runs = [scored(row, sn={"f1": 0.5, "bleu4": 0.1}) for row in (0, 1)]
    rows = [{"name": "A & <b>"}, {"name": "two"}]
    table, tested = build_table(study(rows=rows, against="A & <b>"), runs, lambda repeats: {"f1": difference()})
    text, tex = write_table(table, tested, tmp_path), (tmp_path / "table.tex").read_text()
    assert text == (tmp_path / "table.md").read_text() and table.markdown(caption=False) in text
    assert "## Mine: differences, case by case" in text and "| two − A & <b> | F1" in text
    assert tex.count("\\begin{table}") == tex.count("\\end{table}") == 2 and "A \\& $<$b$>$" in tex


def test_a_study_takes_any_score_and_marks_the_better_one() -> None:
    """Registered scores, one where lower is better, columns of the user, and a key that no run has."""
    keys = ["cider", "fallback_rate", "radgraph", "crimson", "typo"]
    values = [dict(zip(keys[:4], numbers, strict=True)) for numbers in ((10.5, 0.1, 0.2, 0.3), (9.4, 0.2, 0.1, 0.4))]
    runs = [scored(row, sn=numbers) for row, numbers in enumerate(values)]
    rows = [{"name": "one"}, {"name": "two"}]
    table = built(study(rows=rows, metrics=keys), runs)
    assert table.columns == ("Model", "CIDEr", "Fallback", "radgraph", "crimson", "typo")
    assert {place for place, mark in table.marks.items() if mark == "best"} == {(0, 1), (0, 2)}
    assert "No run has the score typo." in table.notes
