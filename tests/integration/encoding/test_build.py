"""The making of a feature store: whole files, damage repaired, kills survived, processes that agree."""

from __future__ import annotations

import csv
import re
import signal
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import safetensors.torch
import torch
from PIL import Image

from pacer.core.errors import DataError
from pacer.core.io import read_json, write_json
from pacer.encoding import build_store as build
from pacer.encoding.shards import write_tensors
from pacer.features.encoder import ImageEncoder
from pacer.features.store import MANIFEST, FeatureStore
from pacer.params import Features
from tests.support import building, drive

SHARD, IMAGES = 3, 10
CONFIG = Features(
    mode="states",
    depths=[1, 3],
    dtype="bfloat16",
    precision="float32",
    batch_size=2,
    shard_size=SHARD,
    workers=1,
    prior_tokens=12,
)
TEXTS = ["no effusion .", "edema .", "no effusion .", "pneumonia .", "clear .", "stable ."]
KILLED = -signal.SIGKILL


@pytest.fixture
def images(tmp_path: Path) -> pl.DataFrame:
    return make_images(tmp_path)


def make_images(folder: Path) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    paths = [str(folder / f"{i}.png") for i in range(IMAGES)]
    for path in paths:
        Image.fromarray(rng.integers(0, 255, (70, 64), dtype=np.uint8)).save(path)
    return pl.DataFrame({"image_id": [f"img{i}" for i in range(IMAGES)], "path": paths})


def content(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir()}


def shard_of(out: Path, image_id: str) -> Path:
    index = pl.read_parquet(out / "images.parquet")
    return out / index.filter(pl.col("image_id") == image_id)["shard"][0]


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Images of each batch that is encoded."""
    batches: list[int] = []
    encode = ImageEncoder.encode
    monkeypatch.setattr(ImageEncoder, "encode", lambda self, x: batches.append(len(x)) or encode(self, x))
    return batches


# -- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_shards_are_the_bytes_that_safetensors_writes(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = {"states": torch.randn(7, 2, 3, 5).to(dtype), "mask": torch.randint(0, 2, (7, 3)).to(torch.uint8)}
    for names in (["states"], ["states", "mask"]):
        whole = {name: tensors[name] for name in names}
        batches = ({name: tensor[i : i + 3] for name, tensor in whole.items()} for i in (0, 3, 6))
        shard = write_tensors(tmp_path / "shard", 7, batches)
        expected = safetensors.torch.save(whole)
        assert (tmp_path / "shard").read_bytes() == expected
        assert shard == (len(expected), 7)
    with pytest.raises(ValueError, match="would have 7 rows, not 8"):
        write_tensors(tmp_path / "shard", 8, iter([tensors]))


def test_the_manifest_tells_what_each_file_is(backbones: Path, images: pl.DataFrame, tmp_path: Path) -> None:
    out = tmp_path / "out"
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    manifest, files = read_json(out / MANIFEST), content(out)
    assert files.keys() == {MANIFEST, "images.parquet", "priors.parquet", *manifest["shards"]}
    for name, shard in manifest["shards"].items():
        states = safetensors.torch.load(files[name])["states"]
        assert shard == {"bytes": len(files[name]), "rows": len(states)}
    assert sorted(shard["rows"] for shard in manifest["shards"].values()) == [1, 2, 3, 3, 3, 3]


# -- damage ---------------------------------------------------------------------------------------------------------


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("harm", "why"),
    [(cut, r"it has \d+ bytes instead of \d+"), (Path.unlink, r"it cannot be read \(No such file or directory\)")],
)
def test_a_damaged_shard_is_named_and_it_alone_is_made_again(
    backbones: Path, images: pl.DataFrame, tmp_path: Path, encoded: list[int], capsys: pytest.CaptureFixture, harm, why
) -> None:
    out = tmp_path / "out"
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    before, shard = content(out), shard_of(out, "img4")
    harm(shard)
    encoded.clear()
    capsys.readouterr()
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    output = capsys.readouterr().out
    assert re.search(f"{shard.name} is damaged: {why}; its 3 images are encoded again", output), output
    assert output.count(" is damaged: ") == 1 and "features: 3 images (" in output and "previous reports" not in output
    assert sum(encoded) == SHARD and content(out) == before


@pytest.mark.parametrize("harm", ["index", "manifest", "shards"])
def test_a_store_that_cannot_be_judged_is_made_again(
    backbones: Path, images: pl.DataFrame, tmp_path: Path, encoded: list[int], capsys: pytest.CaptureFixture, harm: str
) -> None:
    out = tmp_path / "out"
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    before, manifest = content(out), read_json(out / MANIFEST)
    if harm == "index":
        cut(out / "images.parquet")
    elif harm == "manifest":
        cut(out / MANIFEST), cut(out / MANIFEST)
    else:
        write_json(out / MANIFEST, {key: value for key, value in manifest.items() if key != "shards"})
    encoded.clear()
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    assert "nothing of it is used, all is encoded again" in capsys.readouterr().out
    assert sum(encoded) == IMAGES and content(out) == before


def test_a_damaged_shard_of_a_stopped_run_is_named_and_made_again(
    backbones: Path,
    images: pl.DataFrame,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    out = tmp_path / "out"
    build.build_store(CONFIG, images, TEXTS, backbones, tmp_path / "whole")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(build, "_write_index", interrupted)
        build.build_store(CONFIG, images, TEXTS, backbones, out)
    scratch = Path(f"{out}.scratch")
    cut(sorted(scratch.rglob("images-*.safetensors"))[0])
    note = sorted(scratch.rglob("priors-*.json"))[0]
    note.write_bytes(note.read_bytes()[:-9])
    capsys.readouterr()
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    told = capsys.readouterr().out
    assert told.count(" is damaged: it has ") == 1
    assert content(out) == content(tmp_path / "whole")


def interrupted(*arguments: object) -> None:
    raise KeyboardInterrupt


# -- plan and unreadable images -------------------------------------------------------------------------------------


def test_the_plan_is_announced(
    backbones: Path, images: pl.DataFrame, tmp_path: Path, encoded: list[int], capsys: pytest.CaptureFixture
) -> None:
    out = tmp_path / "out"
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    assert encoded == [2, 1, 2, 1, 2, 1, 1]
    states, priors, pixels = IMAGES * 2 * 16 * 16 * 2, 5 * (12 * 20 * 2 + 12), IMAGES * 56 * 56
    sizes = [states, priors, states + priors, pixels + priors]
    told = re.search(
        r"features: 10 images \(([\d.e-]+) MB\) and 5 previous reports \(([\d.e-]+) MB\) to encode; ([\d.e-]+) MB "
        r"of [\d.,]+ GB free\nfeatures: with features.mode: pixels it would be ([\d.e-]+) MB\n",
        capsys.readouterr().out,
    )
    assert told and [float(size) * 1e6 for size in told.groups()] == pytest.approx(sizes, rel=0.01)
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    assert "to encode" not in capsys.readouterr().out


def test_unreadable_images_are_listed_and_the_rest_is_kept(
    backbones: Path, images: pl.DataFrame, tmp_path: Path, encoded: list[int]
) -> None:
    build.build_store(CONFIG, images, TEXTS, backbones, tmp_path / "whole")
    paths = dict(images.iter_rows())
    good = {name: Path(paths[name]).read_bytes() for name in ("img1", "img8")}
    Path(paths["img1"]).write_bytes(b"not an image")
    Path(paths["img8"]).unlink()
    encoded.clear()
    listing = tmp_path / "out.unreadable.csv"
    with pytest.raises(
        DataError,
        match=r"^2 images cannot be read: img1 \(the file is not an image\); img8 \(the file "
        r"does not exist\)\. .*out\.unreadable\.csv lists all",
    ):
        build.build_store(CONFIG, images, TEXTS, backbones, tmp_path / "out")
    with open(listing, newline="") as file:
        assert list(csv.reader(file)) == [
            ["image_id", "path", "problem"],
            ["img1", paths["img1"], "the file is not an image"],
            ["img8", paths["img8"], "the file does not exist"],
        ]
    assert not (tmp_path / "out").exists() and sum(encoded) == 6  # the shards of img1 and img8 were not made
    for name, data in good.items():
        Path(paths[name]).write_bytes(data)
    encoded.clear()
    build.build_store(CONFIG, images, TEXTS, backbones, tmp_path / "out")
    assert sum(encoded) == 4  # both images, and what shared a shard with the one that was met late
    assert not listing.exists() and not Path(f"{tmp_path / 'out'}.scratch").exists()
    ids = images["image_id"].to_list()
    one, other = (FeatureStore(tmp_path / name).depth_states(ids) for name in ("whole", "out"))
    torch.testing.assert_close(one, other, rtol=0.02, atol=0.02)  # in other batches


def test_twenty_unreadable_images_are_shown(backbones: Path, images: pl.DataFrame, tmp_path: Path) -> None:
    table = pl.DataFrame({"image_id": [f"gone{i}" for i in range(23)], "path": [f"nowhere{i}" for i in range(23)]})
    with pytest.raises(DataError, match=r"23 images cannot be read: .* gone19 \(the file does not exist\); and 3 more"):
        build.build_store(CONFIG, pl.concat([images, table]), [], backbones, tmp_path / "out")
    assert len((tmp_path / "out.unreadable.csv").read_text().splitlines()) == 24


# -- kills and several processes ------------------------------------------------------------------------------------


class Setting:
    """Images, a server of processes, and the store that one process makes of them without a break."""

    def __init__(self, folder: Path, backbones: Path, server: building.Server):
        self.folder, self.backbones, self.server = folder, backbones, server
        self.images = make_images(folder)
        server.finish(self.task("whole", watch=str(folder / "watch.json")))
        self.points = [(point, number) for point, number, _ in read_json(folder / "watch.json")]
        self.whole = content(folder / "whole")

    def task(self, name: str, images: pl.DataFrame | None = None, **more) -> dict:
        return building.job(
            CONFIG,
            self.images if images is None else images,
            TEXTS,
            self.backbones,
            self.folder / name,
            encoded=str(self.folder / f"{name}.encoded"),
            **more,
        )

    def encoded(self, name: str) -> Counter[str]:
        """Images that each process has encoded, all starts together."""
        count: Counter[str] = Counter()
        for line in (self.folder / f"{name}.encoded").read_text().splitlines():
            rank, images = line.split()
            count[rank] += int(images)
        return count

    def survive(
        self, points: list[tuple[str, int]], prefix: str, most: int, before: dict[str, bytes] | None = None
    ) -> None:
        """Kill a process at each point and start another: what there is then is the whole store.

        Args:
            most: images that both may encode. before: files of the store that is there already.
        """
        for first in range(0, len(points), 4):
            stops = dict(zip([f"{prefix}{first + i}" for i in range(4)], points[first:]))
            for name in stops:
                for file, data in (before or {}).items():
                    (self.folder / name).mkdir(exist_ok=True)
                    (self.folder / name / file).write_bytes(data)
            killed = self.server.run(
                *[self.task(name, stop={"point": point, "number": number}) for name, (point, number) in stops.items()]
            )
            assert [code for code, _ in killed] == [KILLED] * len(stops), killed
            self.server.finish(*map(self.task, stops))
            for name, point in stops.items():
                assert content(self.folder / name) == self.whole, point
                assert self.encoded(name)["0"] <= most, point
                assert not Path(f"{self.folder / name}.scratch").exists(), point

    def launch(self, *tasks: dict) -> tuple[int, str]:
        jobs = [f"{task['out']}.job.json" for task in tasks]
        for path, task in zip(jobs, tasks):
            write_json(path, task)
        return drive.ended(
            subprocess.Popen(
                [*drive.TWO_PROCESSES, building.__file__, *jobs],
                env=drive.environment(),
                cwd=self.folder,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        )


@pytest.fixture(scope="module")
def setting(backbones: Path, tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("killed")
    with building.Server(folder) as server:
        yield Setting(folder, backbones, server)


def test_killed_anywhere_at_most_one_shard_is_repeated(setting: Setting) -> None:
    """At each batch and at each moment at which a file gets its name or goes, in the first run and in a second."""
    assert ("encode images", 6) in setting.points and ("os.replace out", 0) in setting.points
    setting.survive(setting.points, "killed", IMAGES + SHARD)


def test_killed_again_and_again(setting: Setting) -> None:
    """Each start has three batches and a shard needs two: what a start leaves is one more shard."""
    name, starts = "again", 0
    while setting.server.run(setting.task(name, stop={"point": "encode images", "number": 3}))[0][0] == KILLED:
        starts += 1
    assert starts == 2 and content(setting.folder / name) == setting.whole
    assert setting.encoded(name)["0"] <= IMAGES + starts * SHARD


def test_killed_while_it_repairs(setting: Setting) -> None:
    """What was whole is never encoded again, also where the old store was being replaced."""
    setting.server.finish(setting.task("repaired"))
    shard = shard_of(setting.folder / "repaired", "img4")
    data = shard.read_bytes()
    cut(shard)
    watch = str(setting.folder / "repair.watch")
    setting.server.finish(setting.task("repaired", watch=watch))
    points = [(point, number) for point, number, _ in read_json(watch)]
    assert len([point for point, _ in points if point.startswith("os.unlink")]) > 10
    damaged = setting.whole | {shard.name: data[:-1]}
    setting.survive(points[::2], "repaired", 2 * SHARD, damaged)


@pytest.fixture(scope="module")
def together(setting: Setting) -> tuple[int, str]:
    """Two processes: a store, and then one whose second shard, the second process's, cannot be completed."""
    bad = setting.folder / "bad.png"
    bad.write_bytes(b"")
    images = setting.images.with_columns(
        path=pl.when(pl.col("image_id") == "img4").then(pl.lit(str(bad))).otherwise(pl.col("path"))
    )
    return setting.launch(setting.task("together"), setting.task("refused", images))


def test_two_processes_make_the_store_of_one(setting: Setting, together: tuple[int, str]) -> None:
    assert content(setting.folder / "together") == setting.whole, together[1]
    assert setting.encoded("together") == {"0": 6, "1": 4}


def test_an_unreadable_image_of_one_process_ends_all(setting: Setting, together: tuple[int, str]) -> None:
    code, output = together
    assert code != 0 and not (setting.folder / "refused").exists()
    assert "error: 1 image cannot be read" in output, output
    assert "img4," in (setting.folder / "refused.unreadable.csv").read_text()
    setting.server.finish(setting.task("refused"))
    assert content(setting.folder / "refused") == setting.whole
    assert sum(setting.encoded("refused").values()) <= IMAGES + SHARD


@pytest.mark.parametrize(("rank", "shards"), [(1, 1), (0, 1)])
def test_a_killed_process_leaves_its_shards(setting: Setting, rank: int, shards: int) -> None:
    name = f"lost{rank}"
    code, output = setting.launch(setting.task(name, stop={"point": "encode images", "number": 2, "rank": rank}))
    assert code != 0 and "SIGKILL" in output
    made = list(Path(f"{setting.folder / name}.scratch").rglob("images-*.safetensors"))
    assert len(made) >= shards
    if rank == 1:
        setting.server.finish(setting.task(name))
    else:
        code, output = setting.launch(setting.task(name))
        assert code == 0, output
    assert content(setting.folder / name) == setting.whole
    assert sum(setting.encoded(name).values()) <= IMAGES + 2 * SHARD
