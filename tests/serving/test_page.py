"""The page in a real browser, and its server under requests that no page makes."""

from __future__ import annotations

import gc
import io
import json
import os
import re
import socket
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pacer.core.errors import ConfigError
from pacer.serving.case import Case
from pacer.serving.reporter import Reporter
from pacer.serving.uploads import environment, upload_folder
from tests.browser import CHROMIUM
from tests.dicom import write_dicom
from tests.serving.world import DATA, World

pytestmark = pytest.mark.slow

pytest.importorskip("gradio", reason="Gradio is not installed (extra app)")


@dataclass
class Site:
    """The page that is being served, what it logged, and where its uploads lie."""

    address: str
    uploads: Path
    log: list[str]

    @cached_property
    def events(self) -> tuple[int, int, list[str | None]]:
        return events(self)


@pytest.fixture(scope="module")
def site(reporter: Reporter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    log: list[str] = []
    with pytest.MonkeyPatch.context() as patch, upload_folder(tmp_path_factory.mktemp("up"), lifetime=3) as uploads:
        for name, value in environment(uploads).items():
            patch.setenv(name, value)
        with _unwarned():
            from pacer.serving.server import served

            serving = served(reporter, "127.0.0.1", _free_port(), log.append)
            address = serving.__enter__()
        yield Site(address.rstrip("/"), uploads, log)
        with _unwarned():
            serving.__exit__(None, None, None)


@contextmanager
def _unwarned() -> Iterator[None]:
    """Gradio leaves event loops unclosed, and uses what pandas will drop: seen here, not in another test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
        gc.collect()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


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
    found.on("console", lambda message: message.type == "error" and problems.append(message.text))
    found.on("pageerror", lambda error: problems.append(str(error)))
    found.on(
        "request",
        lambda request: (
            request.url.startswith((site.address, "data:", "blob:")) or problems.append(f"asked for {request.url}")
        ),
    )
    found.goto(site.address)
    found.wait_for_selector("#write")
    yield found
    found.close()
    assert not problems


def give(page, place: str, path: Path | dict) -> None:
    page.set_input_files(f"#drop-{place} input[type=file]", path)


def written(page, button: str = "#write", shown: str = "#report .result"):
    page.click(button)
    page.wait_for_selector(shown)
    return page.locator(shown)


def plain(text: str) -> str:
    return " ".join(text.split())


def test_the_page_writes_what_the_reporter_writes(page, world: World, reporter: Reporter, tmp_path: Path) -> None:
    """With all sources from files as a person has them, a DICOM film among them, and again without two of them."""
    case = world.case("mw-50000003")
    give(page, "frontal", case.frontal)
    page.wait_for_selector("#shown-frontal img")
    assert "PA" in page.inner_text("#shown-frontal figcaption")
    give(page, "lateral", case.lateral)
    page.wait_for_selector("#shown-lateral img")
    page.fill("#prior textarea", case.prior)
    page.wait_for_selector("#context .badge:text('MW')")
    page.click("#clinical button")
    page.fill("#indication textarea, #indication input", case.indication)
    full = reporter(case.frontal, case.lateral, case.prior, case.indication)
    shown = written(page)
    assert plain(_report(shown)) == plain(full.report)
    assert shown.get_attribute("data-context") == "mw"
    assert shown.locator(".chip").count() == len(full.findings())
    assert f"{full.gate:.2f}" in shown.locator(".gauge").inner_text()
    assert shown.locator(".film").count() == 2
    page.screenshot(path=tmp_path / "report.png", full_page=True)

    page.uncheck("#with-lateral input")
    page.uncheck("#with-prior input")
    page.wait_for_selector("#context .badge:text('SN')")
    page.click("#write")
    page.wait_for_selector("#report .result[data-context=sn]")
    alone = reporter(case.frontal, indication=case.indication)
    assert plain(_report(page.locator("#report .result"))) == plain(alone.report)
    assert page.locator("#report .film").count() == 1

    if not page.is_visible("#sections"):
        page.click("#clinical button")
    page.check("#sections input[value=findings]")
    page.click("#write")
    findings = reporter(case.frontal, indication=case.indication, sections="findings")
    assert findings.generated != alone.generated
    page.wait_for_function(
        """text => document.querySelector("#report").innerText.replace(/\\s+/g, " ").includes(text)""",
        arg=plain(findings.report)[:60],
    )

    page.click("#remove-frontal")
    page.wait_for_selector("#report .empty")
    page.wait_for_selector("#drop-frontal input", state="attached")
    page.click("#write")
    assert "no frontal radiograph yet" in page.locator("#report .problem").inner_text()


def test_the_previous_report_can_be_removed(page) -> None:
    """As the images can: the report that was written with it goes too, and there is nothing left to remove."""
    page.click("#example-2")
    page.wait_for_selector("#context .badge:text('MW')")
    written(page)
    page.click("#remove-prior")
    page.wait_for_selector("#context .badge:text('MN')")
    page.wait_for_selector("#report .empty")
    assert page.input_value("#prior textarea") == ""
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
    page.wait_for_selector("#shown-frontal img")
    assert plain(_report(written(page))) == plain(reporter(path).report)


def _report(shown) -> str:
    return shown.locator(".report").evaluate(
        "report => { const own = report.cloneNode(true); own.querySelectorAll('.spoken').forEach(s => s.remove()); "
        "return own.textContent }"
    )


def test_contexts_side_by_side(page, world: World, reporter: Reporter, tmp_path: Path) -> None:
    case = world.case("mw-50000002")
    give(page, "frontal", case.frontal)
    page.wait_for_selector("#shown-frontal img")
    give(page, "lateral", case.lateral)
    page.wait_for_selector("#shown-lateral img")
    page.fill("#prior textarea", case.prior)
    shown = written(page, "#compare", "#contexts .comparison")
    expected = reporter.in_all_contexts(reporter.prepare(Case(case.frontal, case.lateral, case.prior)))
    assert shown.locator(".card").count() == 4
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
    """An example, its report and the depth slider without a mouse; the notice stays while one scrolls."""
    page.focus("#example-1")
    page.keyboard.press("Enter")
    page.wait_for_selector("#shown-lateral img")
    assert page.input_value("#prior textarea")
    page.focus("#write")
    page.keyboard.press("Enter")
    page.wait_for_selector("#report .result")
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
    reached = set()
    page.evaluate("window.scrollTo(0, 0); document.activeElement.blur()")
    for _ in range(40):
        page.keyboard.press("Tab")
        reached |= set(
            page.evaluate(
                "(() => { const found = []; for (let part = document.activeElement; part; part = "
                "part.parentElement) found.push(part.id); return found })()"
            )
        )
    assert {"write", "compare", "example-0", "prior", "with-lateral", "with-prior", "remove-frontal"} <= reached


def test_a_closed_page_is_forgotten(browser, site: Site) -> None:
    """An open one keeps its image; of a closed one nothing is left in the server's memory."""
    opened = browser.new_page()
    sessions: set[str] = set()
    opened.on(
        "request",
        lambda request: sessions.update(
            re.findall(r'"session_hash":"(\w+)"', request.post_data or "") if request.url.endswith("/predict") else ()
        ),
    )
    opened.goto(site.address)
    opened.click("#example-3")
    opened.wait_for_selector("#shown-lateral img")
    (session,) = sessions
    assert 'data-context="sn"' in write(site, session)
    opened.close()
    deadline = time.monotonic() + 20
    while "no frontal radiograph yet" not in (shown := write(site, session)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert "no frontal radiograph yet" in shown


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
        give(page, "frontal", {"name": name, "mimeType": "application/octet-stream", "buffer": content})
        page.wait_for_function(
            "sentence => document.querySelector('#shown-frontal .problem')?.innerText.match(sentence)", arg=sentence
        )
    give(page, "frontal", write_dicom(tmp_path / "film", np.arange(4096).reshape(64, 64), ViewPosition="AP"))
    page.wait_for_selector("#shown-frontal img")  # the next file is taken
    for text, sentence in (
        ("effusion " * 12_000, "108,000 characters"),
        ("bell \x07", "control character"),
        ("1. - ", "no words are left"),
    ):
        page.fill("#prior textarea", text)
        page.click("#write")
        page.wait_for_selector(f"#report .problem:has-text('{sentence}')")
        assert text not in page.inner_text("#report")


def ask(site: Site, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    request = urllib.request.Request(site.address + path, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def post(site: Site, path: str, **body: object) -> tuple[int, bytes]:
    return ask(site, path, json.dumps(body).encode(), **{"Content-Type": "application/json"})


def events(site: Site) -> tuple[int, int, list[str | None]]:
    """Number of the event of an example, of the one that writes a report, and the names of the latter's inputs."""
    config = json.loads(ask(site, "/config")[1])
    ids = {part["id"]: part["props"].get("elem_id") for part in config["components"]}
    found = list(enumerate(config["dependencies"]))
    example = next(number for number, event in found if ids.get(event["targets"][0][0]) == "example-3")
    writing, inputs = next(
        (number, event["inputs"]) for number, event in found if event["queue"] and event["backend_fn"]
    )
    return example, writing, [ids.get(number) for number in inputs]


def choose(site: Site, session: str) -> None:
    assert post(site, "/gradio_api/run/predict", data=[], fn_index=site.events[0], session_hash=session)[0] == 200


def write(site: Site, session: str) -> str:
    """The HTML that an open page is given for its frontal image alone."""
    _, writing, inputs = site.events
    values = {
        "with-lateral": False,
        "with-prior": False,
        "prior": "",
        "indication": "",
        "history": "",
        "view": "PA",
        "sections": "",
    }
    assert (
        post(
            site,
            "/gradio_api/queue/join",
            data=[values.get(name) for name in inputs],
            fn_index=writing,
            session_hash=session,
        )[0]
        == 200
    )
    with urllib.request.urlopen(f"{site.address}/gradio_api/queue/data?session_hash={session}", timeout=60) as lines:
        for line in lines:
            if b'"process_completed"' in line:
                return json.loads(line.removeprefix(b"data:"))["output"]["data"][0]
    raise AssertionError("no answer")


def upload(site: Site, content: bytes, name: str = "film.png") -> tuple[int, bytes]:
    body = (
        (
            f'--edge\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n'
            "Content-Type: image/png\r\n\r\n"
        ).encode()
        + content
        + b"\r\n--edge--\r\n"
    )
    return ask(site, "/gradio_api/upload", body, **{"Content-Type": "multipart/form-data; boundary=edge"})


@pytest.mark.parametrize(
    "path",
    [
        "/file=/etc/passwd",
        "/gradio_api/file=/etc/passwd",
        "/gradio_api/file//etc/passwd",
        "/static/../../../etc/passwd",
        "/static/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/assets/..%2f..%2fetc/passwd",
        "/svelte/../../etc/passwd",
        "/gradio_api/proxy=https://example.org",
        "/gradio_api/info",
        "/gradio_api/openapi.json",
        "/docs",
        "/openapi.json",
        "/gradio_api/runs",
        "/gradio_api/deep_link?session_hash=x",
        "/gradio_api/call/x/y",
        "/monitoring/summary",
        "/gradio_api/stream/a/b/1/playlist-file",
    ],
)
def test_no_path_of_the_server_can_be_read(site: Site, path: str) -> None:
    status, body = ask(site, path)
    assert status == 404 and b"root" not in body


def test_an_upload_cannot_be_fetched_nor_another_file_named_as_one(site: Site, tmp_path: Path) -> None:
    status, body = upload(site, film("PNG"))
    (path,) = json.loads(body)
    assert status == 200 and Path(path).is_relative_to(site.uploads)
    assert ask(site, f"/gradio_api/file={path}")[0] == 404
    secret = tmp_path / "secret.png"
    secret.write_bytes(film("PNG"))
    config = json.loads(ask(site, "/config")[1])
    taking = next(
        number
        for number, event in enumerate(config["dependencies"])
        if [name for _, name in event["targets"]] == ["upload"]
    )
    for named in (str(secret), "/etc/passwd", "http://127.0.0.1/x.png"):
        status, body = post(
            site,
            "/gradio_api/run/predict",
            fn_index=taking,
            session_hash="s",
            data=[{"path": named, "meta": {"_type": "gradio.FileData"}}],
        )
        assert status >= 400 and b"data:image" not in body


def test_requests_that_are_too_large_are_refused(site: Site) -> None:
    assert post(site, "/gradio_api/queue/join", data=["x" * 3_000_000])[0] == 413


def test_other_host_names_are_refused(site: Site) -> None:
    assert ask(site, "/", Host="evil.example")[0] == 400
    assert b"PACER" in ask(site, "/config")[1]


def test_a_model_of_frontal_views_alone(reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its page neither asks for other sources nor fills them from an example."""
    with _unwarned():
        from pacer.serving.examples import example_cases
        from pacer.serving.page import build_page

        monkeypatch.setattr(reporter, "contexts", ("sn",))
        page = build_page(reporter, example_cases()[:1], print)
    named = {part.elem_id: part for part in page.blocks.values()}
    assert not named["slot-lateral"].visible and not named["with-lateral"].visible and not named["with-prior"].visible
    button = next(key for key, part in page.blocks.items() if part.elem_id == "example-0")
    chosen = next(event.fn for event in page.fns.values() if (button, "click") in event.targets)
    assert chosen is not None
    frontal, _, _, _, lateral, _, _, _, prior, *_ = chosen()
    assert frontal is not None and lateral is None and prior == ""


def test_what_holds_for_every_report_stands_at_the_top(reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
    with _unwarned():
        from pacer.serving.page import build_page

        monkeypatch.setattr(reporter, "notes", ("it learnt from <nothing>",))
        page = build_page(reporter, [], print)
    top = next(part for part in page.blocks.values() if part.elem_id == "top")
    assert "Note: it learnt from &lt;nothing&gt;." in top.value


def test_a_port_that_is_taken_is_refused(site: Site, reporter: Reporter) -> None:
    from pacer.serving.server import served

    port = int(site.address.rpartition(":")[2])
    with (
        _unwarned(),
        pytest.raises(ConfigError, match=f"port {port} of 127.0.0.1 cannot be had; name another"),
        served(reporter, "127.0.0.1", port, print),
    ):
        pass


def test_two_hundred_requests_at_once_queue(site: Site, reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gets its answer, the model has one at a time, and nothing but counts and timings is logged."""
    (made,) = reporter.generate([Case(np.eye(60, dtype=np.uint8))])
    busy, most = 0, 0

    def generate(cases: list, batch_size: int) -> list:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        time.sleep(0.01)
        busy -= 1
        return [made]

    monkeypatch.setattr(reporter, "generate", generate)
    before = len(site.log)

    def one(number: int) -> str:
        choose(site, f"many{number}")
        return write(site, f"many{number}")

    with ThreadPoolExecutor(200) as pool:
        shown = list(pool.map(one, range(200)))
    assert all('data-context="sn"' in answer for answer in shown)
    assert most == 1
    told = site.log[before:]
    assert len(told) == 200 and all(re.fullmatch(r"\d+: sn, \d+\.\d\d s", line) for line in told)


def test_nothing_stays_of_uploads(site: Site) -> None:
    """Neither of finished ones nor of one that breaks off."""
    upload(site, film("PNG"))
    host, port = site.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as broken:
        broken.sendall(
            b"POST /gradio_api/upload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9999\r\nContent-Type: "
            b"multipart/form-data; boundary=edge\r\n\r\n--edge\r\nContent-Disposition: form-data; "
            b'name="files"; filename="a.png"\r\n\r\n' + b"part " * 100
        )
        deadline = time.monotonic() + 20
        while not any(path.is_file() for path in site.uploads.glob("*")) and time.monotonic() < deadline:
            time.sleep(0.02)  # what has come so far lies there
    deadline = time.monotonic() + 20
    while (left := [path for path in site.uploads.rglob("*") if path.is_file()]) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not left
    assert os.stat(site.uploads.parent).st_mode & 0o077 == 0
