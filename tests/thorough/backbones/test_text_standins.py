from itertools import islice

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer, BertModel

from pacer.backbones.standins.chexbert import HEADS, head_targets, make_chexbert_standin
from pacer.backbones.standins.data import LabelledText
from pacer.backbones.standins.text import make_text_standin
from pacer.backbones.standins.training import ReportTask, peak_schedule
from pacer.commitments.anchor import Anchor
from pacer.config.backbones import TextStandin
from pacer.core.io import hash_file
from pacer.data.cleaning import clean_report
from pacer.data.findings import FINDINGS
from pacer.metrics.chexbert.labeller import CheXbert

FRAMES = {1: "There is {}.", 2: "No {}.", 3: "Possible {}."}
SMALL = TextStandin(
    width=32, layers=2, heads=2, vocabulary=300, texts=300, steps=2500, batch_size=8, learning_rate=2e-3
)


def labelled(report: str, statuses: dict[int, int]) -> LabelledText:
    """A text and what it says: a finding's number, and its status 1 positive, 2 negative or 3 uncertain."""
    lists = ([FINDINGS[f] for f, given in statuses.items() if given == status] for status in (1, 2, 3))
    return LabelledText(report, clean_report(report), Anchor.of(*lists), (), "PA", "findings", None, None)


@pytest.fixture(scope="module")
def world() -> list[LabelledText]:
    """Reports of two sentences from three findings, with the status that each states."""
    draw = np.random.default_rng(0)
    texts = []
    for _ in range(300):
        statuses = {int(f): int(draw.integers(1, 4)) for f in draw.choice([1, 3, 8], size=2, replace=False)}
        texts.append(labelled(" ".join(FRAMES[s].format(FINDINGS[f]) for f, s in statuses.items()), statuses))
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
    "stated, no_finding",
    [
        ({}, 1),
        ({"support devices": 1}, 1),
        ({"edema": 2}, 1),
        ({"edema": 1}, 0),
        ({"edema": 3, "support devices": 1}, 0),
    ],
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
    batch = tokenizer(["No Edema.", "no edema ."], padding="max_length", max_length=100, return_tensors="pt")
    assert batch["input_ids"][0].tolist() == batch["input_ids"][1].tolist()
    with torch.inference_mode():
        assert model(**batch).last_hidden_state.shape == (2, 100, 32)
    assert facts["held_out_f1"] > 0.9


def test_the_seed_decides_everything(world, tmp_path):
    short = SMALL.model_copy(update={"steps": 4})
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        torch.rand(3)
        make_chexbert_standin(short, world, seed, tmp_path / name)
        make_text_standin(short, world, seed, tmp_path / name / "text")
    for file in ("chexbert.pth", "tokenizer.json", "text/model.safetensors"):
        hashes = [hash_file(tmp_path / name / file) for name in "abc"]
        assert hashes[0] == hashes[1]
        assert file == "tokenizer.json" or hashes[0] != hashes[2]


def test_the_schedule_rises_and_falls():
    factors = [peak_schedule(step, 100) for step in range(100)]
    assert factors[9] == 1.0 and factors[:10] == sorted(factors[:10]) and factors[10:] == sorted(factors[10:])[::-1]
    assert 0 < factors[0] <= 0.1 and 0 <= factors[-1] < 0.01
    assert peak_schedule(0, 1) == 1.0


def test_batches_cover_the_rows_pass_by_pass():
    task = ReportTask([[f"{'edema ' * number}." for number in range(50)]], 300, np.random.default_rng(0))
    assert sorted([*task.rows, *task.held_out]) == list(range(50)) and len(task.held_out) == 5
    batches = list(islice(task.batches(4), 24))
    assert max(map(len, batches)) == 4
    assert sorted(np.concatenate(batches[:12]).tolist()) == sorted(task.rows.tolist())
