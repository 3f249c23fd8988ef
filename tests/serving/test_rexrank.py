"""``pacer generate --rexrank``: the benchmark's studies in, its file of predictions out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pacer.corpus.rexrank import read_studies

from pacer.core.io import read_json, read_jsonl, write_jsonl
from pacer.external.report_files import HYPOTHESIS_COLUMNS, REFERENCE_COLUMNS, read_reports
from pacer.serving.case import Case
from pacer.serving.rexrank import write_predictions
from tests.serving.test_commands import Outcome, generate, pacer
from tests.serving.world import World

__all__ = ["Outcome", "generate", "pacer"]

pytestmark = pytest.mark.slow


@pytest.fixture
def studies(world: World, tmp_path: Path) -> dict[str, Any]:
    """The test studies of `mn` as the benchmark writes them, in ``rexrank.json``; the second without a lateral view."""
    found: dict[str, Any] = {}
    for record_id, row in world.raw("mn").items():
        images = [row["lateral_imagepath"], row["APPA_imagepath"]]
        found[record_id[3:]] = {
            "image_path": [f"/{image}" for image in images],
            "key_image_path": f"/{images[1]}",
            "frontal_lateral": ["lateral", {"PA": "postero-anterior", "AP": "antero-posterior"}.get(row["APPA_flag"])],
            "context": f"Age:60-70.Gender:F.Indication: {row['indication'] or float('nan')}",
            "section_findings": row["finding"],
            "section_impression": float("nan"),
            "split": "test",
        }
    second = found["50000003"]
    second |= {"image_path": second["image_path"][1:], "frontal_lateral": [float("nan")]}
    (tmp_path / "rexrank.json").write_text(json.dumps(found))
    return found


def test_a_prediction_for_every_study_by_the_benchmarks_own_options(world, studies, generate, reporter, tmp_path):
    out = tmp_path / "results" / "predictions.json"
    options = ("--input_json_file", tmp_path / "rexrank.json", "--img_root_dir", world.root / "files")
    done = generate(*options, "--save_json_file", out)
    assert done.code == 0 and "3 reports written" in done.out, done.error
    made = read_json(out)
    assert list(made) == list(studies)
    for name, study in made.items():
        row = world.raw("mn")[f"mn-{name}"]
        lateral = None if name == "50000003" else world.root / "files" / row["lateral_imagepath"]
        view = row["APPA_flag"] if row["APPA_flag"] in ("AP", "PA") and name != "50000003" else None
        frontal = world.root / "files" / row["APPA_imagepath"]
        [own] = reporter.generate([Case(frontal, lateral, indication=row["indication"] or None, view=view)])
        assert study.pop("model_prediction") == own.report
        assert study.pop("section_impression") is None  # NaN is no JSON
        given = studies[name]
        assert study["frontal_lateral"] == [v if v == v else None for v in given["frontal_lateral"]]
        for field in ("image_path", "key_image_path", "context", "section_findings", "split"):
            assert study[field] == given[field]
    lines = read_jsonl(out.with_suffix(".jsonl"))
    assert [(line["case"], line["context"]) for line in lines] == [
        ("50000002", "mn"),
        ("50000003", "sn"),
        ("50000004", "mn"),
    ]


@pytest.mark.parametrize("content", ['{"my": "file"}', "[1]", '{"a": {"context": "x"}}'])
def test_another_file_is_not_replaced(studies, generate, tmp_path, content):
    out = tmp_path / "other.json"
    out.write_text(content)
    refused = generate("--rexrank", tmp_path / "rexrank.json", "--out", out)
    assert refused.code == 1 and "is not a file of predictions; name another file" in refused.error
    assert out.read_text() == content


def test_a_stopped_run_goes_on_and_bad_studies_are_named(world, studies, generate, tmp_path):
    out, given_file = tmp_path / "predictions.json", tmp_path / "rexrank.json"
    arguments = ("--rexrank", given_file, "--img_root_dir", world.root / "files", "--out", out)
    whole = generate(*arguments)
    assert whole.code == 0
    first = out.read_bytes()
    lines = out.with_suffix(".jsonl")
    lines.write_bytes(b"".join(lines.read_bytes().splitlines(keepends=True)[:2]))
    out.unlink()
    again = generate(*arguments)
    assert "1 reports written" in again.out and "2 kept from an earlier run" in again.out and out.read_bytes() == first
    studies["lost"] = studies["50000002"] | {"image_path": ["/none.png"], "key_image_path": "/none.png"}
    studies["stray"] = studies["50000003"] | {"image_path": ["../x.png"], "key_image_path": "../x.png"}
    unknown = studies["50000004"] | {"frontal_lateral": ["oblique", "oblique"]}
    studies["unknown"] = {name: value for name, value in unknown.items() if name != "key_image_path"}
    given_file.write_text(json.dumps(studies))
    refused = generate(*arguments)
    assert refused.code == 1 and "3 of 6 cases cannot be used" in refused.error
    for words in ("lost", "stray, image_path: it leads out of the folder", "unknown: no image of it is frontal"):
        assert words in refused.error
    done = generate(*arguments, "--skip-bad")
    assert done.code == 0 and "3 of 6 cases left out" in done.out and list(read_json(out)) == list(studies)[:3]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--rexrank", "r.json"), "--rexrank needs --out, the file for the results, such as predictions.json"),
        (("--rexrank", "r.json", "--out", "p.jsonl"), "needs a file .json other than r.json"),
        (("--rexrank", "r.json", "--out", "r.json"), "needs a file .json other than r.json"),
        (("--rexrank", "r.json", "--cases", "c.csv", "--out", "p.json"), "both give many cases"),
        (("--rexrank", "r.json", "--out", "p.json", "--all-contexts"), "--all-contexts goes with one case and with"),
        (("--rexrank", "r.json", "--out", "p.json", "--delimiter", "tab"), "--delimiter goes with --cases"),
        (("--cases", "c.csv", "--out", "p.jsonl", "--img_root_dir", "."), "--img_root_dir goes with --rexrank"),
        (("--rexrank", "none.json", "--out", "p.json"), "none.json does not exist"),
    ],
)
def test_what_does_not_go_together_is_refused_before_the_model_is_loaded(
    generate, tmp_path, monkeypatch, arguments, sentence
):
    monkeypatch.chdir(tmp_path)
    refused = generate(*arguments)
    assert refused.code == 1 and sentence in refused.error and refused.error.count("\n") == 1


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1),
        st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"]))),
        min_size=1,
        max_size=4,
    )
)
def test_predictions_are_read_as_they_were_written(tmp_path_factory, texts):
    folder = tmp_path_factory.getbasetemp()
    image = {"image_path": ["a.png"], "key_image_path": "a.png", "context": "Indication: Cough."}
    given_file, out = folder / "given.json", folder / "made.json"
    given_file.write_text(json.dumps({name: image | {"report": report} for name, (report, _) in texts.items()}))
    write_jsonl(folder / "lines.jsonl", [{"case": name, "report": made} for name, (_, made) in texts.items()])
    write_predictions(out, read_studies(given_file), folder / "lines.jsonl")
    found = read_reports(out, HYPOTHESIS_COLUMNS)
    assert dict(zip(found.ids, found.texts, strict=True)) == {name: made for name, (_, made) in texts.items()}
    for path in (out, given_file):
        known = read_reports(path, REFERENCE_COLUMNS)
        assert known.texts == [report for report, _ in texts.values()] and "context" not in known.extra
