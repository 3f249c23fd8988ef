"""The stand-ins of language, CheXbert and vision: what their training changes, and what it
leaves."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer, BertModel, Dinov2Model

from pacer.backbones.chexbert import CheXbert
from pacer.backbones.pointers import provenance
from pacer.config import Backbone
from pacer.config.backbones import ROLES
from pacer.core.anchor import Anchor
from pacer.core.findings import FINDINGS
from pacer.phantom.render import TrainingImages, training_images
from pacer.standins import vision
from pacer.standins.bert import (
    HEADS,
    head_targets,
    make_chexbert_standin,
    make_text_standin,
)
from pacer.standins.data import LabelledText
from pacer.standins.recipes import Recipe
from pacer.standins.training import ReportTask, peak_schedule
from pacer.standins.vision import MEAN, STD, ResidualNetwork, make_vision_standin
from pacer.text.cleaning.cleaners import clean_report
from tests.integration.standins.test_make import make
from tests.support.cases import listed_cases

FRAMES = {1: "There is {}.", 2: "No {}.", 3: "Possible {}."}
SMALL = Recipe(
    width=32,
    layers=2,
    heads=2,
    vocabulary=300,
    examples=300,
    batch_size=8,
    steps=2500,
    learning_rate=2e-3,
)


def labelled(report: str, statuses: dict[int, int]) -> LabelledText:
    """A text and what it says: a finding's number, and its status 1 positive, 2 negative or 3
    uncertain."""
    lists = (
        [FINDINGS[f] for f, given in statuses.items() if given == status] for status in (1, 2, 3)
    )
    return LabelledText(
        report, clean_report(report), Anchor.of(*lists), (), "PA", "findings", None, None
    )


@pytest.fixture(scope="module")
def world() -> list[LabelledText]:
    """Reports of two sentences from three findings, with the status that each states."""
    draw = np.random.default_rng(0)
    texts = []
    for _ in range(300):
        statuses = {
            int(f): int(draw.integers(1, 4)) for f in draw.choice([1, 3, 8], size=2, replace=False)
        }
        texts.append(
            labelled(" ".join(FRAMES[s].format(FINDINGS[f]) for f, s in statuses.items()), statuses)
        )
    return texts


@pytest.fixture(scope="module")
def labeller(world, tmp_path_factory):
    directory = tmp_path_factory.mktemp("chexbert")
    return directory, make_chexbert_standin(SMALL, world, 5, directory)


def test_the_labeller_labels(labeller, world):
    wanted = head_targets(np.array([text.statuses for text in world]))
    directory, facts = labeller
    for texts in ([text.raw for text in world], [text.cleaned for text in world]):
        found = CheXbert(directory)(texts).numpy()
        assert (found == wanted).mean() > 0.95
    assert set(facts["held_out_accuracy"]) == {"raw", "cleaned"}
    assert set(facts["held_out_accuracy"]["raw"]) == {*FINDINGS, "no finding"}


@pytest.mark.parametrize(
    "stated, no_finding", listed_cases(__file__, "no_finding_follows_the_convention")
)
def test_no_finding_follows_the_convention(stated, no_finding):
    statuses = np.array([[stated.get(finding, 0) for finding in FINDINGS]])
    classes = head_targets(statuses)
    assert classes.shape == (1, 14) and classes[0, 13] == no_finding
    assert {HEADS[i]: int(c) for i, c in enumerate(classes[0, :13]) if c} == stated


def test_the_text_model_is_a_plain_bert(world, tmp_path):
    facts = make_text_standin(SMALL, world, 5, tmp_path)
    model = AutoModel.from_pretrained(tmp_path, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert isinstance(model, BertModel) and model.config.hidden_size == 32
    batch = tokenizer(
        ["No Edema.", "no edema ."], padding="max_length", max_length=100, return_tensors="pt"
    )
    assert batch["input_ids"][0].tolist() == batch["input_ids"][1].tolist()
    with torch.inference_mode():
        assert model(**batch).last_hidden_state.shape == (2, 100, 32)
    assert facts["held_out_f1"] > 0.9


def test_the_schedule_rises_and_falls():
    factors = [peak_schedule(step, 100) for step in range(100)]
    assert (
        factors[9] == 1.0
        and factors[:10] == sorted(factors[:10])
        and factors[10:] == sorted(factors[10:])[::-1]
    )
    assert 0 < factors[0] <= 0.1 and 0 <= factors[-1] < 0.01
    assert peak_schedule(0, 1) == 1.0


def test_batches_cover_the_rows_pass_by_pass():
    task = ReportTask(
        [[f"{'edema ' * number}." for number in range(50)]], 300, np.random.default_rng(0)
    )
    assert sorted([*task.rows, *task.held_out]) == list(range(50)) and len(task.held_out) == 5
    batches = list(islice(task.batches(4), 24))
    assert max(map(len, batches)) == 4
    assert sorted(np.concatenate(batches[:12]).tolist()) == sorted(task.rows.tolist())


SIZE = 56
ENCODER = Recipe(
    width=16,
    layers=12,
    heads=2,
    vocabulary=0,
    examples=24,
    batch_size=8,
    steps=24,
    learning_rate=3e-3,
)


@pytest.fixture(scope="module")
def images() -> TrainingImages:
    return training_images(3, ENCODER.examples, SIZE, 4)


def states(folder: Path, images: TrainingImages) -> tuple[torch.Tensor, ...]:
    """Patch states after every block, then the endpoint, [n, N, width]."""
    grey = (
        ((torch.from_numpy(images.images).float() / 255 - MEAN) / STD)
        .unsqueeze(1)
        .expand(-1, 3, -1, -1)
    )
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
        provenance = make_vision_standin(ENCODER, images, 5, tmp_path / str(share), SIZE)
        assert provenance["steps"] == [24, max(1, 24 * share)]
        made[share] = states(tmp_path / str(share), images)
    for once, twice in zip(made[0.0][:9], made[1.0][:9], strict=True):
        assert torch.equal(once, twice)
    assert not torch.equal(made[0.0][12], made[1.0][12])
    assert unlike(made[1.0][-1]) < 0.5 * unlike(made[0.0][-1])


def test_the_endpoint_is_standardised(images: TrainingImages, tmp_path: Path) -> None:
    make_vision_standin(ENCODER, images._replace(masks=None), 5, tmp_path, SIZE)
    endpoint = states(tmp_path, images)[-1][2:].flatten(0, 1)  # without the held-out tenth
    np.testing.assert_allclose(endpoint.mean(0), 0, atol=1e-3)
    np.testing.assert_allclose(endpoint.std(0), 1, atol=1e-3)


def test_a_corpus_whose_places_are_not_known_is_learnt_from_a_residual_network(
    images: TrainingImages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network learns findings first, most of its steps at half the size; the encoder then
    learns what it says."""
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
    provenance = make_vision_standin(ENCODER, images._replace(masks=None), 5, tmp_path, SIZE)
    assert provenance["steps"] == [120, 24] and "residual" in provenance["objective"]
    assert sizes == [28] * 102 + [56] * (18 + 24)
    assert np.mean([loss.item() for loss in taught[-6:]]) < 0.9 * np.mean(
        [loss.item() for loss in taught[:6]]
    )


def test_varied_radiographs_are_those_that_they_were() -> None:
    """Another cut and exposure each time, no mirror: what is bright on the left stays on the
    left."""
    torch.manual_seed(0)
    pixels = torch.zeros(64, 1, 56, 56)
    pixels[..., 10:46, 8:24] = 1.0
    varied = vision._varied(pixels.expand(-1, 3, -1, -1))
    assert varied.shape == (64, 3, 56, 56) and torch.equal(varied[:, 0], varied[:, 2])
    left, right = varied[..., :28].mean((1, 2, 3)), varied[..., 28:].mean((1, 2, 3))
    assert (left > right).all() and len(set(left.tolist())) == 64
    spread = varied.amax((1, 2, 3)) - varied.amin((1, 2, 3))
    assert 0.7 < spread.min() < 0.9 and 1.1 < spread.max() < 1.3  # contrast by a fifth


def test_each_is_described(tmp_path: Path) -> None:
    vision = {"vision": Backbone(provider="local", path=".")}  # no stand-in
    assert {file.split("/")[0] for file in make(tmp_path, **vision)} == {*ROLES} - {"vision"}
    for name in ROLES[1:]:
        described = provenance(tmp_path / name)
        assert described["data"] == "phantom world 1000014"
        assert described["provider"] == "standin"
