"""The page in a browser."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

import pytest

from pacer.serving.case import Case
from pacer.serving.reporter import Reporter
from tests.integration.serving.test_page import Site, free_port, serving, site
from tests.support.browser import CHROMIUM
from tests.support.waiting import PATIENCE
from tests.support.world import ROOT, World

__all__ = ["site"]


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed; `apt-get install chromium`")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed (extra dev)"
    )
    with playwright.sync_playwright() as driver:
        # a container has no user namespaces for the browser's sandbox; it opens this page alone
        found = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield found
        found.close()


@pytest.fixture(scope="module")
def describing_site(describing: Reporter) -> Iterator[Site]:
    with serving(describing) as found:
        yield found


@pytest.fixture
def page(browser, site: Site):
    with opened(browser, site) as found:
        yield found


@pytest.fixture
def describing_page(browser, describing_site: Site):
    """Of a model whose lists have sides."""
    with opened(browser, describing_site) as found:
        yield found


@contextmanager
def opened(browser, site: Site):
    """An open page; nothing in it may log an error or ask any other server for anything."""
    problems: list[str] = []
    found = browser.new_page(viewport={"width": 1400, "height": 900})
    found.set_default_timeout(20_000)
    # the browser writes down each answer that is no success, such as that of a file that is no
    # image
    found.on(
        "console",
        lambda m: m.type == "error" and "status of 422" not in m.text and problems.append(m.text),
    )
    found.on("pageerror", lambda error: problems.append(str(error)))
    here = (site.address, "data:", "blob:")
    found.on(
        "request",
        lambda request: request.url.startswith(here) or problems.append(f"asked for {request.url}"),
    )
    found.goto(site.address)
    yield found
    found.close()
    assert not problems


def give(page, place: str, path: Path | dict) -> None:
    page.set_input_files(f"#drop-{place}", path)
    page.wait_for_selector(f"#shown-{place} img")


def written(page):
    page.click("#write")
    page.wait_for_selector(".outdated ~ .result", state="detached")
    page.wait_for_selector("#report .result")
    page.wait_for_selector("#cancel", state="hidden")
    return page.locator("#report .result")


def plain(text: str) -> str:
    return " ".join(text.split())


def report_of(shown) -> str:
    return plain(
        shown.locator(".text").first.evaluate(
            "report => { const own = report.cloneNode(true); "
            "own.querySelectorAll('.spoken').forEach(s => s.remove()); return own.textContent }"
        )
    )


def fill(page, case: Case) -> None:
    """Give both images and the previous report."""
    give(page, "frontal", case.frontal)
    give(page, "lateral", case.lateral)
    page.fill("#prior", case.prior)


def test_the_page_writes_what_the_reporter_writes(page, world: World, reporter: Reporter) -> None:
    """With all sources from files as a person has them, a DICOM film among them, and again without
    two of them."""
    case = world.case("mw-50000003")
    fill(page, case)
    assert "PA" in page.inner_text("#shown-frontal figcaption")
    page.wait_for_selector("#context:text('frontal view, lateral view, previous report')")
    page.click("#clinical summary")
    page.fill("#indication", case.indication)
    full = reporter(case.frontal, case.lateral, case.prior, case.indication)
    shown = written(page)
    assert report_of(shown) == plain(full.report)
    assert shown.get_attribute("data-context") == "mw"
    assert shown.locator(".chip").count() == len(full.findings())
    assert f"{full.gate:.3f}" in shown.locator(".gauge").inner_text()
    assert shown.locator(".film").count() == 2 and shown.locator(".map").count() == 6
    assert "view other" not in shown.inner_text()

    page.uncheck("#with-lateral")
    page.uncheck("#with-prior")
    page.wait_for_selector("#context:text-is('Will be written from: frontal view')")
    assert "Out of date" in page.inner_text("#report .outdated")
    shown = written(page)
    assert page.locator("#report .outdated").count() == 0
    alone = reporter(case.frontal, indication=case.indication)
    assert report_of(shown) == plain(alone.report)
    assert page.locator("#report .film").count() == 1

    page.click("#remove-frontal")
    assert "Out of date" in page.inner_text("#report .outdated")
    page.click("#write")
    page.wait_for_selector("#report .problem:has-text('no frontal radiograph yet')")


def test_an_edit_ends_what_was_asked_for(
    page, world: World, reporter: Reporter, monkeypatch
) -> None:
    """No report may stand beside a case that it was not written for; and while one is awaited, none
    can be asked for. A request can be taken back as well."""
    going, generate = threading.Event(), reporter.generate

    def slow(*arguments: object, **named: object) -> list:
        going.wait(PATIENCE)
        return generate(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(reporter, "generate", slow)
    fill(page, world.case("mw-50000002"))
    page.click("#write")
    page.wait_for_selector("#state:text('Writing')")
    assert page.is_disabled("#write")
    page.fill("#prior", "another patient's")
    page.wait_for_selector("#state:has-text('was cancelled')")
    assert page.is_enabled("#write") and page.is_hidden("#cancel")
    page.click("#write")
    page.wait_for_selector("#state:text('Writing')")
    page.click("#cancel")
    page.wait_for_selector("#state:text('Cancelled')")
    going.set()
    page.wait_for_timeout(500)
    assert page.locator("#report .result").count() == 0
    monkeypatch.undo()
    assert written(page).get_attribute("data-context") == "mw"


def test_a_list_that_is_changed_rewrites_the_report(
    describing_page, describing: Reporter, world: World
) -> None:
    """In the words of `pacer generate --commitment`; a list that cannot be read stays to be
    corrected, and an empty one gives the model's own."""
    page, case = describing_page, world.case("sn-50000003")
    give(page, "frontal", case.frontal)
    before = report_of(written(page))
    own = describing(case.frontal)
    page.click("details:has(#list) summary")
    assert "changed by you" not in page.inner_text("#report")
    for finding in own.findings():
        assert finding in page.input_value("#commitment")
    page.fill("#commitment", "positive: bad air")
    page.click("#list button")
    page.wait_for_selector("#list .problem:has-text('is not a finding; choose from')")
    assert page.input_value("#commitment") == "positive: bad air"
    given = "positive: bilateral pleural effusion; negative: edema"
    page.fill("#commitment", given)
    page.click("#list button")
    page.wait_for_selector("details[open] summary:has-text('changed by you')")
    page.wait_for_selector(".chip:has-text('bilateral pleural effusion')")
    saved = json.loads(unquote(str(page.get_attribute("a.save", "href")).partition(",")[2]))
    expected = describing(case.frontal, commitment=given)
    assert report_of(page.locator("#report .result")) == plain(expected.report) != before
    assert saved["commitment_given"] and saved["commitment"] == expected.as_dict()["commitment"]
    for finding in expected.mismatches():
        assert f"{finding}: " in page.inner_text("#report .notes")
    page.fill("#commitment", "")
    page.click("#list button")
    page.wait_for_selector("summary:has-text('changed by you')", state="detached")
    assert report_of(page.locator("#report .result")) == before


def test_the_command_serves_until_it_is_asked_to_end(exported: Path) -> None:
    program = "from pacer.cli import main; main()"
    call = [sys.executable, "-c", program, "serve", "--model", exported, "--port", free_port()]
    process = subprocess.Popen(list(map(str, call)), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        told = process.stdout.readline()
        assert "PACER is running at http://127.0.0.1:" in told and "research" in told
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=60)[0] == ""
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("opened_page", ["page", "describing_page"])
@pytest.mark.parametrize(("width", "scheme"), [(420, "dark"), (1400, "light")])
def test_axe_finds_nothing_serious(
    request, opened_page: str, world: World, width: int, scheme: str
) -> None:
    """With a report, current and out of date, and with a file that was refused."""
    page = request.getfixturevalue(opened_page)
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is not installed (extra dev)"
    ).Axe()
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    page.click("#clinical summary")

    def check(what: str) -> None:
        found = [
            one
            for one in axe.run(page).response["violations"]
            if one["impact"] in ("serious", "critical")
        ]
        assert not found, (
            what,
            [(one["id"], [node["html"][:120] for node in one["nodes"]]) for one in found],
        )

    check("empty")
    fill(page, world.case("mw-50000003"))
    written(page)
    check("report")
    page.click("details:has(#list) summary")
    page.fill("#commitment", "positive: pleural effusion")
    page.click("#list button")
    page.wait_for_selector(".chip:has-text('pleural effusion')")
    page.wait_for_selector("#cancel", state="hidden")
    check("list")
    page.fill("#history", "edited")
    check("report, out of date")
    assert page.evaluate("document.documentElement.scrollWidth") <= width, (
        "the page is wider than the window"
    )
    page.click("#remove-lateral")
    page.set_input_files(
        "#drop-lateral", {"name": "x.png", "mimeType": "image/png", "buffer": b"none"}
    )
    page.wait_for_selector("#shown-lateral .problem")
    check("refused")
