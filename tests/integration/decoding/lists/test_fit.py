"""The stage `lists`: resumed, its files are the same."""

from pathlib import Path

import polars as pl
import pytest

from pacer.core.anchor import ANCHOR_SCHEMA, Anchor
from pacer.core.stops import Stopped
from pacer.decoding.lists import fit
from pacer.features.store import IMAGES, PRIORS
from tests.support.drive import contents
from tests.support.models import moved_model, save_model, specification


def test_a_stopped_run_goes_on(
    tmp_path: Path, backbones: Path, records: pl.DataFrame, features, monkeypatch
) -> None:
    """With the records that no part has."""
    parent, folder = tmp_path / "parent", tmp_path / "features"
    save_model(
        parent, moved_model(backbones, specification("parent")), backbones, specification("parent")
    )
    folder.mkdir()
    (folder / "manifest.json").write_text("{}")
    for index in (IMAGES, PRIORS):
        (folder / index).touch()
    read: list[int] = []
    stop_after = [99]

    def counted(rows: list[dict], store: object) -> object:
        if len(read) >= stop_after[0]:
            raise Stopped(15)
        read.append(len(rows))
        return sources(rows, store)

    sources = fit.read_sources
    monkeypatch.setattr(fit, "read_sources", counted)
    monkeypatch.setattr(fit, "open_features", lambda *_: features)
    monkeypatch.setattr(fit, "_PASS", 2)
    monkeypatch.setattr(fit, "_PART", 5)
    train = records.with_columns(split=pl.lit("train"))
    lists = [
        Anchor.of(["edema"] * (row % 2), ["pneumothorax"] * (row % 3 > 0)).as_dict()
        for row in range(len(train))
    ]
    anchors = (
        pl.DataFrame(lists)
        .with_columns(train["record_id"], origin=pl.lit("rules"))
        .select(*ANCHOR_SCHEMA)
    )

    def fitted(name: str) -> dict[str, bytes]:
        fit.fit_list_predictor(
            parent, backbones, train, folder, anchors.cast(ANCHOR_SCHEMA), tmp_path / name
        )
        assert not [*(tmp_path / f"{name}.scratch").glob("*/*")]
        return contents(tmp_path / name)

    expected, whole = fitted("whole"), sum(read)
    assert whole == len(train) > 20
    read.clear()
    stop_after[0] = 10
    with pytest.raises(Stopped):
        fitted("stopped")
    assert len([*(tmp_path / "stopped.scratch").glob("*/*.safetensors")]) == 3
    read.clear()
    stop_after[0] = 99
    assert fitted("stopped") == expected and sum(read) == whole - 15
