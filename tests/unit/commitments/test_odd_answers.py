"""Complete answers that no well-kept endpoint gives: the work neither breaks on them nor takes them for labels."""

from __future__ import annotations

import pytest

from pacer.commitments.labelling import MAX_IN_A_ROW
from pacer.commitments.sampling import sample_records
from pacer.core.errors import PacerError
from tests.support.endpoint import Reply, answer, completion, good


@pytest.mark.parametrize(
    ("finish", "change"),
    [
        ("stop", {}),
        ("\ud800", {}),
        *(("stop", {"model": model}) for model in ("\ud800", 7)),
        *(("stop", {"usage": {"prompt_tokens": n, "completion_tokens": n}}) for n in (10**400, True, 12.0, -1)),
        ("stop", {"usage": []}),
    ],
)
def test_odd_values(endpoint, label, finish, change) -> None:
    endpoint.replies = lambda asked, _: Reply(body=completion(answer(asked, positive=["\ud83d"]), finish) | change)
    for _ in range(2):
        audit = label()
        assert audit["statuses"] == {"ok": 6}
    assert set(endpoint.seen.values()) == {1}


@pytest.mark.parametrize("charset", ["utf-16", "hex", "undefined"])
@pytest.mark.parametrize("status", [200, 500])
def test_charset_that_is_none(endpoint, label, sample, charset, status) -> None:
    headers = {"Content-Type": f"application/json; charset={charset}"}
    endpoint.replies = lambda asked, before: Reply(200 if before else status, completion(answer(asked)), headers)
    assert label(sample.head(1))["statuses"] == {"ok": 1}


@pytest.mark.parametrize(
    ("reply", "result", "status"),
    [
        (Reply(400, {"error": {"message": "unsupported parameter"}}), "HTTP 400", None),  # asked again
        (Reply(500, {}), "HTTP 500", None),
        (Reply(body=b"<html>login</html>"), "HTTP 200, application/json, not JSON", None),
        (Reply(body=completion("I cannot.")), "unparseable", "unparseable"),  # an answer, which is kept
    ],
)
def test_an_endpoint_that_gives_no_usable_answer_does_not_use_up_the_sample(
    endpoint, label, records, reply, result, status
) -> None:
    """Whatever was answered earlier: 20 in a row end the run, and the endpoint is asked again when it is well."""
    sample = sample_records(records, 40, seed=1)[0]
    label(sample.head(1))
    endpoint.replies = lambda *_: reply
    with pytest.raises(PacerError, match=rf"127.0.0.1:\d+ gave no usable answer for 20 records in a row.*\({result}\)"):
        label(sample, concurrency=1, attempts=1)
    assert sum(endpoint.seen.values()) == 1 + MAX_IN_A_ROW
    endpoint.replies = good
    audit = label(sample)
    kept = {status: 20} if status else {}
    assert audit["statuses"] == {"ok": sample.height - sum(kept.values())} | kept


def test_refusals_between_answers_are_believed(endpoint, label, records) -> None:
    sample = sample_records(records, 40, seed=1)[0]
    well = set(sample["record_id"].to_list()[10::15])
    endpoint.replies = lambda asked, _: good(asked) if asked["sample_uid"] in well else Reply(400, {})
    audit = label(sample, concurrency=1)
    assert audit["statuses"] == {"ok": len(well)}
    refused = sample.height - len(well)
    assert (audit["troubles"], audit["unanswered"]) == ({"HTTP 400": refused}, refused)
