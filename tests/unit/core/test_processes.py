"""What an accelerate configuration may not ask for."""

from __future__ import annotations

import pytest

from pacer.core.errors import ConfigError
from pacer.core.processes import open_accelerator, process_state


@pytest.mark.parametrize("start", [process_state, lambda: open_accelerator("no")])
@pytest.mark.parametrize(
    ("variable", "value", "named"),
    [
        ("ACCELERATE_USE_FSDP", "true", "FSDP"),
        ("ACCELERATE_USE_DEEPSPEED", "true", "DEEPSPEED"),
        ("ACCELERATE_MIXED_PRECISION", "fp16", "mixed_precision fp16"),
    ],
)
def test_what_would_split_or_round_the_model_is_refused(
    start, variable: str, value: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=f"asks for {named}; the frozen language model is not split"):
        start()


def test_the_launchers_own_values_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in {"ACCELERATE_MIXED_PRECISION": "no", "ACCELERATE_USE_FSDP": "false"}.items():
        monkeypatch.setenv(variable, value)
    assert open_accelerator("no").num_processes == 1
