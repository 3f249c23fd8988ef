"""The reports that need no model are those that their names say, and the tables are of the reports that are kept."""

from __future__ import annotations

import gzip
import importlib
import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image

from pacer.metrics.chexbert.observations import OBSERVATIONS, POSITIVE, UNCERTAIN
from pacer.metrics.scoring import anchors_of
from pacer.model.assemble import build_model, load_tokenizer
from pacer.model.pacer import Pacer
from pacer.records.schemas import ABOUT, IMAGE_SCHEMA, of_split
from pacer.training.examples import Examples
from pacer.training.record_table import RecordTable
from tests.conftest import specification
from tests.made_records import few_records

pytestmark = pytest.mark.slow


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "bench"))
    monkeypatch.chdir(tmp_path)
    return importlib.import_module("openi")


def corpus() -> pl.DataFrame:
    """Contexts sn and mn of eight patients, the last three in test, two of whose reports are in no other."""
    records = few_records(".png").filter(pl.col("context").is_in(["sn", "mn"]))
    last = pl.col("study_id").is_in(["s5", "s6", "s7"])
    added = pl.when(pl.col("study_id").is_in(["s5", "s6"])).then(pl.lit(" the ribs are old .")).otherwise(pl.lit(""))
    return records.with_columns(
        split=pl.when(last).then(pl.lit("test")).otherwise(pl.lit("train")), report=pl.col("report") + added
    )


def test_what_the_rules_affirm_or_suspect_counts(bench: ModuleType) -> None:
    texts = "large right pleural effusion . possible pneumonia .", "no edema . mild cardiomegaly ."
    found = bench.classes(anchors_of(texts))
    named = [{OBSERVATIONS[place]: row[place] for place in row.nonzero()[0]} for row in found]
    assert named == [{"Pleural Effusion": POSITIVE, "Pneumonia": UNCERTAIN}, {"Cardiomegaly": POSITIVE}]


def test_r2gens_tokeniser_knows_frequent_words_and_cuts_the_end(bench: ModuleType) -> None:
    [short, long] = bench.as_r2gen(["the heart is odd .", "the " * 70], frozenset({"the", "heart", "is", "."}), 60)
    assert short == "the heart is <unk> ." and long.split() == ["the"] * 60


def test_the_first_report_is_what_stands_before_the_first_end(bench: ModuleType) -> None:
    anchor, one, cut = "<ANCHOR> negative: edema </ANCHOR>\n", "<REPORT>\nno edema .\n</REPORT>", "<REPORT>\nno"
    assert {bench.first_report(text) for text in (anchor + one, anchor + one + anchor + cut)} == {"no edema ."}
    assert bench.first_report(anchor + cut) == "no" and bench.first_report("no edema .") == "no edema ."


def test_what_is_kept_of_a_run(bench: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    line = {"record_id": "sn-1", "report": "no", "generated": "<REPORT>no", "gate": 0.5}
    (tmp_path / "sn.jsonl").write_text(json.dumps(line) + "\n")
    monkeypatch.setattr(bench, "finished", lambda: {("Commit only", 42): tmp_path})
    monkeypatch.setattr(bench, "fetch", lambda run, path, into: run)
    bench.keep()
    [kept] = gzip.decompress((bench.KEPT / "commit_only_42.jsonl.gz").read_bytes()).splitlines()
    del line["gate"]
    assert json.loads(kept) == {"system": "Commit only", "seed": 42, **line}


@pytest.mark.parametrize("there", [False, True])
def test_controls_that_are_there_are_not_made_again(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, there: bool
) -> None:
    def fetched(*parts: object) -> Path:
        raise InterruptedError

    monkeypatch.setattr(bench, "finished", lambda: {("Base", 42): tmp_path, ("Refine only", 42): tmp_path})
    monkeypatch.setattr(bench, "fetch", fetched)
    for control in (bench.OTHER, bench.AVERAGE, bench.PLAIN) if there else (bench.OTHER,):
        bench.write(f"Base, {control}", 42, [])
    bench.write(bench.NEAREST, None, [])
    with nullcontext() if there else pytest.raises(InterruptedError):
        bench.controls()


def test_the_nearest_is_by_direction_and_in_the_same_context(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    angles = {"f0.png": 0.0, "f1.png": 0.5, "f2.png": 1.0, "f3.png": 1.5, "f4.png": 1.5}
    angles |= {"f5.png": 0.45, "f6.png": 1.4, "f7.png": 0.1}

    class Store:
        def __init__(self, _: Path):
            pass

        def depth_states(self, images: Sequence[str]) -> torch.Tensor:
            angle = torch.tensor(angles[images[0]])
            own = torch.stack([angle.cos(), angle.sin()]) * (1 + 9 * angle)
            return torch.stack([torch.zeros(2, 2), torch.stack([own * 0.5, own * 1.5])])[None]  # [1, K, N, d]

    monkeypatch.setattr(bench, "FeatureStore", Store)
    found = bench.nearest(of_split(corpus(), "train"), of_split(corpus(), "test"), Path())
    wanted = {
        f"{context}-{own}": f"{context}-{near}" for context in ("sn", "mn") for own, near in ((5, 1), (6, 3), (7, 0))
    }
    assert {row["record_id"]: row["train"] for row in found} == wanted


def test_another_patients_radiographs_come_without_that_patients_words(bench: ModuleType) -> None:
    test = of_split(corpus(), "test").with_columns(indication=pl.col("subject_id"))
    changed = bench.other_radiographs(test)
    assert changed.columns == test.columns and changed["record_id"].to_list() == test["record_id"].to_list()
    for own, row in zip(test.iter_rows(named=True), changed.iter_rows(named=True), strict=True):
        assert row["frontal"] != own["frontal"] and (row["lateral"] is None) == (own["lateral"] is None)
        assert row["lateral"] in (None, row["frontal"].replace("f", "l"))
        assert own | {"frontal": None, "lateral": None} == row | {"frontal": None, "lateral": None}


@pytest.mark.parametrize("route", ["direct", "stochastic"])
def test_what_references_cost_is_their_likelihood_token_by_token(
    bench: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    records: pl.DataFrame,
    anchors: pl.DataFrame,
    backbones: Path,
    features: Any,
    capsys: pytest.CaptureFixture[str],
    route: str,
) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    records.cast({"emphasis": pl.List(pl.Float32)}).write_parquet(folder / "records.parquet")
    anchors.write_parquet(tmp_path / "anchors.parquet")
    likelihood = importlib.import_module("openi_likelihood")
    own = specification(commit={"route": route})
    torch.manual_seed(2)
    model = build_model(backbones, own).eval()
    places = {"corpus": folder, "anchors.parquet": tmp_path / "anchors.parquet", "backbones": backbones}
    for module in (bench, likelihood):
        monkeypatch.setattr(module, "fetch", lambda run, path, into: places.get(Path(path).name, tmp_path))
    monkeypatch.setattr(likelihood, "load_model", lambda *paths: (model, SimpleNamespace(model=own)))
    monkeypatch.setattr(likelihood, "FeatureStore", lambda path: features)
    found = likelihood.nats(tmp_path)
    assert list(found) == ["sn", "mn"]
    for context, (as_they_are, with_other, with_next) in found.items():
        val = of_split(records, "val").filter(context=context)
        chosen = val.select("record_id").join(anchors, on="record_id")
        turned = chosen[::-1].with_columns(chosen["record_id"])  # of two patients
        assert not chosen.equals(turned)
        for commitments, measured in ((chosen, as_they_are), (turned, with_next)):
            examples = Examples(RecordTable.of(val, commitments), load_tokenizer(backbones), features, own)
            np.testing.assert_allclose(measured, [costs(model, examples, row, own.commits) for row in (0, 1)], 1e-5)
        assert (as_they_are != with_other)[:, 1].all()
    monkeypatch.setattr(likelihood, "finished", lambda: {("PACER", 42): tmp_path})
    likelihood.main()
    cells = [cell.strip() for cell in capsys.readouterr().out.splitlines()[-1].split("|")[4:-1]]
    report, difference = as_they_are[:, 1].mean(), (as_they_are - with_other)[:, 1].mean()
    assert cells[2] == f"{report:.2f}" and cells[3].startswith(f"{difference:+.2f} (")
    assert (cells[1] == "–") == (cells[4] == "–") == (route == "direct")


def costs(model: Pacer, examples: Examples, row: int, commit: bool) -> list[float]:
    """Nats of the commitment and of the report of one record, from the logits of its whole sequence."""
    batch = examples.batch([row], [commit], 1.0)
    with torch.no_grad():
        embedded, _, _ = model.calibrate(model.embed(batch), batch)
        logits = model.language(inputs_embeds=embedded).logits[0].log_softmax(-1)
    ids, target, opening = batch.ids[0].tolist(), int(batch.prefix_length) + 1, examples.builder.opening
    each = [-logits[at - 1, ids[at]].item() for at in range(target, len(ids))]
    opens = [at for at in range(target, len(ids)) if ids[at : at + len(opening)] == opening]
    report = opens[0] + len(opening) - target if commit else 0
    return [sum(each[:report]), sum(each[report:])]


def test_the_mean_radiograph_is_that_of_each_view(bench: ModuleType, tmp_path: Path) -> None:
    rows = []
    for number in range(5):
        for view, grey in (("f", 20 * number), ("l", 100 + 20 * number)):
            path = tmp_path / f"{view}{number}.png"
            image = Image.new("L", (30, 20), grey)
            image.paste(grey + 50, (15, 0, 30, 20))
            image.save(path)
            rows.append((path.name, str(path), path.stat().st_size, 30, 20))
    images = pl.DataFrame(rows, IMAGE_SCHEMA, orient="row")
    means = bench.mean_radiographs(of_split(corpus(), "train"), images, tmp_path)
    assert means.schema == images.schema and means["image_id"].to_list() == ["frontal", "lateral"]
    for path, grey in zip(means["path"], (40, 140), strict=True):
        mean = np.asarray(Image.open(path))
        assert set(mean[:, 5:60].ravel()) == {grey} and set(mean[:, -60:-5].ravel()) == {grey + 50}


def test_the_tables_are_of_the_reports_that_are_kept(
    bench: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / bench.RECORDS).parent.mkdir(parents=True)
    records = corpus().cast({"emphasis": pl.List(pl.Float32)})
    records.write_parquet(bench.RECORDS, metadata={ABOUT: json.dumps({"target": "findings_and_impression"})})
    with pytest.raises(SystemExit, match="findings_and_impression; the study's is findings"):
        bench.scores(None)
    records.write_parquet(bench.RECORDS, metadata={ABOUT: json.dumps({"target": "findings"})})
    test = of_split(corpus(), "test")
    same = [{"record_id": own, "report": report} for own, report in test.select("record_id", "report").iter_rows()]
    bench.write("Refine only", 42, same)
    for seed, report in ((42, "no edema ."), (43, "mild cardiomegaly .")):
        generated = f"<REPORT>{report}</REPORT>"
        bench.write("Base", seed, [row | {"report": report, "generated": generated} for row in same])
    twice = "<REPORT>mild cardiomegaly .</REPORT><REPORT>no"
    bench.write("Commit only", 42, [row | {"report": "no", "generated": twice} for row in same])
    bench.write(bench.NEAREST, None, [{"record_id": own, "train": own[:-1] + "3"} for own in test["record_id"]])
    bench.scores(tmp_path / "chart.svg")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Commit only, seed 42: 6 of 6 generations hold a second <REPORT>"
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    every = {
        (row[0], row[1]): row[2:]
        for row in rows[: lines.index(next(line for line in lines if "Not in train" in line))]
        if len(row) > 2
    }
    assert every["Refine only", "42"][:3] == ["1.000", "1.000", "1.000"]
    assert every["Refine only", "42"][6:8] == ["1.000"] * 2
    assert every["Base", "42"][:3] == ["–", ".000", ".000"] and every["Base", "43"][:3] == [".333"] * 2 + [".333"]
    assert every["Base", "43"][3] == ".333", "whoever writes the same for everybody has chance's F1"
    assert every["Commit only, the first report", "42"] == every["Base", "43"]
    assert every["Refine only", "42"][3] == ".333", "the findings of one of three patients"
    # of s5 (an effusion denied), s6 (cardiomegaly) and s7 (the neighbour's own report)
    assert every["the nearest train report", ""][:3] == [".333", ".667", ".444"]
    # of seed 42, which both have
    assert every["Refine only − Base", "1"][0].startswith("+1.000 (") and every["Refine only − Base", "1"][1] != "added"
    assert every["Commit only, the first report − Commit only", "1"][1] == "added"
    assert len([row for row in rows if row[0] == "Refine only"]) == 3
    assert every[bench.ITSELF, ""] == every["Refine only", "42"]
    assert (tmp_path / "chart.svg").read_text().count("Refine only − Base") == 1
    assert "## Not in train, of the test reports: 2 in sn, 2 in mn" in lines
