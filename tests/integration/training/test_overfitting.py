"""Each phase learns one batch by heart: its parameters, losses and optimiser work together."""

import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from tests.support.models import FROZEN
from tests.support.training import record_table

UPDATES = 60
#: The share of the batch's first loss that may remain, at the worst of the last four updates.
BAR = 0.25
#: A frozen language model without training cannot be made to say anything, unless it is wide, and
#: the trained parts are large.
LANGUAGE = {"hidden_size": 96, "intermediate_size": 192, "num_hidden_layers": 1}
PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


@pytest.fixture
def backbones(backbones: Path, tmp_path: Path) -> Path:
    """The tiny models, but with a wider language model of one block."""
    copy = Path(shutil.copytree(backbones, tmp_path / "wide"))
    torch.manual_seed(0)
    config = AutoConfig.for_model(**FROZEN["language"] | LANGUAGE)
    AutoModelForCausalLM.from_config(config).save_pretrained(copy / "language")
    return copy


@pytest.mark.parametrize("phase", ["warmup", "parent", "calibrate"])
def test_one_batch_is_learnt_by_heart(
    phase: str, setting: Callable, run: Callable, records: pl.DataFrame, anchors: pl.DataFrame
) -> None:
    """All losses of the phase, on a record that has all sources which the phase reads."""
    sizes: dict[str, dict] = {"interface": {"num_queries": 8}}
    if phase != "warmup":
        sizes["lora"] = {"rank": 16, "alpha": 32, "targets": PROJECTIONS}
        sizes["calibrate"] = {"rank": 16}
    model, examples = setting(phase, dropout=0.0, **sizes)
    chosen = pl.col("record_id") == ("sn-2" if phase == "warmup" else "mw-2")
    examples.table = record_table(records.filter(chosen), anchors.filter(chosen))
    schedule = {
        "updates": UPDATES,
        "warmup_updates": 0,
        "accumulation": 1,
        "batch_size": 1,
        "learning_rate": 0.02,
    }
    _, logged = run(
        phase,
        (model, examples),
        train={"validation_interval": 2 * UPDATES},
        **{phase: schedule},
    )
    losses = [values["loss"] for _, values in logged]
    assert len(losses) == UPDATES
    assert max(losses[-4:]) < BAR * losses[0]
