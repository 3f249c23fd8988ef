"""Hundreds of requests to an endpoint that misbehaves, with the process killed in the middle.

Real processes, real kills (SIGKILL). Every record ends labelled or with the rules, none is lost, and none is paid twice
but for what was under way at a kill.
"""

from __future__ import annotations

import signal

from pacer.core.io import read_json
from pacer.core.stops import LAST_WORDS, STOPPED
from tests.support.endpoint import Misbehaviour
from tests.support.labelling_work import SLOTS, Work, label_with_kills


def test_requests_killed_twice(endpoint, asking, tmp_path) -> None:
    endpoint.keep = False
    world = endpoint.replies = Misbehaviour(seed=7, hang=3.0, stuck={"mw-199"})
    work = Work(tmp_path, endpoint, 800, asking(concurrency=SLOTS, timeout=2.0, attempts=6))
    label_with_kills(work, world, kills=(250, 500))


def test_requests_stopped_in_the_middle(endpoint, asking, tmp_path) -> None:
    """SIGTERM: the answers under way are kept, and the files are those of a labelling without a stop."""
    whole, work = (Work(tmp_path / name, endpoint, 400, asking(concurrency=SLOTS)) for name in ("whole", "stopped"))
    assert whole.label() == 0
    endpoint.paid.clear()
    assert work.label(lambda: endpoint.paid.total() >= 100, signal.SIGTERM) == STOPPED
    assert work.output.splitlines()[-1] == LAST_WORDS and "Traceback" not in work.output
    paid = endpoint.paid.total()
    assert 100 <= paid < 400
    assert work.label() == 0 and endpoint.paid.total() == 400
    assert work.cache.read_bytes() == whole.cache.read_bytes()
    audit = read_json(work.folder / "audit.json")
    assert audit == read_json(whole.folder / "audit.json") | {"reused": paid}
