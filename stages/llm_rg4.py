"""Stage `llm_rg4` of the baselines: LLM-RG4's released weights as a checkpoint."""

from pathlib import Path

from pacer.config import load_params
from pacer.config.baselines import load_baseline_params
from pacer.core.errors import CheckpointError, ConfigError
from pacer.model.llm_rg4 import adopt_llm_rg4, import_llm_rg4


def main() -> None:
    weights = load_baseline_params().llm_rg4.weights
    if weights is None:
        raise ConfigError(
            "llm_rg4.weights in baselines/params.yaml is null; name LLM-RG4's second-stage weights (.pth or .ckpt)"
        )
    file = Path(weights).expanduser()
    if import_llm_rg4(file).first_stage:
        raise CheckpointError(f"{file} is of LLM-RG4's first stage, which writes no reports; name second-stage weights")
    adopt_llm_rg4(file, load_params(), Path("models/backbones"), Path("baselines/models/llm_rg4"))
