"""The estimate, the limits that it is held against, and what answers cost."""

from __future__ import annotations

import pytest

from pacer.core.errors import ConfigError, PacerError
from tests.support.endpoint import Reply, answer, completion
from tests.support.labelling import cached


def test_estimate_comes_first_and_binds(endpoint, label, capfd) -> None:
    for limit in ({"max_requests": 5}, {"max_dollars": 0.005}):
        with pytest.raises(ConfigError, match=rf"{next(iter(limit))}.*does not cover 6 requests.*Nothing was sent"):
            label(**limit)
    assert endpoint.keys == set()
    label(max_requests=6, max_dollars=0.02)
    assert "6 requests to send (0 paid before): about 0.01 M input tokens (characters / 4)" in capfd.readouterr().err


def test_dollars_follow_the_usage_or_the_estimate(endpoint, label) -> None:
    audit = label()
    assert audit["prompt_tokens"] == 6000 and audit["completion_tokens"] == 600
    assert audit["dollars"] == pytest.approx((6000 * 0.4 + 600 * 1.6) / 1e6)
    endpoint.replies = lambda asked, _: Reply(body=completion(answer(asked)) | {"usage": None})
    audit = label(max_tokens=500, input_price=0.0, output_price=10.0)
    assert audit["dollars"] == pytest.approx(6 * 500 * 10 / 1e6)


def test_what_earlier_runs_cost_counts(endpoint, label, sample) -> None:
    label(sample.head(3))
    with pytest.raises(ConfigError, match=r"max_requests: 5 does not cover 3 requests to send"):
        label(max_requests=5)
    with pytest.raises(ConfigError, match=r"max_dollars: 0.003 does not cover 3 requests to send \(3 paid before\)"):
        label(max_dollars=0.003)
    label(max_dollars=0.2)
    assert set(endpoint.seen.values()) == {1}


def test_answers_that_cost_more_than_their_estimate_end_the_run(endpoint, label, tmp_path) -> None:
    usage = {"prompt_tokens": 100_000, "completion_tokens": 0}
    endpoint.replies = lambda asked, _: Reply(body=completion(answer(asked)) | {"usage": usage})
    with pytest.raises(PacerError, match=r"max_dollars: 0.1 is spent.*The other answers are saved"):
        label(max_dollars=0.1, concurrency=1)
    assert len(cached(tmp_path)) == 3
    with pytest.raises(ConfigError, match="does not cover 3 requests"):
        label(max_dollars=0.1)
