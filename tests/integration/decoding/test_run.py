"""The stage `decode`: resumed, or made by several processes, its files are the same."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from safetensors.torch import load

from pacer.config import Decode
from pacer.core.errors import DataError
from pacer.core.io import hash_file
from pacer.decoding import run
from pacer.decoding.extract import Extraction
from pacer.decoding.generate import Generator
from pacer.decoding.run import decode_records
from pacer.features.store import IMAGES, PRIORS
from pacer.model.checkpoint import WEIGHTS
from pacer.text.rules import extract_anchor
from tests.support.cases import listed_cases
from tests.support.drive import contents
from tests.support.made_records import few_records
from tests.support.models import RandomFeatures, save_calibrated
from tests.support.searches import settings

pytestmark = pytest.mark.usefixtures("messages")

SETTINGS = listed_cases(__file__, "settings")
DECODE = settings(
    max_new_tokens=20, batch_size=3, examples=2, controls=["another_patient", "no_lateral"]
)


def stage_in(folder: Path, backbones: Path, records: pl.DataFrame, features) -> Any:
    """The stage on a small checkpoint and eight test records a context: ``stage(out, **changes of
    the settings)`` gives the folder's files. ``context``: of its records alone."""
    cases = records.with_columns(split=pl.lit("test"))
    save_calibrated(folder / "model", backbones)
    (folder / "features").mkdir()
    (folder / "features" / "manifest.json").write_text("{}")
    for index in (IMAGES, PRIORS):
        (folder / "features" / index).touch()

    def decode(out: str, context: str | None = None, **changes: Any) -> dict[str, bytes]:
        target, config = folder / out, DECODE.model_copy(update=changes)
        rows = cases if context is None else cases.filter(context=context)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(run, "open_features", lambda directory, backbones, device: features)
            decode_records(folder / "model", backbones, rows, folder / "features", config, target)
        assert not any(Path(f"{target}.scratch").glob("*/lines"))
        return contents(target)

    return decode


@pytest.fixture
def stage(tmp_path: Path, backbones: Path, records: pl.DataFrame, features) -> Any:
    return stage_in(tmp_path, backbones, records, features)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, backbones: Path) -> dict[str, bytes]:
    """What the stage writes if nothing stops it."""
    folder = tmp_path_factory.mktemp("stage")
    return stage_in(folder, backbones, few_records(".jpg"), RandomFeatures())("out")


def test_every_record_has_its_line_in_the_records_order(
    files: dict[str, bytes], records: pl.DataFrame
) -> None:
    for context in ("sn", "sw", "mn", "mw"):
        for folder in ("", "controls/another_patient/"):
            lines = [
                json.loads(line) for line in files[f"{folder}{context}.jsonl"].decode().splitlines()
            ]
            expected = records.filter(pl.col("context") == context)
            assert [line["record_id"] for line in lines] == expected["record_id"].to_list()
            assert all(0 < line["gate"] < 1 and 0 < line["tokens"] <= 20 for line in lines)
    assert set(files) >= {"routing.safetensors", "manifest.json", "controls/no_lateral/mn.jsonl"}


def test_a_report_is_written_for_the_list_of_its_reference(stage, records: pl.DataFrame) -> None:
    """Also where no reading is: the list comes from the rules."""
    files = stage("out", "sw", controls=["gold_list"], max_new_tokens=120)
    reports = dict(records.select("record_id", "report_raw").iter_rows())
    lines = [
        json.loads(line) for line in files["controls/gold_list/sw.jsonl"].decode().splitlines()
    ]
    assert len(lines) == 8 and any(line["anchor"]["positive"] for line in lines)
    for line in lines:
        assert line["anchor"] == extract_anchor(reports[line["record_id"]]).as_dict()


def test_empty_reports_are_counted(stage, monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the cases, not of controls."""
    found = iter(["", "edema .", ""] + ["clear ."] * 99)
    monkeypatch.setattr(
        Generator, "extract", lambda self, text: Extraction(next(found), None, False)
    )
    stage("out", controls=[])
    assert "decode: empty reports: 2" in capsys.readouterr().out


def test_a_text_without_a_report_is_marked(stage, monkeypatch) -> None:
    """Its list is kept, and the whole text is its report."""
    text = "<ANCHOR> positive: edema; negative: none; uncertain: none </ANCHOR>"
    monkeypatch.setattr(Generator, "text", lambda self, tokens: text)
    (line, *_) = map(json.loads, stage("out", controls=[])["sn.jsonl"].decode().splitlines())
    assert line["fallback"] and line["anchor"]["positive"] == ["edema"] and line["report"] == text


class Killed(Exception):
    pass


def stopped(stage, tmp_path: Path, monkeypatch, after: int, **changes: Any) -> Path:
    """The file of lines of a run that was killed after so many records."""
    stream = Generator.stream

    def interrupted(self, given, workers):
        for count, found in enumerate(stream(self, given, workers)):
            if count == after:
                raise Killed
            yield found

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(Generator, "stream", interrupted)
        stage("again", **changes)
    (part,) = (tmp_path / "again.scratch").glob("*/lines/0.jsonl")
    return part


def test_a_stopped_run_goes_on_with_the_records_that_are_missing(
    stage, files: dict[str, bytes], tmp_path: Path, monkeypatch
) -> None:
    """Each result is on disk as soon as it is there, and a line that a kill cut short is decoded
    again."""
    stream, decoded = Generator.stream, []

    def counted(self, given, workers):
        decoded.append(len(given))
        yield from stream(self, given, workers)

    part = stopped(stage, tmp_path, monkeypatch, 17)
    written = part.read_bytes()
    assert written.count(b"\n") == 17
    part.write_bytes(written[:-5])
    total = sum(content.count(b"\n") for name, content in files.items() if name.endswith(".jsonl"))
    monkeypatch.setattr(Generator, "stream", counted)
    assert stage("again") == files
    assert decoded == [total - 16]


@pytest.mark.parametrize(("setting", "value", "kept"), SETTINGS)
def test_which_settings_discard_finished_reports(
    stage, monkeypatch, setting: str, value: Any, kept: bool
) -> None:
    assert {case.values[0] for case in SETTINGS} == set(Decode.model_fields) - {"commitment"}
    used = []

    def stop(out: Path, fingerprint: str, *, main: bool) -> None:
        used.append(fingerprint)
        raise Killed

    monkeypatch.setattr(run, "scratch_directory", stop)
    for changes in ({}, {setting: value}):
        with pytest.raises(Killed):
            stage("out", **changes)
    assert (used[0] == used[1]) == kept


def test_a_damaged_line_of_a_stopped_run_is_named(stage, tmp_path: Path, monkeypatch) -> None:
    part = stopped(stage, tmp_path, monkeypatch, 3)
    part.write_bytes(part.read_bytes() + b'{"run": \n')
    with pytest.raises(DataError, match=r"lines/0.jsonl, line 4"):
        stage("again")


def test_a_split_without_records_is_refused(stage) -> None:
    with pytest.raises(
        DataError, match=r"split val has no records; choose another .*available: test"
    ):
        stage("out", split="val")


def test_depth_weights_of_the_examples_are_kept(
    files: dict[str, bytes], records: pl.DataFrame
) -> None:
    """One record a study, with its lateral image where a record has one."""
    kept = load(files["routing.safetensors"])
    study_of = dict(records.select("record_id", "study_id").iter_rows())
    with_lateral = set(records.filter(pl.col("lateral").is_not_null())["study_id"])
    records_kept = {name.partition("/")[0] for name in kept}
    assert (
        sorted(study_of[record] for record in records_kept)
        == json.loads(files["manifest.json"])["examples"]
    )
    for record in records_kept:
        assert f"{record}/frontal" in kept
        assert (f"{record}/lateral" in kept) == (study_of[record] in with_lateral)
    assert all(
        torch.allclose(weights.sum(1), torch.ones(len(weights))) for weights in kept.values()
    )
    assert (
        len({weights.numpy().tobytes() for weights in kept.values()}) == len(kept) > 2
    )  # of different images


def test_the_manifest_says_which_weights_wrote_the_reports(
    files: dict[str, bytes], backbones: Path, tmp_path: Path
) -> None:
    manifest = json.loads(files["manifest.json"])
    save_calibrated(tmp_path / "model", backbones)
    assert manifest["weights"] == hash_file(tmp_path / "model" / WEIGHTS)
    assert set(manifest["frozen"]) == {"vision", "language", "text"}
