"""The committed profiles, each read once a process."""

from functools import cache
from pathlib import Path

from pacer.config import Params
from pacer.config.params import load_profile, profile_text

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


@cache
def profile(name: str) -> Params:
    """``configs/NAME.yaml``; `model_dump` gives every caller values of its own."""
    return load_profile(CONFIGS / f"{name}.yaml")


@cache
def yaml_of(name: str) -> str:
    """The whole parameter file of ``configs/NAME.yaml``."""
    return profile_text(CONFIGS / f"{name}.yaml")
