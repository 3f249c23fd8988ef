"""The page in a real browser, and its server under requests that no page makes."""

from __future__ import annotations

import asyncio
import gc
import io
import json
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from PIL import Image

from pacer.core.errors import ConfigError, DataError
from pacer.serving.case import Case
from pacer.serving.reporter import Reporter
from tests.browser import CHROMIUM
from tests.dicom import write_dicom
from tests.serving.world import DATA, ROOT, World

pytestmark = pytest.mark.slow

pytest.importorskip("uvicorn", reason="uvicorn is not installed (extra app)")
pytest.importorskip("pebble", reason="pebble is not installed (extra app)")

from pacer.cli.serving import serve  # noqa: E402
from pacer.serving import decoder, guard, line, server  # noqa: E402


@dataclass
class Site:
    """The page that is being served, and what it logged."""

    address: str
    log: list[str]

    @property
    def host(self) -> str:
        return self.address.removeprefix("http://")


@contextmanager
def serving(reporter: Reporter, **options: object) -> Iterator[Site]:
    log: list[str] = []
    with server.served(reporter, "127.0.0.1", free_port(), log.append, **options) as address:  # type: ignore[arg-type]
        yield Site(address.rstrip("/"), log)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture(scope="module")
def site(reporter: Reporter) -> Iterator[Site]:
    with serving(reporter) as found:
        yield found


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed; `apt-get install chromium`")
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (extra dev)")
    with playwright.sync_playwright() as driver:
        # a container has no user namespaces for the browser's sandbox; it opens this page alone
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield found
        found.close()


@pytest.fixture
def page(browser, site: Site):
    """An open page; nothing in it may log an error or ask any other server for anything."""
    problems: list[str] = []
    found = browser.new_page(viewport={"width": 1400, "height": 900})
    found.set_default_timeout(20_000)
    # the browser writes down each answer that is no success, such as that of a file that is no image
    found.on("console", lambda m: m.type == "error" and "status of 422" not in m.text and problems.append(m.text))
    found.on("pageerror", lambda error: problems.append(str(error)))
    found.on(
        "request",
        lambda request: (
            request.url.startswith((site.address, "data:", "blob:")) or problems.append(f"asked for {request.url}")
        ),
    )
    found.goto(site.address)
    yield found
    found.close()
    assert not problems


def give(page, place: str, path: Path | dict) -> None:
    page.set_input_files(f"#drop-{place}", path)
    page.wait_for_selector(f"#shown-{place} img")


def written(page, button: str = "#write", shown: str = "#report .result"):
    page.click(button)
    page.wait_for_selector(f".outdated ~ {shown.split()[-1]}", state="detached")
    page.wait_for_selector(shown)
    page.wait_for_selector("#cancel", state="hidden")
    return page.locator(shown)


def plain(text: str) -> str:
    return " ".join(text.split())


def test_the_page_writes_what_the_reporter_writes(page, world: World, reporter: Reporter, tmp_path: Path) -> None:
    """With all sources from files as a person has them, a DICOM film among them, and again without two of them."""
    case = world.case("mw-50000003")
    give(page, "frontal", case.frontal)
    assert "PA" in page.inner_text("#shown-frontal figcaption")
    give(page, "lateral", case.lateral)
    page.fill("#prior", case.prior)
    page.wait_for_selector("#context .badge:text('MW')")
    page.click("#clinical summary")
    page.fill("#indication", case.indication)
    full = reporter(case.frontal, case.lateral, case.prior, case.indication)
    shown = written(page)
    assert plain(_report(shown)) == plain(full.report)
    assert shown.get_attribute("data-context") == "mw"
    assert shown.locator(".chip").count() == len(full.findings())
    assert f"{full.gate:.2f}" in shown.locator(".gauge").inner_text()
    assert shown.locator(".film").count() == 2
    page.screenshot(path=tmp_path / "report.png", full_page=True)

    page.uncheck("#with-lateral")
    page.uncheck("#with-prior")
    page.wait_for_selector("#context .badge:text('SN')")
    assert "Out of date" in page.inner_text("#report .outdated")
    shown = written(page)
    assert page.locator("#report .outdated").count() == 0
    alone = reporter(case.frontal, indication=case.indication)
    assert plain(_report(shown)) == plain(alone.report)
    assert page.locator("#report .film").count() == 1

    page.select_option("#sections", "findings")
    findings = reporter(case.frontal, indication=case.indication, sections="findings")
    assert findings.generated != alone.generated
    assert plain(_report(written(page))) == plain(findings.report)

    page.click("#remove-frontal")
    assert "Out of date" in page.inner_text("#report .outdated")
    page.click("#write")
    page.wait_for_selector("#report .problem:has-text('no frontal radiograph yet')")


def test_an_edit_ends_what_was_asked_for(page, reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
    """No report may stand beside a case that it was not written for; and while one is awaited, none can be asked for.
    A request can be taken back as well."""
    going, generate = threading.Event(), reporter.generate

    def slow(*arguments: object, **named: object) -> list:
        going.wait(20)
        return generate(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(reporter, "generate", slow)
    page.click("#example-0")
    page.wait_for_selector("#shown-lateral img")
    page.click("#write")
    page.wait_for_selector("#state:text('Writing')")
    assert page.is_disabled("#write") and page.is_disabled("#compare")
    page.fill("#prior", "another patient's")
    page.wait_for_selector("#state:has-text('was cancelled')")
    assert page.is_enabled("#write") and page.is_hidden("#cancel")
    page.click("#write")
    page.wait_for_selector("#state:has-text('1 before this case')")
    page.click("#cancel")
    page.wait_for_selector("#state:text('Cancelled')")
    going.set()
    page.wait_for_timeout(500)
    assert page.locator("#report .result").count() == 0
    monkeypatch.undo()
    assert written(page).get_attribute("data-context") == "mw"


def test_the_previous_report_can_be_removed(page) -> None:
    page.click("#example-2")
    page.wait_for_selector("#context .badge:text('MW')")
    page.wait_for_selector("#shown-lateral img")
    written(page)
    page.click("#remove-prior")
    page.wait_for_selector("#context .badge:text('MN')")
    page.wait_for_selector("#report .outdated")
    assert page.input_value("#prior") == ""
    page.wait_for_selector("#remove-prior", state="hidden")


def test_in_a_narrow_window_the_report_comes_into_view(page) -> None:
    """It stands below the case there; beside it, in a wide window, nothing moves."""
    page.click("#example-0")
    page.wait_for_selector("#shown-lateral img")
    top = "document.querySelector('#results').getBoundingClientRect().top"
    page.evaluate("window.scrollTo(0, 0)")
    written(page)
    page.wait_for_timeout(500)
    assert page.evaluate("scrollY") == 0
    page.set_viewport_size({"width": 420, "height": 900})
    for button, shown in (("#write", "#report .result"), ("#compare", "#contexts .comparison")):
        page.evaluate("window.scrollTo(0, 0)")
        assert page.evaluate(top) > 900
        written(page, button, shown)
        page.wait_for_function(f"{top} >= 32 && {top} < 200")  # below the notice


@pytest.mark.parametrize("pattern", ["openi/images/*.jpg", "covid/images/*.jpg", "dicom/*.dcm"])
def test_real_radiographs_on_the_page(page, reporter: Reporter, tmp_path: Path, pattern: str) -> None:
    """One of Open-I as PNG, as it is distributed, a JPEG of the COVID collection, and a DICOM file."""
    path = next(iter(sorted(DATA.glob(pattern))), None)
    if path is None:
        pytest.skip(f"the real files are not at {DATA / pattern}")
    if pattern.startswith("openi"):
        Image.open(path).save(tmp_path / "film.png")
        path = tmp_path / "film.png"
    give(page, "frontal", path)
    assert plain(_report(written(page))) == plain(reporter(path).report)


def _report(shown) -> str:
    return shown.locator(".report").evaluate(
        "report => { const own = report.cloneNode(true); own.querySelectorAll('.spoken').forEach(s => s.remove()); "
        "return own.textContent }"
    )


def test_contexts_side_by_side(page, world: World, reporter: Reporter, tmp_path: Path) -> None:
    case = world.case("mw-50000002")
    give(page, "frontal", case.frontal)
    give(page, "lateral", case.lateral)
    page.fill("#prior", case.prior)
    shown = written(page, "#compare", "#contexts .comparison")
    expected = reporter.in_all_contexts(reporter.prepare(Case(case.frontal, case.lateral, case.prior)))
    assert shown.locator(".card").count() == 4
    assert shown.locator(".card").first.get_attribute("data-context") == "mw"  # the case as it was given
    for context, result in expected.items():
        card = shown.locator(f".card[data-context={context}]")
        assert plain(card.locator(".report").inner_text()) == plain(result.report)
    states = {context: result.findings() for context, result in expected.items()}
    differing = {
        finding
        for own in states.values()
        for finding in own
        if len({other.get(finding) for other in states.values()}) > 1
    }
    assert set(shown.locator(".changes tbody th").all_inner_texts()) == differing
    page.screenshot(path=tmp_path / "contexts.png", full_page=True)
    for width, scheme in ((420, "dark"), (420, "light")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, "the page is wider than the window"
        page.screenshot(path=tmp_path / f"contexts-{scheme}.png", full_page=True)


def test_examples_map_and_notice_by_keyboard_alone(page, tmp_path: Path) -> None:
    """An example, its report, the depth slider and the tabs without a mouse; the notice stays while one scrolls."""
    page.focus("#example-1")
    page.keyboard.press("Enter")
    page.wait_for_selector("#shown-lateral img")
    assert page.input_value("#prior")
    page.focus("#write")
    page.keyboard.press("Enter")
    page.wait_for_selector("#report .result")
    assert page.inner_text("#state").startswith("Done")  # announced
    assert page.locator("#report .map.shown").count() == 0
    page.focus("#report .depth")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#report .controls output") == "block 2"
    assert page.locator("#report .map.shown").count() == 2
    page.wait_for_timeout(300)
    page.screenshot(path=tmp_path / "map.png", full_page=True)
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    assert page.locator(".notice").evaluate("notice => notice.getBoundingClientRect().top") == 0
    assert "Not for clinical decisions" in page.inner_text(".notice")
    page.focus("#tab-own")
    page.keyboard.press("ArrowRight")
    assert page.is_visible("#contexts") and page.is_hidden("#report")
    reached = set()
    page.evaluate("window.scrollTo(0, 0); document.activeElement.blur()")
    for _ in range(40):
        page.keyboard.press("Tab")
        outline = "e => getComputedStyle(e.closest('.drop') ?? e).outlineStyle"
        reached.add(page.evaluate("document.activeElement.id"))
        if page.evaluate("document.activeElement !== document.body"):
            assert page.evaluate(f"({outline})(document.activeElement)") != "none", page.evaluate(
                "document.activeElement.outerHTML.slice(0, 80)"
            )
    assert {"write", "compare", "example-0", "prior", "with-lateral", "with-prior", "remove-frontal"} <= reached


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [420, 1400])
def test_axe_finds_nothing_serious(page, world: World, width: int, scheme: str) -> None:
    """With a report and the contexts, and with a file that was refused."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed (extra dev)").Axe()
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    page.click("#clinical summary")

    def check(what: str) -> None:
        found = axe.run(page).response["violations"]
        bad = [
            (one["id"], [node["html"][:120] for node in one["nodes"]])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert not bad, f"{what}: {bad}"

    check("empty")
    page.click("#example-2")
    page.wait_for_selector("#shown-lateral img")
    written(page)
    check("report")
    written(page, "#compare", "#contexts .comparison")
    page.fill("#history", "edited")
    check("contexts, out of date")
    page.click("#remove-lateral")
    page.set_input_files("#drop-lateral", {"name": "x.png", "mimeType": "image/png", "buffer": b"none"})
    page.wait_for_selector("#shown-lateral .problem")
    check("refused")


def film(kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(1).integers(0, 255, (90, 80), dtype=np.uint8)).save(buffer, kind)
    return buffer.getvalue()


def test_bad_files_and_texts_get_a_sentence(page, tmp_path: Path) -> None:
    for name, content, sentence in (
        ("empty.png", b"", "the file is empty"),
        ("notes.txt", b"no effusion", "not an image"),
        ("half.png", film("PNG")[:3000], "cannot be decoded|truncated"),
        ("<b>bomb</b>.png", b"\x89PNG\r\n\x1a\n", "not an image|cannot be decoded"),
    ):
        page.set_input_files("#drop-frontal", {"name": name, "mimeType": "application/octet-stream", "buffer": content})
        page.wait_for_function(
            "sentence => document.querySelector('#shown-frontal .problem')?.innerText.match(sentence)", arg=sentence
        )
    give(page, "frontal", write_dicom(tmp_path / "film", np.arange(4096).reshape(64, 64), ViewPosition="AP"))
    for text, sentence in (
        ("effusion " * 12_000, "108,000 characters"),
        ("bell \x07", "control character"),
        ("1. - ", "no words are left"),
    ):
        page.fill("#prior", text)
        page.click("#write")
        page.wait_for_selector(f"#report .problem:has-text('{sentence}')")
        assert text not in page.inner_text("#report")


def test_a_model_of_frontal_views_alone(browser, reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its page neither asks for other sources nor fills them from an example; what holds for every report is said."""
    monkeypatch.setattr(reporter, "contexts", ("sn",))
    monkeypatch.setattr(reporter, "notes", ("it learnt from <nothing>",))
    with serving(reporter) as site:
        opened = browser.new_page()
        opened.goto(site.address)
        for place in ("drop-lateral", "with-lateral", "prior", "with-prior"):
            assert opened.locator(f"#{place}").count() == 0
        opened.click("#example-0")
        opened.wait_for_selector("#shown-frontal img")
        assert written(opened).get_attribute("data-context") == "sn"
        assert "Note: it learnt from <nothing>." in opened.inner_text(".notice")
        opened.close()


@contextmanager
def behind_a_proxy(site: Site, path: str) -> Iterator[str]:
    """The address of a proxy that has the page below a path, with the headers of the documented nginx; one request a
    connection."""
    host, port = site.host.split(":")

    def passed_on(asking: socket.socket) -> None:
        with asking, socket.create_connection((host, int(port))) as asked:
            head = b""
            while b"\r\n\r\n" not in head:
                if not (part := asking.recv(65536)):
                    return
                head += part
            head, rest = head.split(b"\r\n\r\n", 1)
            first, *lines = head.decode().split("\r\n")
            lines = [line for line in lines if not line.lower().startswith("connection")]
            added = ["X-Forwarded-For: 10.1.2.3", "X-Forwarded-Proto: https", "Connection: close"]
            asked.sendall("\r\n".join([first.replace(f" {path}", " /", 1), *lines, *added, "", ""]).encode() + rest)
            length = next((int(line.split()[1]) for line in lines if line.lower().startswith("content-length")), 0)
            left = length - len(rest)
            while left > 0:
                part = asking.recv(65536)
                asked.sendall(part)
                left -= len(part)
            with suppress(OSError):
                while part := asked.recv(65536):
                    asking.sendall(part)

    def accepting() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=passed_on, args=listening.accept()[:1], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accepting, daemon=True).start()
        yield f"http://localhost:{listening.getsockname()[1]}{path}"
        listening.shutdown(socket.SHUT_RDWR)


def test_the_page_below_a_path_of_a_proxy(browser, reporter: Reporter) -> None:
    with (
        serving(reporter, token="secret-of-16-signs", names=["lab.example"]) as site,
        behind_a_proxy(site, "/pacer/") as address,
    ):
        opened = browser.new_page()
        asked: list[str] = []
        opened.on("request", lambda request: asked.append(request.url))
        opened.goto(f"{address}?token=secret-of-16-signs")
        opened.click("#example-0")
        opened.wait_for_selector("#shown-frontal img")
        assert written(opened).get_attribute("data-context") == "mw"
        assert all(url.startswith((address, "data:", "blob:")) for url in asked)
        opened.close()
        assert site.log and all(line.startswith("10.1.2.3 ") for line in site.log if " /" in line)


# ------------------------------------------------------------------------------------------- without a browser


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
    image = film("PNG")
    return json.dumps({"sizes": [len(image)], **fields}).encode() + b"\n" + image


def answered(body: bytes) -> str:
    return json.loads(body.splitlines()[-1])["html"]


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/page.html",
        "/page.py",
        "/page.css/../page.html",
        "/../page.py",
        "/page.%2e%2e%2fpage.py",
        "/docs",
        "/openapi.json",
        "/example/9/frontal",
        "/example/0/prior",
        "/example/-1/frontal",
        "/look/frontal/x",
        "/page.x.css",
        "/page.a%00.css",
        f"/page.{'a' * 300}.css",
        f"/example/{'1' * 5000}/frontal",
    ],
)
def test_nothing_but_the_page_is_answered(site: Site, path: str) -> None:
    assert ask(site, path)[0] in (404, 405)


def test_nothing_is_fetched_nor_run_that_a_request_names(site: Site) -> None:
    for content in (b'{"path": "http://127.0.0.1:1/x.png"}', b"http://127.0.0.1:1/x.png", b"/etc/passwd"):
        status, body = ask(site, "/look/frontal", content)
        assert status == 422 and b"not an image" in body
    for body, sentence in (
        (case(prior=3), "valid string"),
        (case(extra="x"), "Extra inputs"),
        (case(view="LL"), "'PA'"),
        (case()[:-5], "sizes"),
        (b'{"sizes": [-1, 1]}\n', "sizes"),
        (b'{"sizes": [1, 1, 1]}\nabc', "at most 2 items"),
        (b"\xff\n", "the request is not the page"),
        (b"", "the request is not the page"),
    ):
        status, told = ask(site, "/report/own", body)
        assert status == 422 and sentence.encode() in told.replace(b"&#39;", b"'"), told
    assert ask(site, "/report/other", case())[0] == 404
    assert ask(site, "/look/back", b"x")[0] == 404


def test_hosts_and_origins(site: Site) -> None:
    """A name that another leads here is refused, and so is what another page asks."""
    assert ask(site, "/", Host="evil.example")[0] == 421
    assert ask(site, "/", Host=f"localhost:{site.host.rpartition(':')[2]}")[0] == 200
    assert ask(site, "/", Host="[::1]:80")[0] == 200 and ask(site, "/", Host="[")[0] == 421
    for origin in ("http://evil.example", "http://127.0.0.1:1", "null", "", "http://["):
        assert ask(site, "/look/frontal", film("PNG"), Origin=origin)[0] == 403
    with urllib.request.urlopen(site.address) as answer:
        assert "access-control-allow-origin" not in answer.headers
        assert "script-src 'self';" in answer.headers["content-security-policy"]


def test_a_token_for_others(reporter: Reporter) -> None:
    """It is asked for once, and then stands in a cookie; nothing that holds it is logged."""
    with serving(reporter, token="secret-of-16-signs", names=["lab.example"]) as site:
        for path in ("/", "/page.js", "/?token=", "/?token=secret", "/example/0/frontal"):
            assert ask(site, path)[0] == 401
        assert ask(site, "/report/own", case())[0] == 401
        with urllib.request.urlopen(f"{site.address}/?token=secret-of-16-signs") as answer:
            cookie = answer.headers["set-cookie"]
            assert b'content="0;url=./"' in answer.read()
        assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Secure" not in cookie
        given = {"Cookie": cookie.split(";")[0]}
        assert ask(site, "/", **given)[0] == 200 and ask(site, "/", Host="lab.example", **given)[0] == 200
        assert 'data-context="sn"' in answered(ask(site, "/report/own", case(), **given)[1])
        assert ask(site, "/", Cookie=given["Cookie"] + "x")[0] == 401
        assert not any("secret" in told for told in site.log)


def test_bodies_are_counted(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the length that is stated before they come; all together have a bound, and so has one client."""
    assert ask(site, "/look/frontal", b"x", **{"Content-Length": str(guard.MAX_BODY + 1)})[0] == 413
    host, port = site.host.split(":")

    def raw(head: str) -> bytes:
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(f"POST /look/frontal HTTP/1.1\r\nHost: {site.host}\r\n{head}\r\n\r\n".encode())
            return connection.recv(12)

    origin = f"Origin: {site.address}\r\n"
    assert raw(f"{origin}Transfer-Encoding: chunked").endswith(b"411")
    assert raw(f"{origin}Transfer-Encoding: chunked\r\nContent-Length: 5")[9:10] == b"4"
    with ExitStack() as stack:
        for client in range(9):
            waiting = stack.enter_context(socket.create_connection((host, int(port))))
            waiting.sendall(
                f"POST /look/frontal HTTP/1.1\r\nHost: {site.host}\r\n{origin}X-Forwarded-For: 10.0.0.{client}\r\n"
                f"Content-Length: {guard.ALL_BODIES // 9}\r\n\r\n".encode()
            )
        deadline = time.monotonic() + 10
        while (status := ask(site, "/look/frontal", film("PNG"))[0]) != 503 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert status == 503 and ask(site, "/")[0] == 200
    deadline = time.monotonic() + 10
    while ask(site, "/look/frontal", film("PNG"))[0] == 503 and time.monotonic() < deadline:
        time.sleep(0.05)
    monkeypatch.setattr(guard, "MOST_OF_ONE", 0)
    assert ask(site, "/")[0] == 429


def test_who_says_nothing_more_is_left(reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a request's head, and in the middle of its body."""
    monkeypatch.setattr(server, "_REST", 0.3)
    monkeypatch.setattr(guard, "PATIENCE", 0.3)
    with serving(reporter) as site:
        host, port = site.host.split(":")
        for start in (
            b"",
            b"GET / HTTP/1.1\r\nHost",
            f"POST /look/frontal HTTP/1.1\r\nHost: {site.host}\r\nOrigin: {site.address}\r\n".encode()
            + b"Content-Length: 9\r\n\r\nx",
        ):
            with socket.create_connection((host, int(port))) as held:
                held.sendall(start)
                held.settimeout(10)
                told = held.recv(100)
                assert told == b"" or b"408" in told
        assert ask(site, "/")[0] == 200


def test_an_image_that_takes_too_long_or_too_much(
    site: Site, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ends with a sentence, and the next one is opened."""
    monkeypatch.setattr(server, "Decoder", lambda: decoder.Decoder(seconds=0.1))
    buffer = io.BytesIO()
    large = np.zeros((8000, 9000), np.uint16)
    large[0, 0] = 60_000
    Image.fromarray(large).save(buffer, "PNG")
    with serving(reporter) as hurried:
        for _ in range(2):
            status, told = ask(hurried, "/look/frontal", buffer.getvalue())
            assert status == 422 and b"more than 0.1 s" in told
    status, told = ask(site, "/look/frontal", buffer.getvalue())
    assert status == 200 and b"9,000 \xc3\x97 8,000" in told
    assert ask(site, "/look/frontal", film("PNG"))[0] == 200


def test_a_decoder_that_is_lost_is_replaced(site: Site) -> None:
    """Killed while it has nothing to do, as by a system without memory."""
    assert ask(site, "/look/frontal", film("PNG"))[0] == 200
    for child in psutil.Process().children(recursive=True):
        if "spawn_main" in " ".join(child.cmdline()):
            child.kill()
    time.sleep(1)
    for _ in range(3):
        assert ask(site, "/look/frontal", film("PNG"))[0] == 200


def test_a_pool_that_answers_no_more_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed while it writes its answer keeps the lock that the others need."""
    found = decoder.Decoder()
    first = found._pool

    def opened() -> Image.Image:
        with ThreadPoolExecutor(1) as apart:  # the browser's tests leave a loop running in this thread
            return apart.submit(asyncio.run, found(film("PNG"), "a")).result().image

    with monkeypatch.context() as patched:
        patched.setattr(found, "_schedule", lambda content, name: Future())
        patched.setattr(found, "_seconds", 0.1)
        patched.setattr(decoder, "_START", 0.1)
        with pytest.raises(DataError, match=r"takes more than 0\.1 s to decode"):
            opened()
    assert found._pool is not first
    assert opened().width > 0
    found.close()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), SystemExit(1)])
def test_a_log_that_cannot_be_written_stops_nothing(reporter: Reporter, error: BaseException) -> None:
    """Its disk is full, or its reader gone: rich then ends the program."""

    def log(line: str) -> None:
        raise error

    with server.served(reporter, "127.0.0.1", free_port(), log) as address:
        held = Site(address.rstrip("/"), [])
        for _ in range(2):
            assert 'data-context="sn"' in answered(ask(held, "/report/own", case())[1])


def test_who_has_left_does_not_wait_for_a_decoder(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded, begun, going = [], threading.Event(), threading.Event()
    first = decoder.Decoder.__call__

    async def slow(self: decoder.Decoder, content: bytes, name: str) -> object:
        decoded.append(len(content))
        begun.set()
        await asyncio.to_thread(going.wait, 20)
        return await first(self, content, name)

    monkeypatch.setattr(decoder.Decoder, "__call__", slow)
    image = film("PNG")
    head = f"POST /look/frontal HTTP/1.1\r\nHost: {site.host}\r\nOrigin: {site.address}\r\n".encode()
    host, port = site.host.split(":")
    with ExitStack() as stack:
        for _ in range(6):
            left = stack.enter_context(socket.create_connection((host, int(port))))
            left.sendall(head + f"Content-Length: {len(image)}\r\n\r\n".encode() + image)
        assert begun.wait(10)
        time.sleep(0.5)
    time.sleep(0.5)
    going.set()
    assert ask(site, "/look/frontal", image + b"\0")[0] == 200
    assert decoded.count(len(image)) <= 2  # as many as were at the decoders already


def test_a_case_that_waits_for_the_model_holds_no_body(
    site: Site, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    going, generate = threading.Event(), reporter.generate

    def slow(cases: list, batch_size: int) -> list:
        going.wait(20)
        return generate(cases, batch_size)

    monkeypatch.setattr(reporter, "generate", slow)
    body = case()
    monkeypatch.setattr(guard, "MAX_BODY", len(body) + 10)
    head = f"POST /report/own HTTP/1.1\r\nHost: {site.host}\r\nOrigin: {site.address}\r\n".encode()
    host, port = site.host.split(":")
    with socket.create_connection((host, int(port))) as held:
        held.sendall(head + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        told = b""
        while b'"before": 0' not in told:
            told += held.recv(1000)
        assert ask(site, "/look/frontal", film("PNG"))[0] == 200
        going.set()


def test_a_host_that_there_is_not(reporter: Reporter) -> None:
    for host in ("no.such.host.invalid", "a..b", "\udcff"):
        with (
            pytest.raises(ConfigError, match="is no address of this machine"),
            server.served(reporter, host, free_port(), print),
        ):
            pass


def test_a_port_that_is_taken_is_refused(site: Site, reporter: Reporter) -> None:
    port = int(site.address.rpartition(":")[2])
    with (
        pytest.raises(ConfigError, match=f"port {port} of 127.0.0.1 cannot be had; name another"),
        server.served(reporter, "127.0.0.1", port, print),
    ):
        pass


def test_two_hundred_requests_at_once_queue(site: Site, reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gets its answer, the model has one at a time, nothing but counts and timings is logged, and nobody waits
    where the line is full. The clients are twenty; a proxy on this machine may say so."""
    (made,) = reporter.generate([Case(np.eye(60, dtype=np.uint8))])
    busy, most = 0, 0

    def generate(cases: list, batch_size: int) -> list:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        time.sleep(0.01)
        busy -= 1
        return [replace(made, name=cases[0].name)]

    monkeypatch.setattr(reporter, "generate", generate)
    before = len(site.log)

    def one(number: int) -> str:
        return answered(ask(site, "/report/own", case(), **{"X-Forwarded-For": f"10.0.0.{number % 20}"})[1])

    with ThreadPoolExecutor(200) as pool:
        shown = list(pool.map(one, range(200)))
    for answer in shown:
        assert 'data-context="sn"' in answer
    assert most == 1
    deadline = time.monotonic() + 10
    asked: list[str] = []
    while len(asked) < 200 and time.monotonic() < deadline:
        time.sleep(0.02)
        asked = [entry for entry in site.log[before:] if entry.startswith("10.0.0.")]
    told = [entry for entry in site.log[before:] if entry.startswith("reports")]
    assert len(told) >= 200 and len(asked) == 200
    for entry in told:
        assert re.fullmatch(r"reports sn, \d+\.\d\d s", entry)
    for entry in asked:
        assert re.fullmatch(r"10\.0\.0\.\d+ POST /report/own 200 \d+\.\d\d s", entry)
    monkeypatch.setattr(line, "MOST", 0)
    assert "waiting already" in one(0)


def test_who_leaves_gives_up_the_place(site: Site, reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
    going, asked, generate = threading.Event(), [], reporter.generate

    def slow(cases: list, batch_size: int) -> list:
        asked.append(cases)
        going.wait(20)
        return generate(cases, batch_size)

    monkeypatch.setattr(reporter, "generate", slow)
    body = case()
    head = (
        f"POST /report/own HTTP/1.1\r\nHost: {site.host}\r\nOrigin: {site.address}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()
    host, port = site.host.split(":")
    with ExitStack() as stack:
        for before in range(3):  # the first is at the model, two wait
            held = stack.enter_context(socket.create_connection((host, int(port))))
            held.sendall(head + body)
            told = b""
            while f'"before": {before}'.encode() not in told:
                told += held.recv(1000)
        held.close()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with socket.create_connection((host, int(port))) as late:
                late.sendall(head + body)
                told = b""
                while b'"before"' not in told:
                    told += late.recv(1000)
            if b'"before": 2' in told:
                break
        assert b'"before": 2' in told
        going.set()


def test_an_error_that_nobody_foresaw(site: Site, reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line in the log, without what it says: it may quote the case."""
    monkeypatch.setattr(reporter, "prepare", lambda case: 1 / 0)
    before = len(site.log)
    status, told = ask(site, "/report/own", case())
    assert status == 500 and b"its log says where" in told
    deadline = (
        time.monotonic() + 10
    )  # lines are written once answers are given, an earlier request's perhaps among them
    raised: list[str] = []
    while not raised and time.monotonic() < deadline:
        time.sleep(0.02)
        raised = [line for line in site.log[before:] if "ZeroDivisionError" in line]
    assert len(raised) == 1 and re.fullmatch(r"ZeroDivisionError at test_page\.py:\d+", raised[0])


def test_the_command_serves_until_it_is_asked_to_end(exported: Path) -> None:
    with command(exported) as (process, link):
        assert link.startswith("http://127.0.0.1:") and "token" not in link
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=60)[0] == ""
    assert process.returncode == 0


def test_the_command_for_others_over_tls(exported: Path, tmp_path: Path) -> None:
    """The link that is printed lets one in, by a cookie that travels encrypted alone."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    files = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {files[0]} -out {files[1]} -days 1 -subj /CN=lab".split(),
        check=True,
        capture_output=True,
    )
    with command(exported, "--host", "0.0.0.0", "--key", files[0], "--certificate", files[1]) as (_, link):
        address, token = re.fullmatch(r"(https://)0\.0\.0\.0(:\d+/)\?token=([\w-]{32})", link).group(1, 2), link[-32:]
        anyone = ssl._create_unverified_context()
        found = f"{address[0]}127.0.0.1{address[1]}"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(found, context=anyone)
        with urllib.request.urlopen(f"{found}?token={token}", context=anyone) as answer:
            assert "; Secure" in answer.headers["set-cookie"]


@contextmanager
def command(exported: Path, *options: object) -> Iterator[tuple[subprocess.Popen, str]]:
    """`pacer serve` in a process of its own, and the link that it prints."""
    call = [sys.executable, "-c", "from pacer.cli import main; main()", "serve", "--model", exported, "--device", "cpu"]
    process = subprocess.Popen(
        [*map(str, [*call, "--port", free_port(), *options])], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        told = process.stdout.readline()
        assert "research" in told
        yield process, told.split()[3]
    finally:
        process.kill()
        process.communicate()


def test_a_token_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("a-token_of_16-or-more\n")
    assert server.token_for(file) == "a-token_of_16-or-more"
    for content in ("short", "sixteen characters", "<script>alert(1)</script>", ""):
        file.write_text(content)
        with pytest.raises(ConfigError, match="must hold 16 or more"):
            server.token_for(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        server.token_for(tmp_path / "none")


@pytest.mark.parametrize("name", ["pacer.example.org:8443", "https://pacer.example.org", "pacer.example.org/ward", ""])
def test_a_name_is_a_name_alone(name: str) -> None:
    with pytest.raises(ConfigError, match="must be a name alone"):
        serve(Path("none"), name=[name])


def test_a_first_line_that_is_too_long_is_not_read(site: Site) -> None:
    """Each entry of a long list would be judged, for seconds in which nobody is answered."""
    for body in (json.dumps({"sizes": [""] * 400_000}).encode() + b"\n", b" " * 5_000_000):
        status, told = ask(site, "/report/own", body)
        assert status == 422 and b"first line does not end" in told
    status, told = ask(site, "/report/own", json.dumps({"sizes": [""] * 90_000}).encode() + b"\n")
    assert status == 422 and b"the request is not the page" in told


def test_what_a_refused_case_held_is_let_go(site: Site) -> None:
    """Errors keep the frames that they came through, and these the images; a cycle of them waits long."""
    large = np.zeros((5000, 5000), np.uint8)
    large[::2] = 200
    buffer = io.BytesIO()
    Image.fromarray(large).save(buffer, "PNG")
    both = json.dumps({"sizes": [len(buffer.getvalue())] * 2}).encode() + b"\n" + buffer.getvalue() * 2
    process = psutil.Process()
    gc.disable()
    try:
        for number in range(6):
            status, told = ask(site, "/report/own", both)
            assert status == 422 and b"the same image" in told
            if number == 1:
                before = process.memory_info().rss
    finally:
        gc.enable()
    assert process.memory_info().rss < before + 60e6  # the images of a case have 50 MB


def test_who_does_not_read_keeps_nobody_waiting(reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that are not taken fill the connection, and then a place in the line would be kept."""
    monkeypatch.setattr(guard, "PATIENCE", 1.0)
    with serving(reporter) as site, socket.socket() as held:
        host, port = site.host.split(":")
        held.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        held.connect((host, int(port)))
        body = case()
        head = f"Host: {site.host}\r\nOrigin: {site.address}\r\n"
        held.sendall(f"GET /page.js HTTP/1.1\r\n{head}\r\n".encode() * 600)
        held.sendall(f"POST /report/own HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert 'data-context="sn"' in answered(ask(site, "/report/own", body)[1])


def test_what_a_proxy_passes_on_is_no_line_of_the_log(site: Site) -> None:
    before = len(site.log)
    for client in ("a[bold]b", "10.0.0.1 POST /report/own 200 1.00 s", "x" * 3000, "\x9b31m"):
        assert ask(site, "/", **{"X-Forwarded-For": client})[0] == 200
    deadline = time.monotonic() + 10
    told: list[str] = []
    while len(told) < 4 and time.monotonic() < deadline:
        time.sleep(0.02)
        told = [entry for entry in site.log[before:] if "GET" in entry and not entry.startswith("127.0.0.1 ")]
    assert len(told) == 4 and all(re.fullmatch(r"\? GET / 200 \d+\.\d\d s", entry) for entry in told)


def test_connections_of_one_client_are_bounded(reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_CONNECTIONS", 20)
    with serving(reporter) as site, ExitStack() as stack:
        host, port = site.host.split(":")
        for _ in range(60):
            stack.enter_context(socket.create_connection((host, int(port))))
        time.sleep(0.5)
        assert len(site.log) == 0
        stack.close()
        time.sleep(0.5)
        assert ask(site, "/")[0] == 200
