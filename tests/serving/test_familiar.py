"""The note that an image is unlike those of training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import safetensors.torch
import torch
from PIL import Image
from torch import Tensor

from pacer.core.errors import CheckpointError
from pacer.features.store import FeatureStore
from pacer.serving.case import Case
from pacer.serving.export import export_model
from pacer.serving.familiar import read_likeness, write_likeness
from pacer.serving.package import MANIFEST, write_manifest
from pacer.serving.reporter import Reporter
from tests.serving.world import World

DEPTHS, PATCHES, WIDTH = 2, 5, 4


class Drawn:
    """States whose means have a known distribution: correlated, of unequal scale."""

    factor = torch.tensor([[3.0, 0, 0, 0], [2.9, 0.1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0.01]])

    def depth_states(self, image_ids: Sequence[str]) -> Tensor:
        rows = []
        for name in image_ids:
            generator = torch.Generator().manual_seed(int(name[1:]))
            means = torch.randn(DEPTHS, WIDTH, generator=generator) @ self.factor.T + 5
            patches = torch.randn(DEPTHS, PATCHES, WIDTH, generator=generator)
            rows.append(means.unsqueeze(1) + patches - patches.mean(1, keepdim=True))
        return torch.stack(rows)

    def prior_states(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        raise AssertionError("no text is asked for")


def records(train: int, val: int, laterals: int) -> pl.DataFrame:
    frontal = [f"f{number}" for number in range(train + val)]
    lateral = [f"l{9000 + number}" if number < laterals else None for number in range(train + val)]
    split = ["train"] * train + ["val"] * val
    return pl.DataFrame(
        {"split": split, "frontal": frontal, "lateral": lateral}, schema_overrides={"lateral": pl.String}
    )


def test_the_distance_is_that_of_the_distribution(tmp_path: Path) -> None:
    write_likeness(Drawn(), records(800, 100, 0), tmp_path / "a.safetensors")
    found = read_likeness(tmp_path / "a.safetensors", DEPTHS, WIDTH)
    assert set(found) == {"frontal"}
    likeness, own = found["frontal"], Drawn().depth_states([f"f{number}" for number in range(2000, 2400)])
    covariance = Drawn.factor @ Drawn.factor.T
    exact = torch.linalg.inv(covariance + torch.diag(0.01 * covariance.diagonal()))
    off = own.mean(2) - 5
    expected = torch.einsum("bki,ij,bkj->b", off, exact, off).div(DEPTHS * WIDTH).sqrt()
    assert torch.allclose(likeness.distances(own.mean(2)), expected, rtol=0.15)
    assert sum(likeness.has(states) for states in own) >= 399
    # along the correlation three deviations are near; across it a tenth of one is far
    along, across = torch.tensor([6.0, 5.8, 0, 0]), torch.tensor([1.5, -1.5, 0, 0])
    assert likeness.has(own[0] - own[0].mean(1, keepdim=True) + 5 + along)
    assert not likeness.has(own[0] - own[0].mean(1, keepdim=True) + 5 + 2 * across)


def test_views_with_few_images_say_nothing(tmp_path: Path) -> None:
    write_likeness(Drawn(), records(19, 30, 0), tmp_path / "few.safetensors")
    assert (
        not (tmp_path / "few.safetensors").exists() and read_likeness(tmp_path / "few.safetensors", DEPTHS, WIDTH) == {}
    )
    write_likeness(Drawn(), records(30, 30, 60), tmp_path / "both.safetensors")
    assert set(read_likeness(tmp_path / "both.safetensors", DEPTHS, WIDTH)) == {"frontal", "lateral"}


@pytest.mark.parametrize(
    "change",
    [
        {"frontal.precision": None},
        {"frontal.mean": torch.zeros(1, 3)},
        {"frontal.limit": torch.ones(1)},
        {"frontal.limit": torch.tensor(float("nan"))},
        {"frontal.mean": torch.zeros(2, 3, dtype=torch.float16)},
        {"back.limit": torch.ones(())},
    ],
)
def test_a_file_that_is_not_of_this_encoder_is_refused(tmp_path: Path, change: dict) -> None:
    whole = {"mean": torch.zeros(2, 3), "precision": torch.zeros(2, 3, 3), "limit": torch.ones(())}
    tensors = {f"frontal.{name}": tensor for name, tensor in whole.items()}
    file = tmp_path / "a.safetensors"
    safetensors.torch.save_file(tensors, file)
    assert set(read_likeness(file, 2, 3)) == {"frontal"}
    changed = {name: tensor for name, tensor in (tensors | change).items() if tensor is not None}
    safetensors.torch.save_file(changed, file)
    with pytest.raises(CheckpointError, match="does not belong to 2 depths of width 3; export the model again"):
        read_likeness(file, 2, 3)


def test_the_note_stands_beside_the_report(world: World, tmp_path: Path) -> None:
    """A model that knows one frontal and one lateral image, and no other."""
    export_model(tmp_path / "model", world.decode, **world.inputs)
    (tmp_path / "model" / MANIFEST).unlink()
    row = world.records().filter(split="test", context="mw").row(0, named=True)
    store, known = FeatureStore(world.root / "features"), {}
    for view in ("frontal", "lateral"):
        mean = store[row[view]].float().mean(1)
        precision = torch.eye(mean.shape[1]).repeat(len(mean), 1, 1)
        known |= {f"{view}.mean": mean, f"{view}.precision": precision, f"{view}.limit": torch.tensor(1e-3)}
    safetensors.torch.save_file(known, tmp_path / "model" / "familiar.safetensors")
    write_manifest(tmp_path / "model", {})
    reporter = Reporter.from_pretrained(tmp_path / "model", device="cpu")
    case = world.case(row["record_id"])
    assert not [note for note in reporter(case.frontal, case.lateral).notes if "unlike" in note]
    gradient = Image.fromarray(np.tile(np.linspace(0, 255, 64, dtype=np.uint8), (64, 1)))
    unlike = [note.split()[1] for note in reporter(gradient, case.lateral).notes if "unlike" in note]
    assert unlike == ["frontal"]
    both = reporter.in_all_contexts(Case(case.frontal, gradient))
    told = {context: [note for note in result.notes if "unlike" in note] for context, result in both.items()}
    assert told["sn"] == [] and [note.split()[1] for note in told["mn"]] == ["lateral"]
