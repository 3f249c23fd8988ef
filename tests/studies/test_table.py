"""The table against a calculation by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.core.errors import DataError
from pacer.core.io import write_json
from pacer.studies.render import latex, markdown, page
from pacer.studies.study import Study
from pacer.studies.table import Cell, Scored, build_table, collect, context_mean, printed, ranked

SIGNATURE = {"standin_labeller": True, "clinical": {"convention": "llm-rg4", "labeller": {"files": {"a": "1"}}},
             "language": {"target": "findings_and_impression", "cleaner": "upstream"}}


def study(**changes: Any) -> Study:
    return Study.model_validate({
        "name": "mine", "title": "Mine", "layout": "mean", "metrics": ["f1", "bleu4"], "seeds": [1],
        "rows": [{"name": "one"}, {"name": "two"}, {"name": "three"}], **changes})


def scored(row: int, seed: int | None = 1, source: str = "phantom", signature: dict | None = None,
           **contexts: dict[str, float]) -> Scored:
    record = {"split": "test", "corpus": {"source": source, "format": "rg4"}}
    return Scored(row, seed, Path("nowhere"), contexts, signature or SIGNATURE, record)


def texts(block) -> dict[str, list[tuple[str, str | None]]]:
    return {line.label: [tuple(cell) for cell in line.cells] for line in block.lines}


def test_the_mean_over_contexts_is_taken_before_rounding() -> None:
    """Rounded first, (0.100 + 0.100) / 2 would print 0.100; unrounded it is 0.10045, and of 0.1008 more than that."""
    runs = [scored(0, sn={"f1": 0.1004, "bleu4": 0.25}, mw={"f1": 0.1005, "bleu4": 0.35}),
            scored(1, sn={"f1": 0.1008, "bleu4": 0.30}, mw={"f1": 0.1004, "bleu4": 0.30})]
    table = build_table(study(rows=[{"name": "one"}, {"name": "two"}]), runs)
    assert table.columns == ("F1", "B@4")
    # 0.10045 -> 0.100; 0.1006 -> 0.101; both bleu4 means are 0.300
    assert texts(table.blocks[0]) == {"one": [("0.100", "second"), ("0.300", "best")],
                                      "two": [("0.101", "best"), ("0.300", "best")]}


def test_ties_for_best_are_all_bold_and_the_next_value_is_underlined() -> None:
    """The paper's rule: second best is the next value that is not tied with the best."""
    lines = ranked([(str(i), [(v, v)]) for i, v in enumerate(["0.186", "0.186", "0.106", "0.105", "0.106"])])
    assert [line.cells[0].mark for line in lines] == ["best", "best", "second", None, "second"]


def test_ties_go_by_the_printed_value() -> None:
    runs = [scored(i, sn={"f1": value, "bleu4": 0.1 * i}) for i, value in enumerate((0.50049, 0.49951, 0.4994))]
    marks = texts(build_table(study(), runs).blocks[0])
    assert [marks[name][0] for name in ("one", "two", "three")] == [
        ("0.500", "best"), ("0.500", "best"), ("0.499", "second")]


def test_a_row_alone_is_not_the_best_of_anything() -> None:
    [block] = build_table(study(rows=[{"name": "one"}]), [scored(0, sn={"f1": 0.5, "bleu4": 0.1})]).blocks
    assert texts(block) == {"one": [("0.500", None), ("0.100", None)]}


def test_several_seeds_are_mean_and_sample_deviation() -> None:
    """Seed means over two contexts: 0.50, 0.53, 0.47; deviation sqrt((0 + 9 + 9) / 2) / 100 = 0.03."""
    runs = [scored(0, seed, sn={"f1": a, "bleu4": 0.1}, sw={"f1": b, "bleu4": 0.1})
            for seed, a, b in ((1, 0.4, 0.6), (2, 0.5, 0.56), (3, 0.4, 0.54))]
    runs.append(scored(1, 1, sn={"f1": 0.5, "bleu4": 0.2}, sw={"f1": 0.5, "bleu4": 0.2}))
    table = build_table(study(seeds=[1, 2, 3], rows=[{"name": "one"}, {"name": "two"}]), runs)
    assert texts(table.blocks[0]) == {
        "one": [("0.500 ± 0.030", "best"), ("0.100 ± 0.000", "second")],
        "two": [("0.500", "best"), ("0.200", "best")]}
    assert any("two: not run yet with seed 2, 3." in note for note in table.notes)


def test_a_score_that_one_context_lacks_has_no_mean() -> None:
    assert context_mean({"sn": {"f1": 0.5}, "mw": {}}, "f1") is None
    assert context_mean({"sn": {"f1": 0.5}, "mw": {"f1": 1.0}}, "f1") == 0.75
    runs = [scored(0, sn={"f1": 0.5}), scored(1, sn={"f1": 0.6})]
    block = texts(build_table(study(), runs).blocks[0])
    assert block == {"one": [("0.500", "second"), ("–", None)], "two": [("0.600", "best"), ("–", None)],
                     "three": [("–", None), ("–", None)]}


def test_contexts_make_blocks_that_are_ranked_apart_with_the_published_rows_below() -> None:
    runs = [scored(i, sn={"f1": 0.5 + i / 10}, mw={"f1": 0.7 - i / 10}) for i in range(2)]
    table = build_table(study(layout="contexts", metrics=["f1"], published="main",
                              rows=[{"name": "one"}, {"name": "two"}]), runs)
    assert [block.title for block in table.blocks] == [
        "SN", "SN (published, other data)", "MW", "MW (published, other data)", "SW (published, other data)",
        "MN (published, other data)"]
    assert texts(table.blocks[0]) == {"one": [("0.500", "second")], "two": [("0.600", "best")]}
    assert texts(table.blocks[2]) == {"one": [("0.700", "best")], "two": [("0.600", "second")]}
    assert texts(table.blocks[1])["LLM-RG4"] == [("0.609", "second")]


def test_groups_are_ranked_apart_beside_the_published_group() -> None:
    rows = [{"name": "a", "group": "Refine"}, {"name": "b", "group": "Refine"}, {"name": "c", "group": "Commit"},
            {"name": "d", "group": "Commit"}]
    runs = [scored(i, sn={"f1": value}) for i, value in enumerate((0.1, 0.2, 0.4, 0.3))]
    table = build_table(study(rows=rows, metrics=["f1"], published="mechanisms"), runs)
    assert [block.title.split(" (")[0] for block in table.blocks] == [
        "Refine", "Refine", "Commit", "Commit", "Calibrate"]
    assert [[cell.mark for line in block.lines for cell in line.cells] for block in table.blocks if not block.published
            ] == [["second", "best"], ["best", "second"]]


def test_stand_ins_and_generated_corpora_are_named_and_kept_from_comparison() -> None:
    settings = study(rows=[{"name": "one"}], metrics=["f1"], published="components")
    notes = " ".join(build_table(settings, [scored(0, sn={"f1": 0.5})]).notes)
    assert "generated corpus" in notes and "stand-in for CheXbert" in notes and "other data" in notes
    real = SIGNATURE | {"standin_labeller": False}
    table = build_table(settings, [scored(0, source="files", signature=real, sn={"f1": 0.5})])
    assert table.blocks[1].title == "Components (published)"
    assert "other data" not in " ".join(table.notes)


def test_rows_that_were_scored_differently_are_told() -> None:
    other = SIGNATURE | {"language": {"target": "findings", "cleaner": "upstream"}}
    runs = [scored(0, sn={"f1": 0.5}), scored(1, signature=other, sn={"f1": 0.5})]
    assert any("not scored alike" in note for note in build_table(study(), runs).notes)
    assert not any("not scored alike" in note for note in build_table(study(), runs[:1]).notes)


def test_a_comparison_is_made_of_runs_with_the_same_seed() -> None:
    runs = [scored(row, seed, sn={"f1": 0.5, "bleu4": 0.1})._replace(folder=Path(f"{row}-{seed}"))
            for row in (0, 1) for seed in (1, 2)]
    asked = []

    def compare(first: Path, second: Path) -> dict[str, tuple[float | None, float | None]]:
        asked.append((str(first), str(second)))
        return {"f1": (-0.0123, 0.0004)}

    settings = study(seeds=[1, 2], against="one", rows=[{"name": "one"}, {"name": "two"}])
    block = build_table(settings, runs, compare).blocks[-1]
    assert asked == [("0-1", "1-1"), ("0-2", "1-2")]
    assert texts(block) == {f"two, seed {seed}": [("−0.012 (p < 0.001)", None), ("–", None)] for seed in (1, 2)}
    assert len(build_table(settings, runs).blocks) == 1


def test_scores_of_other_outputs_stand_beside_runs(tmp_path: Path) -> None:
    settings = study(rows=[{"name": "ours"}, {"name": "theirs", "files": "data/external/theirs"},
                           {"name": "absent", "files": "data/external/absent"}], metrics=["f1"])
    write_json(tmp_path / "data/external/theirs/scores.json", {"sn": {"f1": 0.25}})
    write_json(tmp_path / "data/external/theirs/signature.json", SIGNATURE)
    runs = collect(settings, tmp_path, tmp_path / "state")
    table = build_table(settings, runs)
    assert texts(table.blocks[0]) == {"ours": [("–", None)], "theirs": [("0.250", None)], "absent": [("–", None)]}
    assert any("data/external/absent holds no scores" in note for note in table.notes)
    assert any("ours: not run yet with seed 1." in note for note in table.notes)


def test_rows_of_other_contexts_are_refused(tmp_path: Path) -> None:
    settings = study(rows=[{"name": "a", "files": "a"}, {"name": "b", "files": "b"}])
    for name, contexts in (("a", ["sn"]), ("b", ["sn", "mw"])):
        write_json(tmp_path / name / "scores.json", {context: {"f1": 0.5} for context in contexts})
        write_json(tmp_path / name / "signature.json", SIGNATURE)
    with pytest.raises(DataError, match="the same contexts"):
        collect(settings, tmp_path, tmp_path / "state")


@given(st.lists(st.floats(0, 1), min_size=2, max_size=6), st.randoms())
def test_marks_do_not_depend_on_the_order_of_rows(values: list[float], random) -> None:
    cells = [(str(i), [printed([value])]) for i, value in enumerate(values)]
    marks = {line.label: line.cells[0] for line in ranked(cells)}
    random.shuffle(cells)
    assert {line.label: line.cells[0] for line in ranked(cells)} == marks
    best = max(float(cell.text) for cell in marks.values())
    assert all((cell.mark == "best") == (float(cell.text) == best) for cell in marks.values())
    below = [float(cell.text) for cell in marks.values() if float(cell.text) < best]
    assert {cell.text for cell in marks.values() if cell.mark == "second"} == (
        {f"{max(below):.3f}"} if below else set())


def test_every_format_shows_every_cell_and_its_mark() -> None:
    runs = [scored(0, sn={"f1": 0.5, "bleu4": 0.1}), scored(1, sn={"f1": 0.25, "bleu4": 0.2})]
    settings = study(rows=[{"name": "A & <b>"}, {"name": "g(h,e) | 50 %"}], published="components",
                     seeds=[1])
    table = build_table(settings, runs)
    text = markdown(table)
    assert "| A & <b> | **0.500** | <u>0.100</u> |" in text and "| g(h,e) \\| 50 % | <u>0.250</u> | **0.200** |" in text
    tex = latex(table)
    assert "A \\& <b> & \\textbf{0.500} & \\underline{0.100} \\\\" in tex
    assert "\\emph{Components (published, other data)}" in tex
    assert tex.count("{") == tex.count("}")
    html = page(table)
    assert "<b>0.500</b>" in html and "<u>0.100</u>" in html and "A &amp; &lt;b&gt;" in html
    assert "<script" not in html and "src=" not in html and "http" not in html
    for note in table.notes:
        assert note in text


def test_spread_is_written_in_latex() -> None:
    from pacer.studies.table import Block, Line, StudyTable

    table = StudyTable("t", ("F1",), (Block("", (Line("a", (Cell("0.500 ± 0.030", "best"),)),)),), ("n",))
    assert "\\textbf{0.500 $\\pm$ 0.030}" in latex(table)
