"""The resumable state of a training run: one file, replaced atomically."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from pacer.core.io import atomic_path

STATE = "state.pt"


def save_state(directory: Path, state: dict[str, Any]) -> None:
    """Replace the state in ``directory``."""
    with atomic_path(directory / STATE) as temporary:
        torch.save(state, temporary)


def load_state(directory: Path) -> dict[str, Any] | None:
    """The state that a stopped run left, or None."""
    path = directory / STATE
    return torch.load(path, map_location="cpu", weights_only=True) if path.exists() else None
