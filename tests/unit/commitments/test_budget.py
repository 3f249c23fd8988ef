"""The estimate before, and the limits during the work."""

from __future__ import annotations

from typing import Any

import pytest

from pacer.commitments.labelling.draw import sample_records
from pacer.commitments.labelling.labelling import label_sample
from pacer.core.errors import ConfigError, PacerError
from tests.support.endpoint import Drop, Reply, completion, good
from tests.support.labelling import build, cached


def test_estimate_comes_first_and_binds(endpoint, asking, sample, records, tmp_path, capfd) -> None:
    for limit in ({"max_requests": 5}, {"max_dollars": 0.005}):
        with pytest.raises(ConfigError, match=rf"{next(iter(limit))}.*does not cover 6 requests.*Nothing was sent"):
            label_sample(sample, records, asking(**limit), tmp_path)
    assert endpoint.keys == set()
    label_sample(sample, records, asking(max_requests=6, max_dollars=0.02), tmp_path)
    assert "6 requests to send (0 paid before): about 0.01 M input tokens (characters / 4)" in capfd.readouterr().err


def test_dollars_follow_the_usage(endpoint, asking, sample, records, tmp_path) -> None:
    audit = label_sample(sample, records, asking(), tmp_path)
    assert audit["prompt_tokens"] == 6000 and audit["completion_tokens"] == 600 and audit["without_usage"] == 0
    assert audit["dollars"] == pytest.approx((6000 * 0.4 + 600 * 1.6) / 1e6)


def test_work_stops_when_the_money_is_spent_and_goes_on_with_more(endpoint, asking, sample, records, tmp_path) -> None:
    """The endpoint counts more tokens than estimated: the limit is passed by no more than the answers in flight."""
    dear = completion("{}") | {"usage": {"prompt_tokens": 20_000, "completion_tokens": 600}}
    endpoint.replies = lambda *_: Reply(body=dear)
    with pytest.raises(PacerError, match=r"max_dollars: 0.02 is spent: . requests.*answers are saved"):
        label_sample(sample, records, asking(max_dollars=0.02, concurrency=1), tmp_path)
    paid = sum(endpoint.paid.values())
    assert 2 <= paid < 6
    with pytest.raises(ConfigError, match=r"max_dollars: 0.02 does not cover"):
        label_sample(sample, records, asking(max_dollars=0.02), tmp_path)
    label_sample(sample, records, asking(max_dollars=0.2), tmp_path)
    assert set(endpoint.seen.values()) == {1}


def test_lost_answers_count_towards_the_budget(endpoint, asking, sample, records, tmp_path) -> None:
    """The limit is passed by no more than the lost tries of the requests in flight."""

    def replies(asked: dict[str, Any], before: int) -> Reply:
        if not before:
            raise Drop()
        return good(asked)

    endpoint.replies = replies
    with pytest.raises(PacerError, match=r"max_requests: 7 is spent: 8 requests"):
        label_sample(sample, records, asking(max_requests=7, concurrency=1), tmp_path)
    assert sum(endpoint.seen.values()) == 8
    with pytest.raises(ConfigError, match=r"max_requests: 9 does not cover 2 requests to send \(8 paid before\)"):
        label_sample(sample, records, asking(max_requests=9), tmp_path)
    label_sample(sample, records, asking(), tmp_path)
    more = sample_records(records, 4, seed=1)[0]
    with pytest.raises(ConfigError, match=r"2 requests to send \(12 paid before\)"):
        label_sample(more, records, asking(max_requests=0), tmp_path)


def test_lost_answers_count_when_their_records_fall_to_the_rules(endpoint, asking, sample, records, tmp_path) -> None:
    endpoint.replies = lambda *_: (_ for _ in ()).throw(Drop({"a": 1}, sent=3))
    with pytest.raises(PacerError, match=r"max_requests: 4 is spent: 6 requests"):
        label_sample(sample.head(3), records, asking(max_requests=4, attempts=3, concurrency=1), tmp_path)
    audit = label_sample(sample.head(3), records, asking(unanswered="rules", attempts=3), tmp_path)
    assert (audit["unanswered"], audit["lost_and_perhaps_paid"], audit["troubles"]) == (3, 9, {"disconnected": 9})
    anchors, _ = build(records, tmp_path / "llm_cache.jsonl")
    assert set(anchors["origin"]) == {"rules"}
    assert cached(tmp_path) == []
