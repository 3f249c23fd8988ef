"""Fixtures of all folders here: each is made once a worker."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Read the fixtures, with torch and transformers, but not in the process that only hands tests
    to workers."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses"):
        for name in ("metrics", "models", "serving"):
            config.pluginmanager.import_plugin(f"tests.support.{name}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the pipeline, so that no worker is left with it alone (workers take files in this
    order)."""
    items.sort(key=lambda item: item.path.parent.name != "pipeline")
