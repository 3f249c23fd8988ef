"""Hundreds of requests to an endpoint that misbehaves, with the process killed in the middle.

Real processes, real kills (SIGKILL). Every record ends labelled or with the rules, none is lost, and none is paid twice
but for what was under way at a kill.
"""

from __future__ import annotations

from tests.support.endpoint import Misbehaviour
from tests.support.labelling_work import SLOTS, Work, label_with_kills


def test_requests_killed_twice(endpoint, asking, tmp_path) -> None:
    endpoint.keep = False
    world = endpoint.replies = Misbehaviour(seed=7, hang=3.0, stuck={"mw-199"})
    work = Work(tmp_path, endpoint, 800, asking(concurrency=SLOTS, timeout=2.0, attempts=6))
    label_with_kills(work, world, kills=(250, 500))
