"""The report page of a run, whole and with parts absent; and one study by two systems."""

import hashlib
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

from pacer.core.anchor import POLARITIES
from pacer.core.errors import DataError
from pacer.core.io import read_json, write_json
from pacer.reporting.pages import show_studies
from pacer.reporting.results import read_results
from pacer.reporting.score_tables import corpus_table
from pacer.reporting.sections import build_report
from tests.support.reporting import SENTENCES


class Page(HTMLParser):
    """Checks that tags nest, and collects ids, links, and addresses."""

    VOID = frozenset({"meta", "img", "link", "br", "hr", "input"})

    def __init__(self, out: Path):
        super().__init__()
        self.out, self.html = out, (out / "index.html").read_text(encoding="utf-8")
        self.open: list[str] = []
        self.ids: list[str] = []
        self.anchors: list[str] = []
        self.addresses: list[str] = []
        self.words: list[str] = []
        self.feed(self.html)
        assert self.open == []
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attributes: list) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            if name == "href" and tag == "a":
                self.anchors.append(value)
            if name in ("src", "href", "xlink:href") and not value.startswith("#"):
                self.addresses.append(value)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def table(self, name: str) -> str:
        return (self.out / "tables" / name).read_text(encoding="utf-8")


def page_of(run, out: Path, **changes) -> Page:
    build_report(read_results(**{**run.arguments, **changes}), out)
    return Page(out)


def change_json(path: Path, change: Callable[[dict], None]) -> None:
    content = read_json(path)
    change(content)
    write_json(path, content)


def change_predictions(run, change: Callable[[dict], dict]) -> None:
    for path in (run.root / "predictions").glob("*.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(row | change(row)) + "\n" for row in rows))


@pytest.fixture(scope="module")
def whole(make_run, tmp_path_factory: pytest.TempPathFactory) -> Page:
    folder = tmp_path_factory.mktemp("whole")
    return page_of(make_run(folder / "run"), folder / "reports")


def test_the_whole_page(whole: Page):
    for shown in (
        "0.599",
        "0.750 (8)",
        "stand-in for CheXbert",
        "ce:llm-rg4",
        "Studies in two splits",
        "2: 2 × finding: neither findings nor impression",
        "No report was found in the generated text",
        "Targets labelled by a model sn 10 of 40",
        "lines need attention",
        "One run: profile phantom, seed 43, with calibrate.lambda_cons=0.1, decode.controls=[]. ",
    ):
        assert shown in whole.text, shown
    sections = {"scores", "sources", "findings", "observations", "groups", "cases", "corpus"}
    assert {link.removeprefix("#") for link in whole.anchors} == sections <= set(whole.ids)
    assert len(whole.ids) == len(set(whole.ids))
    assert not (whole.out / "figures").exists()  # the run has no probabilities


def test_the_foot_of_the_page_has_the_hash_of_the_scores(full_run, tmp_path: Path):
    known = hashlib.sha256((full_run.root / "metrics/scores.json").read_bytes()).hexdigest()
    page = page_of(full_run, tmp_path / "reports")
    assert f"SHA-256 of metrics/scores.json: {known[:8]}…" in page.text


def test_the_page_of_an_earlier_version_says_nothing_about_its_parameters(make_run, tmp_path):
    page = page_of(make_run(tmp_path / "run", bare=True), tmp_path / "reports")
    assert "One run: " not in page.text


def test_table_files_say_what_their_numbers_are(whole: Page):
    for table in ("scores", "controls"):
        for kind in ("md", "tex"):
            text = whole.table(f"{table}.{kind}")
            assert "stand-in for CheXbert" in text and "ce:llm-rg4" in text, table
    assert whole.table("scores.tex").startswith("% ce:llm-rg4")
    for table in ("scores", "observations", "groups"):
        assert "No intervals: " in whole.table(f"{table}.md"), table


def test_the_corpus_stands_beside_the_papers_and_its_audit_has_no_report_text(
    full_run, whole: Page
):
    lines = whole.table("corpus.md").splitlines()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("|")
    ]
    assert rows[0] == [
        "Context",
        *("train", "paper", "val", "paper", "test", "paper"),
        "studies",
        "patients",
    ]
    assert rows[2] == ["SN", "28", "172,608", "4", "1,391", "8", "2,357", "40", "20"]
    assert rows[-1] == ["All", "92", "424,411", "14", "3,400", "26", "6,215", "", ""]
    audit = read_json(full_run.root / "corpus" / "audit.json")
    assert "paper" not in corpus_table(audit | {"format": "table"}).columns
    shown = whole.table("audit.md") + whole.table("corpus.md") + json.dumps(audit)
    assert "Studies in two splits" in shown and not [
        text for text in SENTENCES if text[:16] in shown
    ]


def test_the_page_needs_nothing_from_outside(whole: Page):
    addresses = whole.addresses
    assert addresses and all(
        re.match("data:image/(jpeg|png);base64,", address) for address in addresses
    )
    assert "<script" not in whole.html and "@import" not in whole.html
    assert not re.search(r"url\((?!#)", whole.html)


def test_cases_have_their_gate_and_maps_over_every_view(whole: Page):
    for view in ("frontal", "lateral"):
        for depth in (4, 8, 12):
            assert (
                f'aria-label="Weights of encoder block {depth} over the {view} radiograph"'
                in whole.html
            )
    assert 'class="gauge"' in whole.html
    images = whole.html.count('class="tiles"')
    assert (
        len(
            re.findall(r"more than the even share of 0\.33 \(strongest: ±0\.[0-9]{3}\)", whole.text)
        )
        == images
        > 0
    )


def test_the_same_inputs_give_the_same_files(full_run, whole: Page, tmp_path: Path):
    again = page_of(full_run, tmp_path / "reports").out
    files = {
        path.relative_to(again): path.read_bytes() for path in again.rglob("*") if path.is_file()
    }
    assert files == {
        path.relative_to(whole.out): path.read_bytes()
        for path in whole.out.rglob("*")
        if path.is_file()
    }


def test_what_a_run_may_have_besides(full_run, tmp_path: Path):
    """Conventions, scores without a value, and fewer examples."""

    def change(scores: dict) -> None:
        for context in ("sn", "sw", "mn", "mw", "mean"):
            scores[context] |= {"report_positive_f1": 0.123, "report_negative_f1": None}
        scores["sn"]["precision"] = None

    change_json(full_run.root / "metrics" / "scores.json", change)
    manifest = full_run.root / "predictions" / "manifest.json"
    change_json(
        manifest, lambda known: known.update(examples=[known["examples"][0], "of another corpus"])
    )
    page = page_of(full_run, tmp_path / "reports")
    assert "By label convention" in page.text and "0.123" in page.text
    assert "nicolson" in page.table("conventions.md")
    for name in ("scores", "contents"):
        assert "undefined" in page.table(f"{name}.md")
    assert len(re.findall(r"Study 5\d{7}", page.text)) == 1


def test_a_corpus_without_gate_router_or_examples(make_run, tmp_path: Path):
    run = make_run(tmp_path / "run", contexts=("sn", "mn"), bare=True)
    page = page_of(run, tmp_path / "reports")
    assert 'class="gauge"' not in page.html
    assert "stand-in" not in page.text and "The corpus is generated" not in page.text
    assert "SW" not in page.text
    change_json(
        run.root / "predictions" / "manifest.json", lambda manifest: manifest.update(examples=[])
    )
    change_json(
        run.root / "metrics" / "signature.json",
        lambda signature: signature["data"].update(truth="0" * 64),
    )
    page = page_of(run, tmp_path / "reports")
    assert "cases" not in page.ids and "The corpus is generated" in page.text


def test_direct_reports_of_a_model_without_a_router(full_run, tmp_path: Path):
    """Their text is escaped."""
    text = "<script>alert(1)</script> & a right pleural effusion"
    change_predictions(full_run, lambda row: {"report": text, "anchor": None, "fallback": False})
    routed = page_of(full_run, tmp_path / "reports")
    assert "<script>alert(1)</script> & a right" in routed.text and "<script" not in routed.html
    assert "Findings listed first" not in routed.text
    refine = full_run.params.refine.model_copy(update={"variant": "endpoint"})
    page = page_of(
        full_run, tmp_path / "reports", params=full_run.params.model_copy(update={"refine": refine})
    )
    assert (
        "block 12" in routed.text
        and "block 12" not in page.text
        and "image/png" not in "".join(page.addresses)
    )


def test_the_depths_are_those_that_the_run_was_decoded_with(full_run, tmp_path: Path):
    change_json(
        full_run.root / "predictions" / "manifest.json",
        lambda manifest: manifest.update(depths=[2, 5, 7]),
    )
    page = page_of(full_run, tmp_path / "reports")
    assert "block 7" in page.text and "block 12" not in page.text


def test_a_case_has_its_contexts_side_by_side_with_marks(full_run, tmp_path: Path):
    """A chip whose opposite the report states is outlined."""
    study = read_json(full_run.root / "predictions" / "manifest.json")["examples"][0]
    read = {"fallback": False, "anchor": {"positive": [], "negative": ["edema"], "uncertain": []}}
    changes = {f"mw-{study}": read | {"report": "no pneumothorax . edema ."}}
    change_predictions(full_run, lambda row: changes.get(row["record_id"], {}))
    html = page_of(full_run, tmp_path / "reports").html
    assert re.search(r'<mark class="(matching|invented|opposite)" title="edema: positive; ', html)
    assert '<span class="chip negative contradicts" title="the report says the opposite">' in html


def test_the_losses_of_the_phases_are_drawn(full_run, tmp_path: Path):
    """A long curve is drawn by means of neighbours, a phase without curves is left out."""
    folder = full_run.root / "metrics" / "parent" / "plots" / "metrics"
    (folder / "validation").mkdir(parents=True)
    (folder / "loss.tsv").write_text("step\tloss\n" + "".join(f"{n}\t{n}\n" for n in range(1000)))
    (folder / "validation" / "mw.tsv").write_text("step\tmw\n500\t1.5\n1000\t1.2\n")
    results = read_results(**full_run.arguments)
    assert list(results.curves) == ["parent"]
    curves = results.curves["parent"]
    assert curves.validation == {"mw": ([500, 1000], [1.5, 1.2])}
    assert curves.training[0][:2] == curves.training[1][:2] == [2.5, 8.5]
    page = page_of(full_run, tmp_path / "reports")
    assert "validation, MW" in page.text and "warmup" not in page.text
    assert (page.out / "figures" / "training.svg").is_file()


def test_a_case_shows_its_commitment_with_sides(full_run, tmp_path: Path):
    """Nothing else of the page depends on them."""
    pages, described = [], "left pleural effusion"
    for attributes in ({}, {"attributes": [described]}):
        anchor = {
            "positive": ["pleural effusion"],
            "negative": ["edema"],
            "uncertain": [],
            **attributes,
        }
        row = {"fallback": False, "report": "there is edema and an effusion .", "anchor": anchor}
        change_predictions(full_run, lambda _, row=row: row)
        pages.append(page_of(full_run, tmp_path / "reports").html)
    plain, shown = pages
    assert f'<span class="word">{described}</span>' in shown
    assert shown.replace(f">{described}<", ">pleural effusion<") == plain


def another_corpus(root: Path) -> None:
    records = root / "corpus" / "records.parquet"
    table = pl.read_parquet(records)
    table.with_columns(pl.col("record_id") + "-other").write_parquet(records)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (another_corpus, "no prediction matches a record of the corpus"),
        (lambda root: (root / "metrics" / "scores.json").unlink(), r"scores\.json does not exist"),
        (
            lambda root: (root / "metrics" / "cases.parquet").unlink(),
            r"has no cases\.parquet; pass a folder",
        ),
        (
            lambda root: [path.unlink() for path in root.glob("predictions/*.jsonl")],
            "holds no predictions; expected",
        ),
    ],
)
def test_nothing_is_left_when_an_input_is_missing(
    full_run, tmp_path: Path, damage: Callable, message: str
):
    damage(full_run.root)
    with pytest.raises(DataError, match=message):
        build_report(read_results(**full_run.arguments), tmp_path / "reports")
    assert not (tmp_path / "reports").exists()


REFERENCE = {
    "sn": "small left effusion . no pneumothorax .",
    "sw": "a new right picc has been inserted . no pneumothorax .",
}
BY_A = {"sn": "left effusion . no pneumothorax .", "sw": "a new picc . no pneumothorax ."}
BY_B = {
    "sn": "no pneumothorax . the heart is enlarged .",
    "sw": "the heart is enlarged , unchanged .",
}


def scored(folder: Path, texts: dict[str, str], references=REFERENCE, study: str = "s1") -> Path:
    """A folder of scores as far as it is read here."""
    folder.mkdir(parents=True)
    rows = {
        "record_id": [f"{context}-{study}" for context in texts],
        "context": list(texts),
        "study_id": [study] * len(texts),
        "reference": [references[context] for context in texts],
        "hypothesis": list(texts.values()),
        "rougeL": [0.5] * len(texts),
        "meteor_statistics": [[0.0]] * len(texts),
    } | {f"{side}_labels": [[0] * 14] * len(texts) for side in ("reference", "hypothesis")}
    rows |= {
        f"{side}_{name}": [["edema"]] * len(texts)
        for side in ("reference", "report")
        for name in POLARITIES
    }
    pl.DataFrame(rows).write_parquet(folder / "cases.parquet")
    (folder / "signature.json").write_text("{}")
    return folder


@pytest.fixture
def both(tmp_path: Path) -> list[tuple[str, Path]]:
    return [
        ("ours", scored(tmp_path / "a/metrics", BY_A).parent),
        ("theirs", scored(tmp_path / "b", BY_B)),
    ]


def columns(systems, out: Path, study: str = "s1", contexts=("sn", "sw")) -> list[str]:
    """The page's reports as HTML, each with its reference, of both systems in each context."""
    [page] = show_studies(
        [study],
        systems,
        contexts,
        Path("nowhere/records.parquet"),
        Path("nowhere/images.parquet"),
        out,
        force=True,
    )
    return page.read_text().split('<section class="reading">')[1:]


def marks(text: str) -> dict[str, str]:
    return {
        words: classes
        for classes, words in re.findall(r'<mark class="([^"]*)"[^>]*>([^<]*)</mark>', text)
    }


def test_two_scored_runs_need_nothing_else(both, tmp_path: Path) -> None:
    ours, theirs, *later = columns(both, tmp_path)
    assert ">SN ours<" in ours and ">SN theirs<" in theirs and len(later) == 2
    report, reference = ours.split(">Reference<")
    assert marks(report) == {"effusion": "partly", "no pneumothorax": "matching"}
    assert marks(reference) == {"effusion": "partly", "no pneumothorax": "matching"}
    report, reference = theirs.split(">Reference<")
    assert marks(report) == {"no pneumothorax": "matching", "heart is enlarged": "invented"}
    assert marks(reference) == {"effusion": "missed", "no pneumothorax": "matching"}
    assert "No radiograph" in (tmp_path / "study-s1.html").read_text()
    _, again, *_ = columns([both[0], ("again", both[0][1])], tmp_path)
    assert "the same as for SN ours<" in again and set(marks(again).values()) == {
        "partly",
        "matching",
    }
    alone = columns(both[:1], tmp_path)
    assert [re.findall(r'"context">([^<]*)<', one) for one in alone] == [["SN ours"], ["SW ours"]]


@pytest.mark.parametrize(
    ("texts", "references", "message"),
    [
        ({"sn": "x ."}, REFERENCE, r"b has no report for study s1 in context sw \(it has: sn\)"),
        (
            BY_B,
            REFERENCE | {"sw": "other ."},
            "ours and theirs have different references for study s1 in context sw",
        ),
    ],
)
def test_what_cannot_stand_side_by_side_is_refused(
    tmp_path: Path, texts, references, message: str
) -> None:
    systems = [
        ("ours", scored(tmp_path / "a", BY_A)),
        ("theirs", scored(tmp_path / "b", texts, references)),
    ]
    with pytest.raises(DataError, match=message):
        columns(systems, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_several_examinations_of_a_study_are_told_apart(tmp_path: Path) -> None:
    folder = scored(tmp_path / "a", {"sn": "x ."})
    cases = pl.read_parquet(folder / "cases.parquet")
    two = [cases.with_columns(record_id=pl.lit(name)) for name in ("sn-e1", "sn-e2")]
    pl.concat(two).write_parquet(folder / "cases.parquet")
    with pytest.raises(
        DataError, match="several reports for study s1: sn-e1 and sn-e2; pass one of these ids"
    ):
        columns([("a", folder)], tmp_path, contexts=["sn"])
    for study in ("e2", "sn-e2"):
        assert len(columns([("a", folder), ("b", folder)], tmp_path, study, ["sn"])) == 2


@pytest.mark.parametrize("study", ["a/../../x", "/etc/x", "..", "x\0y", "<script>"])
def test_whatever_the_study_is_called_its_page_stays_in_its_folder(
    tmp_path: Path, study: str
) -> None:
    systems = [
        ("<b>", scored(tmp_path / "a", BY_A, study=study)),
        ("&", scored(tmp_path / "b", BY_B, study=study)),
    ]
    before = {*tmp_path.rglob("*")}
    columns(systems, tmp_path / "out", study)
    [folder, page] = sorted({*tmp_path.rglob("*")} - before)
    assert page.parent == folder == tmp_path / "out"
    assert "<b>" not in page.read_text() and "<script" not in page.read_text()
