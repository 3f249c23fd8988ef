"""Stage `llm_rg4` of the baselines: LLM-RG4's released weights as a checkpoint."""

from pathlib import Path

from pacer.config import load_params
from pacer.config.baselines import load_baseline_params
from pacer.core.errors import ConfigError
from pacer.extras.llm_rg4.weights import adopt_llm_rg4


def main() -> None:
    weights = load_baseline_params().llm_rg4.weights
    if weights is None:
        raise ConfigError(
            "llm_rg4.weights in baselines/params.yaml is null; set it to LLM-RG4's second-stage "
            "weights (.pth or .ckpt)"
        )
    adopt_llm_rg4(
        Path(weights).expanduser(),
        load_params(),
        Path("models/backbones"),
        Path("baselines/models/llm_rg4"),
    )
