"""What holds for every test: how many examples a property gets, and how many threads a process."""

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from pacer.core.machine import prepare_environment
from pacer.core.messages import printed_messages

prepare_environment()  # before torch is imported

for name, examples in {"quick": 10, "default": 25, "thorough": 300}.items():
    # A busy machine is no reason to fail. Only `make thorough` draws anew: CI judges each change by
    # the same examples.
    settings.register_profile(
        name, deadline=None, max_examples=examples, derandomize=name != "thorough"
    )
settings.load_profile("default")
gc.set_threshold(20_000, 50, 50)  # a worker holds a million objects, and few of them die

pytest.register_assert_rewrite("tests.support")

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault(
        "OMP_NUM_THREADS", "1"
    )  # of what a test starts, too: each worker has a core


@pytest.fixture
def messages() -> Iterator[None]:
    """The library's messages are printed, as the command line and the stages do."""
    with printed_messages():
        yield


def pytest_make_parametrize_id(val: object) -> str | None:
    """Keep bytes out of the names of tests: gzip writes the time into them, and workers must agree
    on the names."""
    return "bytes" if isinstance(val, bytes) else None
