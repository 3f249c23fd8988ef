"""A parameter file of an older version, or cut short: the error says where the missing keys are."""

from __future__ import annotations

from pathlib import Path

import pytest

from pacer.config import load_params
from pacer.core.errors import ConfigError


def test_a_missing_key_is_named_with_where_to_find_it(tmp_path: Path) -> None:
    text = Path(__file__, "../../../../params.yaml").resolve().read_text()
    lines = [line for line in text.splitlines() if not line.startswith("  length_penalty:")]
    assert len(lines) == len(text.splitlines()) - 1
    (tmp_path / "params.yaml").write_text("\n".join(lines))
    with pytest.raises(ConfigError, match=r"decode\.length_penalty is missing; compare with configs/phantom.yaml"):
        load_params(tmp_path / "params.yaml")
