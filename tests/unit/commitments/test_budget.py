"""The estimate, the limits that it is held against, and what answers cost."""

from __future__ import annotations

import pytest

from pacer.commitments.labelling import label_sample
from pacer.core.errors import ConfigError, PacerError
from tests.support.endpoint import Drop, Reply, answer, completion
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
    assert audit["prompt_tokens"] == 6000 and audit["completion_tokens"] == 600
    assert audit["dollars"] == pytest.approx((6000 * 0.4 + 600 * 1.6) / 1e6)


def test_answers_without_usage_cost_their_estimate(endpoint, asking, sample, records, tmp_path) -> None:
    endpoint.replies = lambda asked, _: Reply(body=completion(answer(asked)) | {"usage": None})
    audit = label_sample(sample, records, asking(input_price=0.0, output_price=10.0), tmp_path)
    assert audit["dollars"] == pytest.approx(6 * 600 * 10 / 1e6)


def test_what_earlier_runs_cost_counts(endpoint, asking, sample, records, tmp_path) -> None:
    label_sample(sample.head(3), records, asking(), tmp_path)
    with pytest.raises(ConfigError, match=r"max_requests: 5 does not cover 3 requests to send"):
        label_sample(sample, records, asking(max_requests=5), tmp_path)
    with pytest.raises(ConfigError, match=r"max_dollars: 0.003 does not cover 3 requests to send \(3 paid before\)"):
        label_sample(sample, records, asking(max_dollars=0.003), tmp_path)
    label_sample(sample, records, asking(max_dollars=0.2), tmp_path)
    assert set(endpoint.seen.values()) == {1}


def test_answers_that_cost_more_than_their_estimate_end_the_run(endpoint, asking, sample, records, tmp_path) -> None:
    usage = {"prompt_tokens": 100_000, "completion_tokens": 0}
    endpoint.replies = lambda asked, _: Reply(body=completion(answer(asked)) | {"usage": usage})
    with pytest.raises(PacerError, match=r"max_dollars: 0.1 is spent.*The other answers are saved"):
        label_sample(sample, records, asking(max_dollars=0.1, concurrency=1), tmp_path)
    assert len(cached(tmp_path)) == 3
    with pytest.raises(ConfigError, match="does not cover 3 requests"):
        label_sample(sample, records, asking(max_dollars=0.1), tmp_path)


def test_requests_without_a_response_are_counted(endpoint, asking, sample, records, tmp_path) -> None:
    endpoint.replies = lambda *_: (_ for _ in ()).throw(Drop({"a": 1}, sent=3))
    audit = label_sample(sample.head(3), records, asking(unanswered="rules", attempts=3), tmp_path)
    assert (audit["unanswered"], audit["lost_and_perhaps_paid"], audit["troubles"]) == (3, 3, {"disconnected": 3})
    anchors, _ = build(records, tmp_path / "llm_cache.jsonl")
    assert set(anchors["origin"]) == {"rules"}
    assert cached(tmp_path) == []
