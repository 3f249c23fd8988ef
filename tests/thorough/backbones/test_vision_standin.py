"""The vision stand-in: what its second training changes, and what it leaves."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import Dinov2Model

from pacer.backbones.standins import vision
from pacer.backbones.standins.vision import MEAN, STD, ResidualNetwork, make_vision_standin
from pacer.config.backbones import VisionStandin
from pacer.phantom.training import TrainingImages, training_images

CONFIG = VisionStandin(
    width=16, image_size=56, patch_size=14, heads=2, images=24, steps=24, batch_size=8, learning_rate=3e-3
)


@pytest.fixture(scope="module")
def images() -> TrainingImages:
    return training_images(3, CONFIG.images, CONFIG.image_size, 4)


def states(folder: Path, images: TrainingImages) -> tuple[torch.Tensor, ...]:
    """Patch states after every block, then the endpoint, [n, N, width]."""
    grey = ((torch.from_numpy(images.images).float() / 255 - MEAN) / STD).unsqueeze(1).expand(-1, 3, -1, -1)
    with torch.no_grad():
        outputs = Dinov2Model.from_pretrained(folder)(pixel_values=grey, output_hidden_states=True)
    return tuple(state[:, 1:] for state in (*outputs.hidden_states, outputs.last_hidden_state))


def unlike(patches: torch.Tensor) -> float:
    """How much the patches of an image differ, relative to how much images do."""
    mean = patches.mean(1, keepdim=True)
    return float((patches - mean).square().mean() / (mean - mean.mean(0)).square().mean())


def test_the_second_training_evens_out_the_endpoint_and_leaves_the_earlier_depths(
    images: TrainingImages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {}
    for share in (0.0, 1.0):
        monkeypatch.setattr(vision, "SECOND", share)
        provenance = make_vision_standin(CONFIG, images, 5, tmp_path / str(share))
        assert provenance["steps"] == [24, max(1, 24 * share)]
        made[share] = states(tmp_path / str(share), images)
    for once, twice in zip(made[0.0][:9], made[1.0][:9], strict=True):
        assert torch.equal(once, twice)
    assert not torch.equal(made[0.0][12], made[1.0][12])
    assert unlike(made[1.0][-1]) < 0.5 * unlike(made[0.0][-1])


def test_the_endpoint_is_standardised(images: TrainingImages, tmp_path: Path) -> None:
    make_vision_standin(CONFIG, images._replace(masks=None), 5, tmp_path)
    endpoint = states(tmp_path, images)[-1][2:].flatten(0, 1)  # without the held-out tenth
    np.testing.assert_allclose(endpoint.mean(0), 0, atol=1e-3)
    np.testing.assert_allclose(endpoint.std(0), 1, atol=1e-3)


def test_a_corpus_whose_places_are_not_known_is_learnt_from_a_residual_network(
    images: TrainingImages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network learns findings first, most of its steps at half the size; the encoder then learns what it says."""
    sizes, taught = [], []
    forward, taught_loss = ResidualNetwork.forward, vision._taught_loss

    def watched(self: ResidualNetwork, grey: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        sizes.append(grey.shape[-1])
        return forward(self, grey)

    def kept(*inputs: object) -> torch.Tensor:
        taught.append(taught_loss(*inputs))  # type: ignore[arg-type]
        return taught[-1]

    monkeypatch.setattr(ResidualNetwork, "forward", watched)
    monkeypatch.setattr(vision, "_taught_loss", kept)
    provenance = make_vision_standin(CONFIG, images._replace(masks=None), 5, tmp_path)
    assert provenance["steps"] == [120, 24] and "residual" in provenance["objective"]
    assert sizes == [28] * 102 + [56] * (18 + 24)
    assert np.mean([loss.item() for loss in taught[-6:]]) < 0.9 * np.mean([loss.item() for loss in taught[:6]])


def test_varied_radiographs_are_those_that_they_were() -> None:
    """Another cut and exposure each time, no mirror: what is bright on the left stays on the left."""
    torch.manual_seed(0)
    pixels = torch.zeros(64, 1, 56, 56)
    pixels[..., 10:46, 8:24] = 1.0
    varied = vision._varied(pixels.expand(-1, 3, -1, -1))
    assert varied.shape == (64, 3, 56, 56) and torch.equal(varied[:, 0], varied[:, 2])
    left, right = varied[..., :28].mean((1, 2, 3)), varied[..., 28:].mean((1, 2, 3))
    assert (left > right).all() and len(set(left.tolist())) == 64
    spread = varied.amax((1, 2, 3)) - varied.amin((1, 2, 3))
    assert 0.7 < spread.min() < 0.9 and 1.1 < spread.max() < 1.3  # contrast by a fifth
