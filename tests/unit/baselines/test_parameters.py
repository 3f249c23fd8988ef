"""The baselines' parameter files."""

from pathlib import Path

import pytest

from pacer.config.baselines import load_baseline_params

FOLDER = Path(__file__).parents[3] / "baselines"


def test_the_budget_is_the_published_one() -> None:
    params = load_baseline_params(FOLDER / "params.yaml")
    for settings in (params.simmlm, params.ragpt):
        assert (settings.updates, settings.seed, settings.batch_size * settings.accumulation) == (20_000, 42, 32)


@pytest.mark.parametrize("name", ["phantom", "micro"])
def test_the_other_files_have_every_key(name: str) -> None:
    load_baseline_params(FOLDER / f"{name}.yaml")
