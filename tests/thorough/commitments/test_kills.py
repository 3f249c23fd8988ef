"""The paper's 10,000 requests to an endpoint that misbehaves, with the process killed three times."""

from __future__ import annotations

from tests.support.endpoint import Misbehaviour
from tests.support.labelling_work import SLOTS, Work, label_with_kills


def test_ten_thousand_requests(endpoint, asking, tmp_path) -> None:
    endpoint.keep = False
    world = endpoint.replies = Misbehaviour(seed=11, hang=3.0, stuck={"mw-2400"})
    work = Work(tmp_path, endpoint, 10_000, asking(concurrency=SLOTS, timeout=2.0, attempts=6))
    audit = label_with_kills(work, world, kills=(500, 4000, 8000))
    print({name: audit[name] for name in ("statuses", "troubles", "twice")}, endpoint.seen.total(), "requests")
