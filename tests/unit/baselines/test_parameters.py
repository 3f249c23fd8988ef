"""The baselines' parameter files."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pacer.config.baselines import load_baseline_params
from pacer.core.errors import ConfigError

ROOT = Path(__file__).parents[3]


def keys(values: dict, prefix: str = "") -> list[str]:
    found = []
    for name, value in values.items():
        found += [f"{prefix}{name}", *(keys(value, f"{prefix}{name}.") if isinstance(value, dict) else [])]
    return found


def test_the_budget_is_the_published_one() -> None:
    params = load_baseline_params(ROOT / "baselines" / "params.yaml")
    for own in (params.simmlm, params.ragpt):
        assert (own.updates, own.seed, own.batch_size * own.accumulation) == (20_000, 42, 32)


def test_all_files_have_the_same_keys() -> None:
    files = [ROOT / "baselines" / name for name in ("params.yaml", "phantom.yaml", "micro.yaml")]
    first, *others = (keys(YAML(typ="safe").load(path.read_text())) for path in files)
    assert all(other == first for other in others)
    assert all(load_baseline_params(path) for path in files)


def test_a_key_that_is_missing_or_unknown_is_named(tmp_path: Path) -> None:
    text = (ROOT / "baselines" / "params.yaml").read_text()
    assert text.count("  alpha: 0.1 ") == 1
    (tmp_path / "params.yaml").write_text(text.replace("  alpha: 0.1", "  banana: 1"))
    with pytest.raises(ConfigError) as error:
        load_baseline_params(tmp_path / "params.yaml")
    assert "simmlm.alpha is missing" in str(error.value) and "unknown key simmlm.banana" in str(error.value)
