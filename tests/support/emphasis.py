"""The labeller with random weights, and reports in its words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pacer.metrics.chexbert.labeller import CheXbert
from tests.support.metrics import chexbert_directory, one_thread, words

__all__ = ["chexbert_directory", "one_thread", "words"]


@pytest.fixture
def labeller(chexbert_directory: Callable[..., Path]) -> CheXbert:
    return CheXbert(chexbert_directory())
