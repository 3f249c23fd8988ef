"""The assembled model: equivalences that must hold exactly or nearly so."""

from pathlib import Path

import pytest
import torch
from peft.tuners.lora import LoraLayer

from pacer.core.errors import ConfigError
from pacer.model.assemble import build_model
from tests.support.models import specification

ROWS = [0, 9, 18, 27]  # one of each context


def test_an_image_enters_as_the_normalised_state_of_the_last_depth(examples, backbones) -> None:
    """The encoder's own endpoint: a router that was not trained adds nothing to it."""
    built, batch = build_model(backbones, specification()), examples.batch(ROWS, [True] * 4, 0.35)
    with torch.no_grad():
        refined, _ = built.refine(batch.frontal)
        assert torch.equal(refined, built.endpoint_norm(batch.frontal[:, -1]))


def test_lora_is_merged_into_half_precision_with_one_rounding(backbones: Path) -> None:
    built = build_model(backbones, specification(), torch.bfloat16)
    layers = [module for module in built.language.modules() if isinstance(module, LoraLayer)]
    expected = []
    for layer in layers:
        torch.nn.init.normal_(layer.lora_B["default"].weight, std=0.02)
        sums = layer.get_base_layer().weight.float() + layer.get_delta_weight("default")
        expected.append(sums.to(torch.bfloat16))
    built.merge_lora()
    assert layers and all(
        torch.equal(layer.get_base_layer().weight, known) for layer, known in zip(layers, expected, strict=True)
    )


def test_heads_that_do_not_divide_the_width_are_refused(backbones: Path) -> None:
    with pytest.raises(ConfigError, match=r"interface.num_heads \(3\) must divide the width of the vision encoder"):
        build_model(backbones, specification(interface={"num_heads": 3}))
