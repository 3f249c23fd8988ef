"""The labeller with random weights, and reports in its words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pacer.metrics.chexbert.labeller import CheXbert


@pytest.fixture
def labeller(chexbert_directory: Callable[..., Path]) -> CheXbert:
    return CheXbert(chexbert_directory())
