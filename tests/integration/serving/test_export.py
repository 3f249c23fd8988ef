"""An exported model is whole, says what it is, and refuses to be another; a bad source gets one
sentence."""

import json
import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pacer.backbones import external
from pacer.backbones.pointers import POINTER, PROVENANCE, write_pointer
from pacer.config import Decode
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import BackboneError, CheckpointError, ConfigError, DataError
from pacer.core.io import read_json, read_jsonl, write_json
from pacer.core.schemas import RECORD_SCHEMA
from pacer.decoding.lists.maps import read_predictor
from pacer.decoding.run import decode_records, trained_generator
from pacer.features.encode import build_store
from pacer.model.checkpoint import weights_hash
from pacer.serving.case import Case, load_image, load_text
from pacer.serving.layout import CARD
from pacer.serving.package import (
    MANIFEST,
    NOT_EXPORTED,
    SETTINGS,
    add_cautions,
    export_model,
    read_settings,
)
from pacer.serving.reporter import Reporter
from pacer.statistics.system import Scores
from tests.support.cases import listed_cases
from tests.support.serving import READ
from tests.support.world import FEATURES, World, rehashed


def test_a_copy_needs_nothing_else(world: World, folder: Path) -> None:
    """Moved to another place, and with pointers to it that lead nowhere."""
    assert not list(folder.rglob(POINTER))
    listed = read_json(folder / MANIFEST)["files"]
    assert set(listed) == {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()} - {
        MANIFEST,
        CARD,
    }
    card = (folder / CARD).read_text()
    assert "For research only" in card
    (folder / CARD).write_text(f"{card}- F1 .5 on our patients\n")
    assert read_json(folder / "config.json")["parent"] is None
    assert (
        Decode.model_fields.keys() - read_json(folder / SETTINGS)["search"] == NOT_EXPORTED.keys()
    )
    line = world.predictions("mw")[0]
    assert (
        Reporter(folder).generate([world.case(line["record_id"])])[0].generated == line["generated"]
    )


def test_warnings_of_the_run_go_with_the_model(
    world: World, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1 by chance is of the scores of the exported checkpoint, which the predictions name; those
    of other weights are not taken."""
    model = world.root / "calibrate"
    add_cautions(folder, model, tmp_path / "absent")
    notes = Reporter(folder, device="cpu").notes
    assert any("stand-ins, not published models: vision" in note for note in notes)
    assert "exported without scores" in notes[-1]
    cases = pl.DataFrame(
        {
            "record_id": [f"sn-{number}" for number in range(40)],
            "study_id": [f"{number}" for number in range(40)],
            "subject_id": [f"{number}" for number in range(40)],
            "context": "sn",
            "reference_positive": [["edema"], ["fracture"]] * 20,
            "report_positive": [["fracture"], ["edema"]] * 20,
            "anchor_positive": pl.Series([None] * 40, dtype=pl.List(pl.String)),
        }
    ).with_columns(
        pl.lit([], pl.List(pl.String)).alias(f"{side}_{polarity}")
        for side in ("reference", "report", "anchor")
        for polarity in ("negative", "uncertain")
    )
    (tmp_path / "scores.json").touch()
    predicted = read_json(world.root / "predictions" / "manifest.json")["weights"]
    for weights, expected in (("other", False), (predicted, True)):
        signature = SimpleNamespace(predictions={"weights": weights, "split": "test"})
        scored = Scores({}, cases, signature, pl.LazyFrame())  # ty: ignore[invalid-argument-type]
        monkeypatch.setattr(Scores, "convention", "llm-rg4", raising=False)
        monkeypatch.setattr("pacer.serving.package.Result.read", Mock(return_value=scored))
        add_cautions(folder, model, tmp_path)
        written = " ".join(Reporter(folder, device="cpu").notes)
        assert ("affirm is 0.000 on split test; by chance" in written) is expected
        assert ("F1 of reports is not shown to be above" in written) is expected


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_absent_is_named(folder: Path) -> None:
    with pytest.raises(ConfigError, match="device='cuda': this machine has no such device"):
        Reporter(folder, device="cuda")


def test_it_is_a_checkpoint_of_the_pipeline_too(
    world: World, exported: Path, tmp_path: Path
) -> None:
    """The stage decodes with it what it decodes with the model that it comes from."""
    features, out = world.root / "features", tmp_path / "out"
    read = partial(trained_generator, findings=exported / "findings")
    decode_records(exported, world.backbones, world.records(), features, world.decode, out, read)
    for context in CONTEXTS:
        assert read_jsonl(tmp_path / "out" / f"{context}.jsonl") == world.predictions(context)


def test_a_reference_needs_the_frozen_models(
    world: World, exported: Path, other_backbones: Path, tmp_path: Path
) -> None:
    """Where they were, or in a folder that is named; another model in their place is refused."""
    out = tmp_path / "out"
    export_model(out, world.decode, **world.inputs | {"backbones": other_backbones})
    assert len(list(out.rglob(POINTER))) == 3
    assert (
        sum(p.stat().st_size for p in out.rglob("*"))
        < sum(p.stat().st_size for p in exported.rglob("*")) / 2
    )
    line = world.predictions("sw")[1]
    case = world.case(line["record_id"])
    assert Reporter(out).generate([case])[0].generated == line["generated"]

    other_backbones.rename(tmp_path / "elsewhere")
    with pytest.raises(
        BackboneError,
        match=r"the frozen vision model is not at .*; pass the folder that contains it",
    ):
        Reporter(out)
    moved = Reporter(out, backbones=tmp_path / "elsewhere")
    assert moved.generate([case])[0].generated == line["generated"]
    config = tmp_path / "elsewhere" / "text" / "config.json"
    config.write_text(config.read_text() + " ")
    with pytest.raises(CheckpointError, match="was trained with a different text backbone"):
        Reporter(out, backbones=tmp_path / "elsewhere")


def test_published_models_are_found_in_the_hub_cache(
    world: World, other_backbones: Path, tmp_path: Path, monkeypatch
) -> None:
    """By id and revision, wherever the cache of this machine is; the bytes must be the same."""
    snapshot, vision = tmp_path / "cache" / "abc123", other_backbones / "vision"
    shutil.move(vision, snapshot)
    (snapshot / PROVENANCE).unlink()
    vision.mkdir()
    write_pointer(snapshot, [file.name for file in snapshot.iterdir()], vision)
    write_json(
        vision / PROVENANCE,
        {"provider": "hub", "id": "owner/name", "revision": "main", "commit": "abc123"},
    )
    out = tmp_path / "out"
    export_model(out, world.decode, **world.inputs | {"backbones": other_backbones})
    other = tmp_path / "home" / "abc123"
    other.parent.mkdir()
    snapshot.rename(other)
    asked = []

    def cached(name: str, revision: str, local_files_only: bool) -> str:
        asked.append((name, revision, local_files_only))
        return str(other)

    monkeypatch.setattr(external, "snapshot_download", cached)
    assert Reporter(out).commit
    assert asked == [("owner/name", "abc123", True)]
    (other / "config.json").write_text("{}")
    with pytest.raises(BackboneError, match="is missing, or does not match"):
        Reporter(out)


@pytest.mark.parametrize("phase", ["parent", "reference"])
def test_a_model_without_calibrate(world: World, tmp_path: Path, phase: str) -> None:
    """The parent itself, and ``calibrate`` with ``gate_inputs: none``, a reference to it."""
    model = world.root / "parent"
    if phase == "reference":
        model = tmp_path / "calibrate"
        model.mkdir()
        record = read_json(world.root / "calibrate" / "config.json")
        record["model"]["calibrate"]["gate_inputs"] = "none"
        record["parent"]["path"] = str(world.root / "parent")
        write_json(model / "config.json", record)
        assert weights_hash(model) == weights_hash(world.root / "parent")
    out = tmp_path / "out"
    export_model(out, world.decode, **world.inputs | {"model": model})
    result = Reporter(out).generate([world.case("mw-50000002")])[0]
    assert result.gate is None and result.tokens > 0


def test_inputs_that_do_not_belong_together_are_refused(
    world: World, other_backbones: Path, tmp_path: Path
) -> None:
    warmup = Path(shutil.copytree(world.root / "parent", tmp_path / "warmup"))
    write_json(warmup / "config.json", read_json(warmup / "config.json") | {"phase": "warmup"})
    no_images = pl.DataFrame(schema={"image_id": pl.String, "path": pl.String})
    depths, encoders, older = (tmp_path / name for name in ("depths", "encoders", "older"))
    build_store(
        FEATURES.model_copy(update={"depths": [2, 3]}), no_images, [], world.backbones, depths
    )
    with open(other_backbones / "text" / "config.json", "a") as file:
        file.write(" ")
    build_store(FEATURES, no_images, [], other_backbones, encoders)
    shutil.copytree(world.root / "features", older)
    manifest = read_json(older / MANIFEST)
    manifest["recipes"]["images"]["preparation"] = 1
    write_json(older / MANIFEST, manifest)
    untold = tmp_path / "records.parquet"
    world.records().write_parquet(untold)
    empty = tmp_path / "empty.parquet"
    pl.DataFrame(schema=RECORD_SCHEMA).write_parquet(empty)
    for changes, kind, sentence in (
        ({"model": warmup}, CheckpointError, "is a warm-up checkpoint, which cannot write reports"),
        ({"model": tmp_path}, CheckpointError, "is not a PACER checkpoint"),
        (
            {"backbones": other_backbones},
            CheckpointError,
            "was trained with a different text backbone",
        ),
        *(
            ({"features": store}, DataError, "was not made with the encoders and depths")
            for store in (depths, encoders)
        ),
        ({"features": tmp_path}, DataError, "it has no manifest.json"),
        ({"features": older}, DataError, "or comes from a different version of PACER"),
        ({"records": untold}, DataError, "does not name its cleaner"),
        ({"records": empty}, DataError, "has no training records"),
        ({"records": tmp_path / "none"}, DataError, "does not exist"),
    ):
        with pytest.raises(kind, match=sentence):
            export_model(tmp_path / "out", world.decode, **world.inputs | changes)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["model.safetensors", "findings/reader.safetensors"])
def test_a_changed_or_missing_file_is_named(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=f"{name} has changed since it was exported"):
        Reporter(folder)
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match=f"{name} is missing|is not an exported model"):
        Reporter(folder)


def test_other_versions_and_unknown_settings_are_refused(
    exported: Path, folder: Path, tmp_path: Path
) -> None:
    def changed(**changes) -> None:
        content = read_json(exported / SETTINGS)
        for key, value in changes.items():
            group, _, name = key.partition("__")
            (content[group] if name else content)[name or group] = value
        (folder / SETTINGS).write_text(json.dumps(content))
        rehashed(folder)

    for one in listed_cases(__file__, "settings"):
        changes, sentence = one.values
        changed(**changes)
        with pytest.raises((CheckpointError, ConfigError), match=sentence):
            Reporter(folder)
    manifest = read_json(folder / MANIFEST)
    write_json(folder / MANIFEST, manifest | {"version": 2})
    with pytest.raises(
        CheckpointError,
        match="uses layout version 2, but this version of PACER reads layout version 1",
    ):
        Reporter(folder)
    for other, problem in (
        (tmp_path, "is not an exported model"),
        (tmp_path / "none", "does not exist"),
    ):
        with pytest.raises(CheckpointError, match=rf"{problem}.* with `pacer export"):
            Reporter(other)


@pytest.mark.parametrize("risk", [None, {"false_present": None, "missed": None, "confidence": 0.9}])
def test_an_export_of_an_earlier_version_has_removed_settings(folder: Path, risk: Any) -> None:
    settings = read_json(folder / SETTINGS)
    removed = {"engine": "generate", "risk": risk, "temperature": 0.4}
    write_json(folder / SETTINGS, settings | {"search": settings["search"] | removed})
    rehashed(folder)
    assert (
        read_settings(folder).decoding.model_dump(exclude=set(NOT_EXPORTED)) == settings["search"]
    )


def test_sources_that_the_model_was_not_trained_on_are_refused(world: World, folder: Path) -> None:
    write_json(folder / SETTINGS, read_json(folder / SETTINGS) | {"contexts": ["mn", "sn"]})
    rehashed(folder)
    reporter = Reporter(folder)
    assert reporter.contexts == ("sn", "mn")
    assert reporter.prepare(world.case("mn-50000002")).context == "mn"
    with pytest.raises(
        DataError, match="has the sources of context sw, but the model was trained only on sn, mn"
    ):
        reporter.prepare(world.case("sw-50000002"))


def test_a_reading_of_sides_is_exported(described: Path) -> None:
    """As the stage wrote it."""
    stage = read_predictor(described.with_name("lists"), described.with_name("calibrate"))
    exported = read_predictor(described / "findings", described)
    assert stage is not None and exported is not None and exported.sides is not None
    assert exported.hash == stage.hash and set(exported.sides.maps) == set(READ)
    assert exported.sides.threshold == 0.3


SMALL = Image.linear_gradient("L")


@pytest.mark.parametrize(("source", "sentence"), listed_cases(__file__, "no_images"))
def test_what_is_no_image(
    source: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pacer.serving.case.MAX_BYTES", 40)
    for name, content in {
        "empty.png": "",
        "text.png": "patient named somebody",
        "large.png": "x" * 41,
    }.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=f"^image frontal of x.*{sentence}") as error:
        load_image(source, "frontal of x")
    assert "somebody" not in str(error.value)


@given(
    content=st.binary(max_size=400),
    start=st.sampled_from(
        [b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"II*\0", b"BM", b"\0" * 128 + b"DICM"]
    ),
)
def test_any_bytes_are_an_image_or_a_sentence(content: bytes, start: bytes) -> None:
    try:
        image, _ = load_image(start + content, "frontal of x")
    except DataError as error:
        assert str(error).startswith("image frontal of x: ") and "\n" not in str(error)
    else:
        assert image.mode in ("L", "RGB")


def test_texts_that_are_refused() -> None:
    for text, sentence in (
        ("secret \0", r"character 8 is the control character U\+0000"),
        ("secret " * 3000, "21,000"),
    ):
        with pytest.raises(DataError, match=f"^previous report of x: .*{sentence}") as error:
            load_text(text, "previous report of x")
        assert "secret" not in str(error.value)


@pytest.mark.parametrize("texts", [("N/A", "None", "nan"), (" \n", "", "-")])
def test_a_word_for_no_text_and_one_without_a_visible_character_are_none(
    reporter: Reporter, texts: tuple
) -> None:
    prepared = reporter.prepare(
        Case(SMALL, **dict(zip(("prior", "indication", "history"), texts, strict=True)))
    )
    assert (prepared.context, prepared.prior, prepared.indication, prepared.history) == (
        "sn",
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [*listed_cases(__file__, "cases"), ({"lateral": b""}, "the file is not an image")],
)
def test_a_case_is_refused_by_name(
    reporter: Reporter, changes: dict[str, Any], sentence: str
) -> None:
    same = {name: SMALL for name, value in changes.items() if value == "SAME"}
    with pytest.raises(DataError, match=sentence):
        reporter.prepare(Case(**{"frontal": SMALL, "name": "one"} | changes | same))
