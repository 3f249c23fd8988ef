"""The stage `lists`: resumed, its files are the same; with sides, it reads them from patches."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from pacer.core.anchor import ANCHOR_SCHEMA, DESCRIBED, SIDES, Anchor
from pacer.core.attributes import Attributes
from pacer.core.stops import Stopped
from pacer.decoding.lists import fit
from pacer.decoding.lists.maps import read_predictor
from pacer.features.store import IMAGES, PRIORS
from tests.support.drive import contents
from tests.support.models import WIDTH, moved_model, save_model, specification

#: Fits the maps of the records to these commitments, with a parent whose ``commit.attributes`` are
#: given; returns where they are, and the parent.
Fit = Callable[..., tuple[Path, Path]]


@pytest.fixture
def stage(tmp_path: Path, backbones: Path, records: pl.DataFrame, features, monkeypatch) -> Fit:
    """The stage, on records that are all of split train."""
    folder = tmp_path / "features"
    folder.mkdir()
    (folder / "manifest.json").write_text("{}")
    for index in (IMAGES, PRIORS):
        (folder / index).touch()
    monkeypatch.setattr(fit, "open_features", lambda *_: features)
    train = records.with_columns(split=pl.lit("train"))

    def run(
        name: str, commitments: Sequence[Anchor], attributes: Sequence[str] = ()
    ) -> tuple[Path, Path]:
        own = specification("parent")
        assert own.commit is not None
        commit = own.commit.model_copy(update={"attributes": [*attributes]})
        own = own.model_copy(update={"commit": commit})
        parent = tmp_path / f"parent of {name}"
        if not parent.exists():
            save_model(parent, moved_model(backbones, specification("parent")), backbones, own)
        schema = ANCHOR_SCHEMA | (DESCRIBED if attributes else {})
        lists: list[dict[str, Any]] = [
            {"record_id": key, "origin": "rules", "attributes": []} | one.as_dict()
            for key, one in zip(train["record_id"], commitments, strict=True)
        ]
        anchors = pl.DataFrame(lists, schema)
        fit.fit_list_predictor(parent, backbones, train, folder, anchors, tmp_path / name)
        assert not [*(tmp_path / f"{name}.scratch").glob("*/*")]
        return tmp_path / name, parent

    return run


def test_a_stopped_run_goes_on(
    tmp_path: Path, records: pl.DataFrame, stage: Fit, monkeypatch
) -> None:
    """With the records that no part has."""
    read: list[int] = []
    stop_after = [99]

    def counted(rows: list[dict], store: object) -> object:
        if len(read) >= stop_after[0]:
            raise Stopped(15)
        read.append(len(rows))
        return sources(rows, store)

    sources = fit.read_sources
    monkeypatch.setattr(fit, "read_sources", counted)
    monkeypatch.setattr(fit, "_PASS", 2)
    monkeypatch.setattr(fit, "_PART", 5)
    lists = [
        Anchor.of(["edema"] * (row % 2), ["pneumothorax"] * (row % 3 > 0))
        for row in range(len(records))
    ]

    def fitted(name: str) -> dict[str, bytes]:
        return contents(stage(name, lists)[0])

    expected, whole = fitted("whole"), sum(read)
    assert whole == len(records) > 20
    read.clear()
    stop_after[0] = 10
    with pytest.raises(Stopped):
        fitted("stopped")
    assert len([*(tmp_path / "stopped.scratch").glob("*/*.safetensors")]) == 3
    read.clear()
    stop_after[0] = 99
    assert fitted("stopped") == expected and sum(read) == whole - 15


def test_sides_are_fitted_to_the_patches_of_the_records_that_name_one(
    records: pl.DataFrame, stage: Fit, monkeypatch
) -> None:
    """And only if the lists of the parent have sides."""
    sides = [*SIDES.values()]
    lists = [
        Anchor.of(["pleural effusion"]).with_sides(
            {"pleural effusion": Attributes(side=sides[row % 3])} if row % 2 else {}
        )
        for row in range(len(records))
    ]
    named = np.flatnonzero([bool(one.attributes) for one in lists])
    given = {}

    def fit_sides(values, anchors, rows, patients, folds):
        given.update(values=values, anchors=anchors, rows=rows)
        maps = {"pleural effusion": (torch.ones(values.shape[1], 3), torch.zeros(3))}
        return maps, 0.4 if len(rows) else None, {}

    monkeypatch.setattr(fit, "fit_sides", fit_sides)
    predictor = read_predictor(*stage("sided", lists, ["side"]))
    assert given["anchors"] == lists and given["rows"].tolist() == named.tolist()
    depths = len(specification("parent").features.depths)
    assert predictor is not None and predictor.sides is not None and predictor.sides.grid == 8
    assert given["values"].shape == (len(named), 8 * 8 * (depths + 1) * WIDTH)
    assert predictor.sides.threshold == 0.4 and [*predictor.sides.maps] == ["pleural effusion"]
    predictor = read_predictor(*stage("plain", lists))
    assert predictor is not None and predictor.sides is None and not len(given["rows"])
