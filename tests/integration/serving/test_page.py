"""The page: its server under requests that no page makes, and what it says of a result, everything
escaped."""

import io
import json
import re
import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from urllib.parse import unquote

import numpy as np
import pytest
from PIL import Image

from pacer.core.anchor import Anchor
from pacer.core.errors import ConfigError
from pacer.reporting.marks import WORDS
from pacer.serving import page as view
from pacer.serving.case import Case, Result
from pacer.serving.page import MAX_BODY, Page
from pacer.serving.reporter import Reporter
from tests.support.cases import listed_cases
from tests.support.metrics import read_texts
from tests.support.waiting import PATIENCE, wait_until


@dataclass
class Site:
    """The page that is being served, and what it logged."""

    address: str
    log: list[str]


@contextmanager
def serving(reporter: Reporter) -> Iterator[Site]:
    log: list[str] = []
    port = free_port()
    with Page(reporter, port, log.append) as page:
        running = threading.Thread(target=page.serve_forever, kwargs={"poll_interval": 0.05})
        running.start()
        try:
            yield Site(f"http://127.0.0.1:{port}", log)
        finally:
            page.shutdown()
            running.join()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture(scope="module")
def site(reporter: Reporter) -> Iterator[Site]:
    with serving(reporter) as found:
        yield found


def film() -> bytes:
    buffer = io.BytesIO()
    Image.linear_gradient("L").save(buffer, "PNG")
    return buffer.getvalue()


def ask(site: Site, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    if body is not None:
        headers = {"Origin": site.address, "Content-Type": "application/octet-stream"} | headers
    request = urllib.request.Request(site.address + path, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def case(**fields: object) -> bytes:
    """The body of a request for the report of a frontal image."""
    image = film()
    texts = dict.fromkeys(("prior", "indication", "history", "view", "commitment"), "")
    return json.dumps({"sizes": [len(image)], **texts, **fields}).encode() + b"\n" + image


@pytest.mark.parametrize("path", listed_cases(__file__, "paths"))
def test_nothing_but_the_page_is_answered(site: Site, path: str) -> None:
    assert ask(site, path)[0] in (404, 405)


def test_nothing_is_read_that_a_request_names(site: Site) -> None:
    status, body = ask(site, "/look/frontal", b"/etc/passwd")
    assert status == 422 and b"not an image" in body
    assert ask(site, "/report/contexts", case())[0] == ask(site, "/look/back", b"x")[0] == 404


@pytest.mark.parametrize(("fields", "sentence"), listed_cases(__file__, "cases"))
def test_a_case_that_the_page_would_not_send(site: Site, fields: dict, sentence: str) -> None:
    status, told = ask(site, "/report", case(**fields))
    assert status == 422 and sentence in told.decode()


def test_a_persons_list_may_have_sides_as_the_models(describing: Reporter) -> None:
    """And is shown as a list of a person."""
    with serving(describing) as site:
        status, told = ask(site, "/report", case(commitment="positive: left pleural effusion"))
    assert status == 200 and b"left pleural effusion;" in told
    assert b"(changed by you)" in told


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000 + b"\n",
        b'{"sizes": [1], "frontal": "/etc/passwd"}\n',
        b"[]\n",
        b"\xff\n",
        b"",
    ],
)
def test_a_request_that_is_not_the_pages(site: Site, body: bytes) -> None:
    for sent in (body, case()[:-500]):
        status, told = ask(site, "/report", sent)
        assert status == 422 and b"the request did not come from the page" in told


def test_hosts_and_origins(site: Site) -> None:
    """A name that another leads here is refused, and so is what another page asks."""
    assert ask(site, "/", Host="evil.example")[0] == 421
    assert ask(site, "/", Host=f"localhost:{site.address.rpartition(':')[2]}")[0] == 200
    assert ask(site, "/", Host="192.168.0.7")[0] == 421 and ask(site, "/", Host="[")[0] == 421
    for origin in ("http://evil.example", "http://127.0.0.1:1", "null", "", "http://["):
        assert ask(site, "/look/frontal", film(), Origin=origin)[0] == 403
    with urllib.request.urlopen(site.address) as answer:
        assert "access-control-allow-origin" not in answer.headers
        assert "script-src 'self';" in answer.headers["content-security-policy"]


def test_sizes_are_limited_before_a_body_is_read(site: Site) -> None:
    for length in (str(MAX_BODY + 1), "-1", ""):
        assert ask(site, "/look/frontal", b"x", **{"Content-Length": length})[0] == 413


def test_a_port_that_is_taken_is_refused(site: Site, reporter: Reporter) -> None:
    port = int(site.address.rpartition(":")[2])
    with pytest.raises(
        ConfigError, match=rf"port {port} cannot be used \(Address .* use\); choose a different"
    ):
        Page(reporter, port, print)


def test_one_report_is_written_at_a_time(
    site: Site, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    (made,) = reporter.generate([Case(Image.linear_gradient("L"))])
    busy, most = 0, 0

    def generate(cases: list) -> list:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        time.sleep(0.05)
        busy -= 1
        return [replace(made, name=cases[0].name)]

    monkeypatch.setattr(reporter, "generate", generate)
    with ThreadPoolExecutor(8) as pool:
        shown = list(pool.map(lambda _: ask(site, "/report", case()), range(8)))
    assert all(status == 200 and b'data-context="sn"' in told for status, told in shown)
    assert most == 1


def test_nothing_is_written_for_a_browser_that_has_gone(
    site: Site, reporter: Reporter, monkeypatch
) -> None:
    """While another report is written; the next is not delayed, and nothing is logged."""
    (made,) = reporter.generate([Case(Image.linear_gradient("L"))])
    written, begun, go_on = [], threading.Event(), threading.Event()

    def generate(cases: list) -> list:
        written.append(1)
        begun.set()
        assert go_on.wait(PATIENCE)
        return [replace(made, name=cases[0].name)]

    monkeypatch.setattr(reporter, "generate", generate)
    site.log.clear()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, site, "/report", case())
        assert begun.wait(PATIENCE)
        host, body = site.address.removeprefix("http://"), case()
        for _ in range(5):
            with socket.create_connection(host.split(":")) as gone:
                head = (
                    f"POST /report HTTP/1.1\r\nHost: {host}\r\nOrigin: "
                    f"{site.address}\r\nContent-Length: {len(body)}"
                )
                gone.sendall(f"{head}\r\n\r\n".encode() + body)
        last = pool.submit(ask, site, "/report", case())
        time.sleep(0.5)
        go_on.set()
        assert first.result()[0] == last.result()[0] == 200
    assert len(written) == 2 and not site.log


def test_cancelled_requests_among_twenty(
    site: Site, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of ten gets its own report while ten others give up at various points of a request."""
    (made,) = reporter.generate([Case(Image.linear_gradient("L"))])

    def generate(cases: list[Case]) -> list[Result]:
        time.sleep(0.05)
        return [replace(made, name=cases[0].name, report=f"{cases[0].indication} .")]

    def report(number: int) -> bool:
        status, told = ask(site, "/report", case(indication=f"cough {number} times"))
        return status == 200 and f"cough {number} times ." in re.sub(r"<[^>]+>", "", told.decode())

    def give_up(number: int) -> bool:
        host, body = site.address.removeprefix("http://"), case()
        head = (
            f"POST /report HTTP/1.1\r\nHost: {host}\r\nOrigin: {site.address}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        sent = head.encode() + body
        with socket.create_connection(host.split(":")) as gone:
            gone.sendall(sent[: (20, len(head), len(sent) // 2, len(sent))[number % 4]])
            if number % 2:  # the connection is reset, not closed
                gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return True

    monkeypatch.setattr(reporter, "generate", generate)
    site.log.clear()
    with ThreadPoolExecutor(20) as pool:
        done = [pool.submit(side, number) for number in range(10) for side in (report, give_up)]
        assert all(one.result() for one in done)
    assert report(11) and not site.log


def test_an_error_that_nobody_foresaw(
    site: Site, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line in the log, without what it says: it may quote the case."""
    monkeypatch.setattr(reporter, "prepare", lambda case: 1 / 0)
    site.log.clear()
    status, told = ask(site, "/report", case())
    assert status == 500 and b"see its terminal" in told
    wait_until(lambda: site.log)  # the line is written once the answer is given
    assert [
        re.fullmatch(r"ZeroDivisionError at test_page\.py:\d+", line) is not None
        for line in site.log
    ] == [True]


REPORT = "There is a small pleural effusion. No pneumothorax; possible edema. The hila are normal."
COMMITMENT = Anchor.of(
    positive=["pleural effusion"], negative=["pneumothorax", "fracture"], uncertain=[]
)


@pytest.fixture(scope="module")
def result(reporter: Reporter) -> Result:
    return reporter(
        Image.fromarray(np.random.default_rng(0).integers(0, 255, (60, 70), dtype=np.uint8))
    )


def test_what_stands_in_a_report_is_text_on_the_page(result: Result) -> None:
    bad = "<script>alert(1)</script> effusion"
    shown = view.result_page(replace(result, report=bad, commitment=COMMITMENT, notes=(bad,)))
    assert "<script" not in shown and "&lt;script&gt;" in shown
    assert "<script" not in view.problem(bad)


def test_a_report_stands_beside_its_commitment(result: Result) -> None:
    """Where it departs from it is in words; agreement is not drawn as if it were truth."""
    shown = view.result_page(replace(result, report=REPORT, commitment=COMMITMENT, fallback=False))
    assert "<mark" not in shown and "agrees with its own list" not in shown
    assert "<li>edema: uncertain in the report, not stated in the list</li>" in shown
    assert "<li>fracture: not stated in the report, absent in the list</li>" in shown
    assert (
        "positive: pleural effusion;\nnegative: fracture, pneumothorax;\nuncertain: none" in shown
    )
    raw = view.result_page(replace(result, report=REPORT, commitment=COMMITMENT, fallback=True))
    assert "in the list" not in raw, "no report stands after this commitment"


@pytest.mark.parametrize(
    ("report", "mismatches", "contradictions"), listed_cases(__file__, "mismatches")
)
def test_a_result_says_where_its_report_departs_from_its_commitment(
    result: Result, report: str, mismatches: dict[str, str | None], contradictions: list[str]
) -> None:
    """As the scores do (:mod:`pacer.metrics.ledger`), and the page in words."""
    departs = replace(result, report=report, commitment=COMMITMENT, fallback=False)
    opposite = {"positive": "negative", "negative": "positive"}
    mismatches |= {
        finding: opposite[COMMITMENT.polarity(finding) or ""] for finding in contradictions
    }
    assert departs.mismatches() == mismatches and [*departs.contradictions()] == contradictions
    cases, _ = read_texts([""], [report], [COMMITMENT])
    assert cases["contradictions"].to_list() == [contradictions]
    shown = view.result_page(departs)
    for finding, state in mismatches.items():
        listed = WORDS[COMMITMENT.polarity(finding)]
        stated = WORDS.get(state, "not stated")
        assert f"<li>{finding}: {stated} in the report, {listed} in the list</li>" in shown
    assert shown.count('contradicts" title="the report says the opposite"') == len(contradictions)
    alone = (replace(departs, fallback=True), replace(departs, commitment=None))
    assert [one.mismatches() for one in alone] == [{}, {}]


def test_a_report_that_agrees_with_its_list_is_not_said_to_be_right(result: Result) -> None:
    agrees = replace(result, report="Effusion.", commitment=Anchor.of(["pleural effusion"]))
    shown = view.result_page(replace(agrees, fallback=False))
    assert "agrees with its own list of findings. This does not mean that it is right." in shown


def test_what_is_missing_is_said(result: Result) -> None:
    bare = replace(result, commitment=None, gate=None, fallback=True, truncated=True)
    shown = view.result_page(bare)
    assert 'id="list"' in shown and 'id="list"' not in view.result_page(bare, commits=False)
    assert "no report was found" in shown and "the end may be missing" in shown
    assert "Findings listed first" not in shown and "(gate)" not in shown
    empty = view.result_page(replace(result, report=""))
    assert "The report is empty." in empty and "<li>empty report: no sentence agreed" in empty
    one = replace(result.frontal, weights=np.ones((4, 4, 1), np.float32), depths=(3,))
    assert "block" in shown and "block 3" not in view.result_page(replace(result, frontal=one))


def test_notes_on_the_model_stand_once_and_a_case_is_saved_whole(result: Result) -> None:
    noted = replace(result, notes=("of the model", "of the case"))
    shown = view.result_page(noted, notes_of_model=["of the model"])
    assert "<li>of the case</li>" in shown and "<li>of the model</li>" not in shown
    saved = json.loads(unquote(re.findall(r'href="data:[^,]*,([^"]*)"', shown)[0]))
    assert saved == noted.as_dict()
