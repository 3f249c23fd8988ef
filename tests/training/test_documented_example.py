"""The worked example of docs/method.md: ids, spans and weights are those of the code, sums those of the losses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from pacer.anchors.anchor import Anchor
from pacer.anchors.render import render_anchor
from pacer.phantom.tokenizer import phantom_tokenizer
from pacer.training.losses import emphasis_loss, trajectory_loss
from pacer.training.trajectory import Span, Trajectory, TrajectoryBuilder

DOCUMENT = (Path(__file__).parents[2] / "docs" / "method.md").read_text(encoding="utf-8")
REPORT = "mild edema . no pneumothorax ."
SCORES = [0.0, 1, 1, 1, 0, 0, 0, 1]


@pytest.fixture(scope="module")
def builder() -> TrajectoryBuilder:
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=phantom_tokenizer(900), bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    return TrajectoryBuilder(tokenizer, 100)


def committed(builder: TrajectoryBuilder) -> Trajectory:
    return builder.build(REPORT, render_anchor(Anchor(("edema",), ("pneumothorax",), ())), SCORES)


def test_the_table_is_what_the_code_builds(builder: TrajectoryBuilder) -> None:
    found = re.search(r"<!-- trajectory-example -->\n(.*?)<!-- /trajectory-example -->", DOCUMENT, re.DOTALL)
    assert found is not None
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in found[1].splitlines()[2:]]
    trajectory = committed(builder)
    built = zip(
        trajectory.ids,
        trajectory.spans,
        trajectory.weights(0.35),
        trajectory.emphasis,
        trajectory.consistency(),
        strict=True,
    )
    tokens = builder.tokenizer.convert_ids_to_tokens(trajectory.ids.tolist())
    assert rows == [
        [str(t), f"`{token}`", str(number), Span(span).name, f"{weight:.2f}", f"{int(s)}", "yes" if inside else "no"]
        for t, (token, (number, span, weight, s, inside)) in enumerate(zip(tokens, built, strict=True))
    ]


def test_the_sums_are_those_of_the_losses(builder: TrajectoryBuilder) -> None:
    commit, direct = committed(builder), builder.build(REPORT, None, SCORES)

    def trajectory_term(*targets: Trajectory) -> float:
        length = max(len(target.ids) for target in targets)
        weight = torch.zeros(len(targets), length)
        for row, target in enumerate(targets):
            weight[row, : len(target.ids)] = torch.from_numpy(target.weights(0.35))
        kappa = torch.tensor([target.kappa(0.35) for target in targets])
        return trajectory_loss(torch.ones_like(weight), weight, kappa).item()

    emphasis = emphasis_loss(torch.ones(1, len(commit.ids)), torch.from_numpy(commit.emphasis)[None]).item()
    for value, said in (
        (trajectory_term(commit), "0.97743"),
        (emphasis, "0.99975"),
        (trajectory_term(direct), "0.87489"),
        (trajectory_term(commit, direct), "0.94264"),
        (trajectory_term(commit) + 0.75 * emphasis, "1.72724"),
    ):
        assert f"{value:.5f}" == said
        assert said in DOCUMENT
    assert commit.weights(0.35).sum() == pytest.approx(15.2)
    assert commit.consistency().sum() == 15
