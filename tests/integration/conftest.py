"""Fixtures of all folders here: each is made once a worker."""

import pytest

from tests.support.metrics import *
from tests.support.models import *
from tests.support.serving import *


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the pipeline, so that no worker is left with it alone (workers take files in this order)."""
    items.sort(key=lambda item: item.path.parent.name != "pipeline")
