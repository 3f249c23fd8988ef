"""The baselines' parameter files."""

from __future__ import annotations

from pathlib import Path

from ruamel.yaml import YAML

from pacer.config.baselines import load_baseline_params

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
