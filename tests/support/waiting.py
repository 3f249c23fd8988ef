"""Waiting for what another process or thread does. No test asserts how long that takes: a deadline
only ends a test that hangs."""

import time
from collections.abc import Callable

#: Seconds after which a test that waits counts as hanging; machines differ tenfold.
PATIENCE = 300.0


def wait_until(done: Callable[[], object], going: Callable[[], object] = lambda: True) -> None:
    """Wait for something; ``going`` is what must hold until then, such as a process that runs."""
    end = time.monotonic() + PATIENCE
    while not done():
        assert going() and time.monotonic() < end, "it has ended, or hangs"
        time.sleep(0.05)
