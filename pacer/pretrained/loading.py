"""Loading the weights of a frozen model: whole or not at all, and without a word where they are whole."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pacer.core.errors import BackboneError

#: What transformers' report of a loading says of weights that matter; others are of parts that are not used here.
_MATTERS = ("MISSING", "MISMATCH", "CONVERSION")


def load_frozen(kind: Any, directory: str | Path, **options: Any) -> Any:
    """``kind.from_pretrained(directory, **options)`` of a transformers class.

    Raises:
        BackboneError: a weight is missing, in whose place transformers would draw random numbers.
    """
    with _quietly():
        model, info = kind.from_pretrained(directory, output_loading_info=True, **options)
    if missing := sorted(info["missing_keys"]):
        raise BackboneError(
            f"{directory} lacks {len(missing)} of the weights of a {type(model).__name__}, such as {missing[0]}; "
            "fetch its files again"
        )
    return model


@contextmanager
def _quietly() -> Generator[None]:
    """No progress bar, and no report of weights that are left over alone."""
    from transformers.utils.logging import disable_progress_bar, enable_progress_bar, is_progress_bar_enabled

    def matters(record: logging.LogRecord) -> bool:
        message = record.getMessage()
        return "LOAD REPORT" not in message or any(word in message for word in _MATTERS)

    shown, logger = is_progress_bar_enabled(), logging.getLogger("transformers.modeling_utils")
    disable_progress_bar()
    logger.addFilter(matters)
    try:
        yield
    finally:
        logger.removeFilter(matters)
        if shown:
            enable_progress_bar()
