"""The making of a feature store, killed at every point, by one process and by two."""

from pathlib import Path

import polars as pl
import pytest
import torch

from pacer.core.io import read_json
from pacer.features.store import FeatureStore
from tests.support.building import IMAGES, SHARD, Setting, cut, setting, shard_of
from tests.support.drive import KILLED, contents

__all__ = ["setting"]


def test_killed_anywhere_at_most_one_shard_is_repeated(setting: Setting) -> None:
    """At each batch and at each moment at which a file gets its name or goes, in the first run and
    in a second."""
    assert ("encode images", 6) in setting.points and ("os.replace out", 0) in setting.points
    setting.survive(setting.points, "killed", IMAGES + SHARD)


def test_killed_again_and_again(setting: Setting) -> None:
    """Each start has three batches and a shard needs two: what a start leaves is one more shard."""
    name, starts = "again", 0
    while (
        setting.server.run(setting.task(name, stop={"point": "encode images", "number": 3}))[0][0]
        == KILLED
    ):
        starts += 1
    assert starts == 2 and contents(setting.folder / name) == setting.whole
    assert setting.encoded(name)["0"] <= IMAGES + starts * SHARD


def test_killed_while_it_repairs(setting: Setting) -> None:
    """What was whole is never encoded again, also where the old store was being replaced."""
    setting.server.finish(setting.task("repaired"))
    shard = shard_of(setting.folder / "repaired", "img4")
    data = shard.read_bytes()
    cut(shard)
    watch = str(setting.folder / "repair.watch")
    setting.server.finish(setting.task("repaired", watch=watch))
    points = [(point, number) for point, number in read_json(watch)]
    assert len([point for point, _ in points if point.startswith("os.unlink")]) > 10
    damaged = setting.whole | {shard.name: data[:-1]}
    setting.survive(points[::2], "repaired", 2 * SHARD, damaged)


@pytest.fixture(scope="module")
def together(setting: Setting) -> tuple[int, str]:
    """Two processes: a store, and then one that lacks an image of the second shard, the second
    process's."""
    bad = setting.folder / "bad.png"
    bad.write_bytes(b"")
    images = setting.images.with_columns(
        path=pl.when(pl.col("image_id") == "img4").then(pl.lit(str(bad))).otherwise(pl.col("path"))
    )
    return setting.launch(setting.task("together"), setting.task("refused", images))


def test_two_processes_make_the_store_of_one(setting: Setting, together: tuple[int, str]) -> None:
    assert contents(setting.folder / "together") == setting.whole, together[1]
    assert setting.encoded("together") == {"0": 6, "1": 4}


def test_an_unreadable_image_of_one_process_ends_all(
    setting: Setting, together: tuple[int, str]
) -> None:
    code, output = together
    assert code != 0 and not (setting.folder / "refused").exists()
    assert "error: 1 image cannot be read" in output, output
    assert "\n  img4: the file is not an image" in output, output
    setting.server.finish(setting.task("refused"))
    assert sum(setting.encoded("refused").values()) == IMAGES
    repaired, whole = (FeatureStore(setting.folder / name) for name in ("refused", "whole"))
    names = setting.images["image_id"].to_list()
    assert torch.equal(repaired.depth_states(names), whole.depth_states(names))


@pytest.mark.parametrize(("rank", "shards"), [(1, 1), (0, 1)])
def test_a_killed_process_leaves_its_shards(setting: Setting, rank: int, shards: int) -> None:
    name = f"lost{rank}"
    code, output = setting.launch(
        setting.task(name, stop={"point": "encode images", "number": 2, "rank": rank})
    )
    assert code != 0 and "SIGKILL" in output
    made = list(Path(f"{setting.folder / name}.scratch").rglob("images-*.safetensors"))
    assert len(made) >= shards
    if rank == 1:
        setting.server.finish(setting.task(name))
    else:
        code, output = setting.launch(setting.task(name))
        assert code == 0, output
    assert contents(setting.folder / name) == setting.whole
    assert sum(setting.encoded(name).values()) <= IMAGES + 2 * SHARD
