"""The table against a calculation by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.core.errors import DataError
from pacer.core.io import write_json
from pacer.metrics.statistics.bootstrap import Difference
from pacer.reporting.score_tables import context_mean
from pacer.studies.chart import difference_chart
from pacer.studies.paired import WORLDS_NOTE, compare_worlds
from pacer.studies.render import latex, markdown, page
from pacer.studies.study import Study
from pacer.studies.table import ScoredRun, StudyTable, build_table, collect, printed, ranked

SIGNATURE = {
    "standin_labeller": True,
    "clinical": {"convention": "llm-rg4", "labeller": {"files": {"a": "1"}, "arithmetic": "float32"}},
    "language": {"target": "findings_and_impression", "cleaner": "upstream"},
}


def study(**changes: Any) -> Study:
    return Study.model_validate(
        {
            "name": "mine",
            "title": "Mine",
            "layout": "mean",
            "metrics": ["f1", "bleu4"],
            "seeds": [1],
            "rows": [{"name": "one"}, {"name": "two"}, {"name": "three"}],
            **changes,
        }
    )


def scored(
    row: int, seed: int | None = 1, source: str = "phantom", signature: dict | None = None, **contexts: dict[str, float]
) -> ScoredRun:
    record = {"split": "test", "corpus": {"source": source, "format": "rg4"}}
    return ScoredRun(row, seed, Path("nowhere"), contexts, signature or SIGNATURE, record)


class Seen(NamedTuple):
    """A block as it is printed: by label the text and the mark of every cell."""

    title: str
    published: bool
    lines: dict[str, list[tuple[str, str | None]]]


def blocks(table: StudyTable) -> list[Seen]:
    found: list[Seen] = []
    for row, (label, *cells) in enumerate(table.scores.rows):
        if table.scores.opens(row):
            heading = table.scores.headings.get(row)
            found.append(Seen(heading.text if heading else "", row in table.scores.quiet, {}))
        found[-1].lines[label] = [(cell, table.scores.marks.get((row, at))) for at, cell in enumerate(cells, 1)]
    return found


def test_the_mean_over_contexts_is_taken_before_rounding() -> None:
    """Rounded first, (0.100 + 0.100) / 2 would print 0.100; unrounded it is 0.10045, and of 0.1008 more than that."""
    runs = [
        scored(0, sn={"f1": 0.1004, "bleu4": 0.25}, mw={"f1": 0.1005, "bleu4": 0.35}),
        scored(1, sn={"f1": 0.1008, "bleu4": 0.30}, mw={"f1": 0.1004, "bleu4": 0.30}),
    ]
    table = build_table(study(rows=[{"name": "one"}, {"name": "two"}]), runs)
    assert table.scores.columns == ("Model", "F1", "B@4")
    # 0.10045 -> 0.100; 0.1006 -> 0.101; both bleu4 means are 0.300
    assert blocks(table)[0].lines == {
        "one": [("0.100", "second"), ("0.300", "best")],
        "two": [("0.101", "best"), ("0.300", "best")],
    }


def test_a_row_alone_is_not_the_best_of_anything() -> None:
    [block] = blocks(build_table(study(rows=[{"name": "one"}]), [scored(0, sn={"f1": 0.5, "bleu4": 0.1})]))
    assert block.lines == {"one": [("0.500", None), ("0.100", None)]}


def test_several_seeds_are_mean_and_sample_deviation() -> None:
    """Seed means over two contexts: 0.50, 0.53, 0.47; deviation sqrt((0 + 9 + 9) / 2) / 100 = 0.03."""
    runs = [
        scored(0, seed, sn={"f1": a, "bleu4": 0.1}, sw={"f1": b, "bleu4": 0.1})
        for seed, a, b in ((1, 0.4, 0.6), (2, 0.5, 0.56), (3, 0.4, 0.54))
    ]
    runs.append(scored(1, 1, sn={"f1": 0.5, "bleu4": 0.2}, sw={"f1": 0.5, "bleu4": 0.2}))
    table = build_table(study(seeds=[1, 2, 3], rows=[{"name": "one"}, {"name": "two"}]), runs)
    assert blocks(table)[0].lines == {
        "one": [("0.500 ± 0.030", "best"), ("0.100 ± 0.000", "second")],
        "two": [("0.500", "best"), ("0.200", "best")],
    }
    assert any("two: not run yet with seed 2, 3." in note for note in table.scores.notes)


def test_a_score_that_one_context_lacks_has_no_mean() -> None:
    assert context_mean({"sn": {"f1": 0.5}, "mw": {}}, "f1") is None
    assert context_mean({"sn": {"f1": 0.5}, "mw": {"f1": 1.0}}, "f1") == 0.75
    runs = [scored(0, sn={"f1": 0.5}), scored(1, sn={"f1": 0.6})]
    block = blocks(build_table(study(), runs))[0].lines
    assert block == {
        "one": [("0.500", "second"), ("–", None)],
        "two": [("0.600", "best"), ("–", None)],
        "three": [("–", None), ("–", None)],
    }


def test_contexts_make_blocks_that_are_ranked_apart_with_the_published_rows_below() -> None:
    runs = [scored(i, sn={"f1": 0.5 + i / 10}, mw={"f1": 0.7 - i / 10}) for i in range(2)]
    table = build_table(
        study(layout="contexts", metrics=["f1"], published="main", rows=[{"name": "one"}, {"name": "two"}]), runs
    )
    assert [block.title for block in blocks(table)] == [
        "SN",
        "SN (published, not comparable)",
        "MW",
        "MW (published, not comparable)",
        "SW (published, not comparable)",
        "MN (published, not comparable)",
    ]
    assert blocks(table)[0].lines == {"one": [("0.500", "second")], "two": [("0.600", "best")]}
    assert blocks(table)[2].lines == {"one": [("0.700", "best")], "two": [("0.600", "second")]}
    assert blocks(table)[1].lines["LLM-RG4"] == [("0.609", "second")]


def test_groups_are_ranked_apart_beside_the_published_group() -> None:
    rows = [
        {"name": "a", "group": "Refine"},
        {"name": "b", "group": "Refine"},
        {"name": "c", "group": "Commit"},
        {"name": "d", "group": "Commit"},
    ]
    runs = [scored(i, sn={"f1": value}) for i, value in enumerate((0.1, 0.2, 0.4, 0.3))]
    table = build_table(study(rows=rows, metrics=["f1"], published="mechanisms"), runs)
    assert [block.title.split(" (")[0] for block in blocks(table)] == [
        "Refine",
        "Refine",
        "Commit",
        "Commit",
        "Calibrate",
    ]
    assert [
        [mark for cells in block.lines.values() for _, mark in cells] for block in blocks(table) if not block.published
    ] == [["second", "best"], ["best", "second"]]


def test_stand_ins_and_generated_corpora_are_named_and_kept_from_comparison() -> None:
    settings = study(rows=[{"name": "one"}], metrics=["f1"], published="components")
    notes = " ".join(build_table(settings, [scored(0, sn={"f1": 0.5})]).scores.notes)
    assert "generated corpus" in notes and "stand-in for CheXbert" in notes and "No row of this repository" in notes


PAPER = {"sn": 2357, "sw": 2026, "mn": 1004, "mw": 828}
DECODED = {
    "num_beams": 3,
    "min_new_tokens": 80,
    "max_new_tokens": 260,
    "repetition_penalty": 2.0,
    "length_penalty": 2.0,
}
REAL = SIGNATURE | {
    "standin_labeller": False,
    "predictions": {"stand_ins": [], "settings": DECODED},
    "language": {"target": "findings_and_impression", "cleaner": "upstream", "unseen_comparisons": "keep"},
}


def on_mimic(n: dict[str, int] = PAPER, signature: dict = REAL, **record: Any) -> ScoredRun:
    """A run on the paper's own data, but for what is said."""
    corpus = {"source": "files", "format": "rg4", "limit": None} | record.pop("corpus", {})
    return ScoredRun(
        0,
        1,
        Path("nowhere"),
        {context: {"f1": 0.5, "n": count} for context, count in n.items()},
        signature,
        {"split": "test", "limit": None, "corpus": corpus} | record,
    )


def test_scores_of_the_papers_own_data_and_protocol_stand_beside_the_published_ones() -> None:
    table = build_table(study(rows=[{"name": "one"}], metrics=["f1"], published="components"), [on_mimic()])
    assert blocks(table)[1].title == "Components (published)"
    assert "No row of this repository" not in " ".join(table.scores.notes)


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (on_mimic(corpus={"source": "phantom"}), "the corpus is not MIMIC-RG4"),
        (on_mimic(corpus={"format": "openi"}), "the corpus is not MIMIC-RG4"),
        (on_mimic(corpus={"limit": 100}), "not all records were used"),
        (on_mimic(limit=50), "not all records were used"),
        (on_mimic(split="val"), "scored on split val"),
        (on_mimic(PAPER | {"mw": 827}), "records (published): MW 827 (828)"),
        (on_mimic({"sn": 2357}), "the mean lacks SW, MN, MW"),
        (on_mimic(signature=REAL | {"standin_labeller": True}), "stand-in models"),
        (on_mimic(signature=REAL | {"clinical": {"convention": "r2gen"}}), "label convention r2gen, published llm-rg4"),
        (on_mimic(signature=REAL | {"language": REAL["language"] | {"target": "findings"}}), "target findings"),
        (on_mimic(signature=REAL | {"language": REAL["language"] | {"cleaner": "iu_xray"}}), "cleaning iu_xray"),
        (
            on_mimic(signature=REAL | {"language": REAL["language"] | {"unseen_comparisons": "strip"}}),
            "unseen comparisons strip",
        ),
        (
            on_mimic(
                signature=REAL | {"predictions": {"stand_ins": [], "settings": DECODED | {"length_penalty": 1.0}}}
            ),
            "decode.length_penalty 1.0, published 2.0",
        ),
        (on_mimic(signature=REAL | {"predictions": {"stand_ins": []}}), "decode.num_beams not recorded, published 3"),
    ],
)
def test_scores_that_cannot_stand_beside_the_published_ones_say_why(run: ScoredRun, reason: str) -> None:
    table = build_table(study(rows=[{"name": "one"}], metrics=["f1"], published="components"), [run])
    assert blocks(table)[1].title == "Components (published, not comparable)"
    [note] = [note for note in table.scores.notes if note.startswith("No row of this repository")]
    assert reason in note


def test_the_form_of_original_references_is_told_where_they_have_columns() -> None:
    signature = SIGNATURE | {"language": {"original_references": "findings as published, cleaned by upstream"}}
    run = scored(0, signature=signature, sn={"f1": 0.5, "original_bleu1": 0.4})
    said = "Original references: findings as published, cleaned by upstream."
    assert said in build_table(study(metrics=["original_bleu1"], layout="contexts"), [run]).scores.notes
    assert not any("Original" in note for note in build_table(study(layout="contexts"), [run]).scores.notes)
    other = scored(1, sn={"f1": 0.5, "original_bleu1": 0.4})
    notes = build_table(study(metrics=["original_bleu1"], layout="contexts"), [run, other]).scores.notes
    assert f"{said[:-1]} (one); not recorded (two)." in notes


def test_a_released_system_is_decoded_in_its_own_way() -> None:
    own = REAL | {"predictions": {"stand_ins": [], "settings": DECODED | {"min_new_tokens": 50, "max_new_tokens": 200}}}
    for target, title in (("llm_rg4_score", "published"), ("simmlm_score", "published, not comparable")):
        run = on_mimic(signature=own, target=target)
        table = build_table(study(rows=[{"name": "one"}], metrics=["f1"], published="components"), [run])
        assert blocks(table)[1].title == f"Components ({title})"


def test_foreign_scores_are_known_by_the_number_of_their_records() -> None:
    rows = [{"name": "theirs", "files": "theirs"}]
    theirs = on_mimic()._replace(record=None, seed=None)
    [_, block] = blocks(build_table(study(rows=rows, metrics=["f1"], published="components"), [theirs]))
    assert block.title == "Components (published)"
    findings = REAL | {"language": REAL["language"] | {"target": "findings"}}
    alone = on_mimic({"sn": 2000}, findings)._replace(record=None, seed=None)
    settings = study(rows=rows, metrics=["f1"], published="transfer", layout="contexts")
    assert any("not recorded of which corpus" in note for note in build_table(settings, [alone]).scores.notes)


def test_rows_that_were_scored_differently_are_told() -> None:
    other = SIGNATURE | {"language": {"target": "findings", "cleaner": "upstream"}}
    runs = [scored(0, sn={"f1": 0.5}), scored(1, signature=other, sn={"f1": 0.5})]
    assert any("not scored alike" in note for note in build_table(study(), runs).scores.notes)
    assert not any("not scored alike" in note for note in build_table(study(), runs[:1]).scores.notes)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"counts": {"sn": {"n": 7}}}, "number of records"),
        ({"data": {"records": "b"}}, "not scored on the same records"),
    ],
)
def test_rows_of_other_records_are_told(part: dict, said: str) -> None:
    signature = SIGNATURE | {"counts": {"sn": {"n": 8}}, "data": {"records": "a", "predictions/sn": "x"}}
    runs = [scored(0, signature=signature, sn={"f1": 0.5}), scored(1, signature=signature | part, sn={"f1": 0.5})]
    assert any(said in note for note in build_table(study(), runs).scores.notes)
    same = [runs[0], scored(1, signature=signature, sn={"f1": 0.4})]
    assert not any("scored" in note and "not" in note for note in build_table(study(), same).scores.notes)


def difference(value: float | None = -0.0123, p: float | None = 0.0004) -> Difference:
    return Difference(0.5, 0.5, value, -0.02, 0.001, p, 0)


def test_all_seeds_of_a_row_are_compared_at_once_with_the_same_seeds_of_the_other() -> None:
    runs = [
        scored(row, seed, sn={"f1": 0.5, "bleu4": 0.1})._replace(folder=Path(f"{row}-{seed}"))
        for row in (0, 1, 2)
        for seed in (1, 2)
        if (row, seed) != (2, 1)
    ]
    runs.append(scored(3, None, sn={"f1": 0.5, "bleu4": 0.1})._replace(folder=Path("theirs")))
    asked = []

    def compare(repeats) -> dict[str, Difference]:
        asked.append([(str(first), str(second)) for first, second in repeats])
        return {"f1": difference()}

    settings = study(
        seeds=[1, 2],
        against="one",
        rows=[{"name": "one"}, {"name": "two"}, {"name": "three"}, {"name": "theirs", "files": "theirs"}],
    )
    table = build_table(settings, runs, compare)
    assert asked == [[("0-1", "1-1"), ("0-2", "1-2")], [("0-2", "2-2")], [("0-1", "theirs"), ("0-2", "theirs")]]
    assert [line.label for line in table.tested] == ["two − one", "three − one", "theirs − one"]
    # three tests: 0.0004 times 3
    assert {line.cells for line in table.tested} == {("F1", "−0.012", "−0.020 to +0.001", "< 0.001", "0.001")}
    assert "three was tested with seed 2 alone." in table.scores.notes
    assert build_table(settings, runs).tested == []


def test_worlds_are_the_repeats_of_a_study_of_worlds(tmp_path: Path) -> None:
    """Differences .03, .05, .01: mean .03, standard deviation .02, and t(2) of a 95 % interval is 4.3027."""
    values = {0: (0.50, 0.40, 0.60), 1: (0.53, 0.45, 0.61)}
    runs = []
    for row, worlds in values.items():
        for seed, f1 in enumerate(worlds, 1):
            own = SIGNATURE | {"counts": {"sn": {"n": seed}}, "data": {"records": f"world {seed}"}}
            runs.append(scored(row, seed, signature=own, sn={"f1": f1})._replace(folder=tmp_path / f"{row}-{seed}"))
            write_json(runs[-1].folder / "scores.json", runs[-1].scores)
    rows = [{"name": "one"}, {"name": "two"}]
    settings = study(seeds=[1, 2, 3], seeds_of="world", metrics=["f1"], against="one", rows=rows)
    table = build_table(settings, runs, compare_worlds)
    # t = .03 / (.02 / sqrt(3)) = 2.598
    assert [line.cells for line in table.tested] == [("F1", "+0.030", "−0.020 to +0.080", "0.122", "0.122")]
    [line] = table.tested
    assert line.by_seed == pytest.approx({1: 0.03, 2: 0.05, 3: 0.01})
    drawn = difference_chart(table.tested, table.seeds_of) or ""
    assert all(f">{text}<" in drawn for text in ("two − one", "world 2", "mean, interval", "difference in F1"))
    undefined = line._replace(metric="rougeL", difference=difference(None, None))
    assert "difference in F1" in (difference_chart([undefined, line], "world") or "")
    assert difference_chart([undefined], "world") is None
    assert drawn.count("world") == 3 and difference_chart([], "world") is None
    assert WORLDS_NOTE in table.scores.notes and not any("not scored" in note for note in table.scores.notes)
    assert any("not scored on the same" in note for note in build_table(study(seeds=[1, 2, 3]), runs).scores.notes)
    [single] = compare_worlds([(tmp_path / "0-1", tmp_path / "1-1")]).values()
    [same] = compare_worlds([(tmp_path / f"0-{seed}", tmp_path / f"0-{seed}") for seed in (1, 2)]).values()
    assert single.difference == pytest.approx(0.03) and single.low is single.p is same.low is same.p is None


def test_further_pairs_of_rows_are_tested() -> None:
    runs = [scored(row, sn={"f1": 0.5, "bleu4": 0.1}) for row in range(3)]
    rows = [{"name": "one"}, {"name": "two"}, {"name": "three"}]
    settings = study(rows=rows, against="one", compared=[["three", "two"]])
    table = build_table(settings, runs, lambda repeats: {"f1": difference()})
    assert [line.label for line in table.tested] == ["two − one", "three − one", "three − two"]
    assert {line.cells[-1] for line in table.tested} == {"0.001"}  # three tests


def test_a_row_that_cannot_be_compared_leaves_the_table_whole() -> None:
    def compare(repeats) -> dict[str, Difference]:
        raise DataError("record sn-1 has another reference")

    runs = [scored(row, sn={"f1": 0.5, "bleu4": 0.1}) for row in range(3)]
    table = build_table(study(against="two"), runs, compare)
    assert len(blocks(table)) == 1 and table.tested == []
    assert "one was not tested against two: record sn-1 has another reference." in table.scores.notes


def test_each_group_has_its_own_control() -> None:
    rows = [
        {"name": "off", "group": "A"},
        {"name": "on", "group": "A"},
        {"name": "off", "group": "B"},
        {"name": "on", "group": "B"},
        {"name": "more", "group": "C"},
    ]
    runs = [scored(i, sn={"f1": 0.1 * i})._replace(folder=Path(str(i))) for i in range(5)]
    asked = []
    settings = study(rows=rows, metrics=["f1"], against={"A": "off", "B": "off"})
    build_table(settings, runs, lambda repeats: asked.append(repeats) or {})
    assert asked == [[(Path("0"), Path("1"))], [(Path("2"), Path("3"))]]
    with pytest.raises(ValueError, match="off is a row of several groups"):
        study(rows=rows, metrics=["f1"], against="off")
    with pytest.raises(ValueError, match="off is not one of the rows of group C"):
        study(rows=rows, metrics=["f1"], against={"C": "off"})


def test_an_undefined_difference_is_no_test_and_counts_as_none() -> None:
    found = {"f1": difference(None, None), "bleu4": difference(p=0.02)}
    runs = [scored(row, sn={"f1": 0.5, "bleu4": 0.1}) for row in range(2)]
    table = build_table(study(against="one", rows=[{"name": "one"}, {"name": "two"}]), runs, lambda repeats: found)
    assert [line.cells for line in table.tested] == [
        ("F1", "–", "–", "–", "–"),
        ("B@4", "−0.012", "−0.020 to +0.001", "0.020", "0.020"),
    ]


def test_scores_of_other_outputs_stand_beside_runs(tmp_path: Path) -> None:
    settings = study(
        rows=[
            {"name": "ours"},
            {"name": "theirs", "files": "data/external/theirs"},
            {"name": "absent", "files": "data/external/absent", "how": "their own code"},
        ],
        metrics=["f1"],
        published="components",
        absent=[{"systems": ["Base", "Refine only"], "why": "nobody has them"}],
    )
    write_json(tmp_path / "data/external/theirs/scores.json", {"sn": {"f1": 0.25}})
    write_json(tmp_path / "data/external/theirs/signature.json", SIGNATURE)
    runs = collect(settings, tmp_path, tmp_path / "state")
    table = build_table(settings, runs)
    assert blocks(table)[0].lines == {"ours": [("–", None)], "theirs": [("0.250", None)], "absent": [("–", None)]}
    said = "data/external/absent holds no scores; `pacer score --out data/external/absent` makes them of its reports: "
    assert f"absent: {said}their own code." in table.scores.notes
    assert table.scores.notes[-1] == "No row here for Base, Refine only: nobody has them."
    assert any("ours: not run yet with seed 1." in note for note in table.scores.notes)


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
    marks = {label: line[0] for label, line in ranked(cells).items()}
    random.shuffle(cells)
    assert {label: line[0] for label, line in ranked(cells).items()} == marks
    best = max(float(cell.text) for cell in marks.values())
    assert all((cell.mark == "best") == (float(cell.text) == best) for cell in marks.values())
    below = [float(cell.text) for cell in marks.values() if float(cell.text) < best]
    assert {cell.text for cell in marks.values() if cell.mark == "second"} == (
        {f"{max(below):.3f}"} if below else set()
    )


def test_every_format_shows_every_cell_and_its_mark() -> None:
    runs = [scored(0, sn={"f1": 0.5, "bleu4": 0.1}), scored(1, sn={"f1": 0.25, "bleu4": 0.2})]
    settings = study(rows=[{"name": "A & <b>"}, {"name": "g(h,e) | 50 %"}], published="components", seeds=[1])
    table = build_table(settings, runs)
    text = markdown(table)
    assert "| A & <b> | **0.500** | <u>0.100</u> |" in text and "| g(h,e) \\| 50 % | <u>0.250</u> | **0.200** |" in text
    tex = latex(table)
    assert "A \\& $<$b$>$ & \\textbf{0.500} & \\underline{0.100} \\\\" in tex
    assert "\\emph{Components (published, not comparable)}" in tex
    assert tex.count("{") == tex.count("}")
    html = page(table)
    assert "<b>0.500</b>" in html and "<u>0.100</u>" in html and "A &amp; &lt;b&gt;" in html
    assert "<script" not in html and "src=" not in html and "http" not in html
    for note in table.scores.notes:
        assert note in text


def test_every_format_shows_the_protocol_of_a_published_block() -> None:
    settings = study(rows=[{"name": "one"}], metrics=["f1"], layout="contexts", published="conventional_sn")
    table = build_table(settings, [scored(0, sn={"f1": 0.5})])
    for text in (markdown(table), latex(table), page(table)):
        assert "each under its own protocol, metric definitions and averaging" in text


def test_every_format_shows_the_differences_and_a_label_once() -> None:
    found = {"f1": difference(), "bleu4": difference(0.01, 0.5)}
    runs = [scored(row, sn={"f1": 0.5, "bleu4": 0.1}) for row in range(2)]
    table = build_table(study(against="one", rows=[{"name": "one"}, {"name": "two"}]), runs, lambda repeats: found)
    text, tex, html = markdown(table), latex(table), page(table)
    assert "| two − one | F1 | −0.012 | −0.020 to +0.001 | < 0.001 | < 0.001 |\n|  | B@4 | +0.010 |" in text
    assert "two $-$ one & F1 & $-$0.012 & $-$0.020 to +0.001 & $<$ 0.001 & $<$ 0.001 \\\\" in tex
    assert tex.count("two $-$ one") == 1 and tex.count("\\begin{table}") == tex.count("\\end{table}") == 2
    assert html.count("two − one") == 2 and '<span class="spoken">two − one</span>' in html  # for screen readers
