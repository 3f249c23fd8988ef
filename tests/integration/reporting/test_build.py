"""The report page from a run's outputs, whole and with the parts that may be absent absent."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

from pacer.core.errors import DataError
from pacer.core.io import read_json, write_json
from pacer.reporting.build_report import build_report


class Page(HTMLParser):
    """Checks that tags nest, and collects ids, links, and addresses."""

    VOID = frozenset({"meta", "img", "link", "br", "hr", "input"})

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.anchors: list[str] = []
        self.addresses: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        assert self.open == []

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

    def handle_startendtag(self, tag: str, attributes: list) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def page_of(run, out: Path, **changes) -> Page:
    build_report(**{**run.arguments, **changes}, out=out)
    return Page((out / "index.html").read_text(encoding="utf-8"))


def test_conventions_and_the_signature_stand_beside_the_numbers(full_run, tmp_path: Path):
    path = full_run.root / "metrics" / "scores.json"
    scores = json.loads(path.read_text())
    micro = {f"{name}_micro": 0.25 for name in ("precision", "recall")} | {"f1_micro": None}
    scores["conventions"] = {"top5": {"mean": micro}}
    for context in ("sn", "sw", "mn", "mw", "mean"):
        scores[context] |= {"report_positive_f1": 0.123, "report_negative_f1": None}
    scores["sn"]["precision"] = None
    path.write_text(json.dumps(scores))
    page = page_of(full_run, tmp_path / "reports")
    assert "By label convention" in page.text and "0.123" in page.text and "undefined" in page.text
    for name in ("scores", "conventions", "contents"):
        table = (tmp_path / "reports" / "tables" / f"{name}.md").read_text(encoding="utf-8")
        assert "ce:llm-rg4" in table and "undefined" in table
        assert (tmp_path / "reports" / "tables" / f"{name}.tex").read_text(encoding="utf-8").startswith("% ce:llm-rg4")


def test_the_whole_page(full_run, tmp_path: Path):
    out = tmp_path / "reports"
    page = page_of(full_run, out)
    for shown in (
        "0.599",
        "0.668",
        "Difference",
        "stand-in for CheXbert",
        "ce:llm-rg4",
        "Gate",
        "block 12",
        "Studies in two splits",
        "2: 2 × finding: neither findings nor impression",
        "raw text: no report found",
        "Targets by a labelling model sn 10 of 40",
        "17 of 20 occur word for word in their report",
        "$0.01; 2 lost answers may have been paid too",
    ):
        assert shown in page.text, shown
    assert {"scores", "sources", "cases", "findings", "gates", "corpus", "commitments", "signature"} <= set(page.ids)
    assert {link.removeprefix("#") for link in page.anchors} <= set(page.ids)
    names = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert {
        "tables/scores.md",
        "tables/scores.tex",
        "tables/truth.tex",
        "figures/scores.svg",
        "tables/observations.md",
        "figures/gates.svg",
    } <= names
    for table in ("scores", "truth", "controls"):
        for kind in ("md", "tex"):
            assert "stand-in for CheXbert" in (out / "tables" / f"{table}.{kind}").read_text(encoding="utf-8"), table


def test_the_page_says_how_many_reports_contradict_their_commitment(full_run, tmp_path: Path):
    out = tmp_path / "reports"
    page = page_of(full_run, out)
    cases = pl.read_parquet(full_run.root / "metrics" / "cases.parquet").drop_nulls("contradictions")
    opposite = cases["contradictions"].list.len().sum()
    assert f"{opposite} of {len(cases)} reports" in page.text and "contradict their own commitment" in page.text
    rows = (out / "tables" / "contradictions.md").read_text(encoding="utf-8")
    assert re.search(r"\| edema +\| +\d+ \| +7 \|", rows) and "fracture" not in rows
    assert "agreement with its commitment" in (out / "tables" / "kept.md").read_text(encoding="utf-8")
    assert (out / "figures" / "coverage.svg").is_file()
    path = full_run.root / "metrics" / "scores.json"
    scores = json.loads(path.read_text())
    del scores["contradictions"]  # no report has a commitment
    path.write_text(json.dumps(scores))
    assert "kept" not in page_of(full_run, out).ids


def test_floors_stand_below_the_scores_and_lower_f1_with_more_sources_is_explained(full_run, tmp_path: Path):
    out = tmp_path / "reports"
    assert "below that of a context with fewer sources" not in page_of(full_run, out).text
    rows = (out / "tables" / "scores.md").read_text(encoding="utf-8")
    assert re.search(r"\| One report for all, at best +\|[ |]+ 0\.\d{3} \|", rows) and "Another record's ref" in rows
    path = full_run.root / "metrics" / "scores.json"
    scores = json.loads(path.read_text())
    scores["sw"]["f1"] = 0.5  # 0.599 in sn
    path.write_text(json.dumps(scores))
    assert "F1 in SW is below that of a context with fewer sources" in page_of(full_run, out).text


def test_the_page_says_how_the_router_spread_its_weight(full_run, make_run, tmp_path: Path):
    spread = page_of(full_run, tmp_path / "reports").text
    assert "updates: block 4 0.250, the largest in 20.0 % of patches; block 8 0.700, the largest in 80.0 %" in spread
    assert "chose one block" not in spread
    path = full_run.root / "metrics" / "parent" / "metrics.json"
    shares = {"depth_weight": {"0": 0.02, "1": 0.01, "2": 0.97}, "depth_favourite": {"0": 0.0, "1": 0.01, "2": 0.99}}
    path.write_text(json.dumps(shares))
    alone = page_of(full_run, tmp_path / "reports").text
    assert "The router chose one block, 12, so the maps show little." in alone
    assert "block 12 0.970, the largest in 99.0 % of patches" in alone
    unrouted = page_of(make_run(tmp_path / "other", routed=False), tmp_path / "reports").text
    assert "Mean depth weights" not in unrouted and "chose one block" not in unrouted
    path.write_text(json.dumps({"loss": 1.6}))  # metrics of an earlier version
    assert "Mean depth weights" not in page_of(full_run, tmp_path / "reports").text


def test_the_page_needs_nothing_from_outside(full_run, tmp_path: Path):
    page = page_of(full_run, tmp_path / "reports")
    text = (tmp_path / "reports" / "index.html").read_text(encoding="utf-8")
    assert page.addresses and all(re.match("data:image/(jpeg|png);base64,", address) for address in page.addresses)
    assert "<script" not in text and "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    assert len(page.ids) == len(set(page.ids))


def test_text_is_escaped(full_run, tmp_path: Path):
    path = full_run.root / "predictions" / "sn.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row["report"] = "<script>alert(1)</script> & more"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = page_of(full_run, tmp_path / "reports")
    assert "<script>alert(1)</script> & more" in page.text
    assert "<script" not in (tmp_path / "reports" / "index.html").read_text()


def test_a_real_corpus_without_truth_gate_or_router(make_run, tmp_path: Path):
    run = make_run(tmp_path / "run", contexts=("sn", "mn"), truth=False, gate=False, routed=False, standin=False)
    page = page_of(run, tmp_path / "reports")
    assert "sources" in page.ids  # the controls
    assert "latent state" not in page.text and "Gate " not in page.text.split("Example cases")[-1].split("Findings")[0]
    assert "Read with care" not in page.text and "SW" not in page.text
    left_out = ("tables/truth.md", "figures/gates.svg")
    assert not any((tmp_path / "reports" / name).exists() for name in left_out) and "gates" not in page.ids


def test_direct_reports_have_no_commitment(full_run, tmp_path: Path):
    for path in (full_run.root / "predictions").glob("*.jsonl"):
        rows = [json.loads(line) | {"anchor": None, "fallback": False} for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "none: direct report" in page_of(full_run, tmp_path / "reports").text


@pytest.mark.parametrize("count", [0, 1])
def test_the_examples_that_decoding_marked(full_run, tmp_path: Path, count: int):
    path = full_run.root / "predictions" / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps(manifest | {"examples": [*manifest["examples"][:count], "of another corpus"]}))
    page = page_of(full_run, tmp_path / "reports")
    assert len(re.findall(r"Study 5\d{7}", page.text)) == count
    assert ("cases" in page.ids) == (count > 0)


def test_predictions_of_another_corpus_are_refused(full_run, tmp_path: Path):
    records = full_run.root / "corpus" / "records.parquet"
    audit = read_json(records.with_name("audit.json"))
    table = pl.read_parquet(records)
    table.with_columns(pl.col("record_id") + "-other").write_parquet(records)
    write_json(records.with_name("audit.json"), audit)
    with pytest.raises(DataError, match="no prediction matches a record of the corpus"):
        build_report(**full_run.arguments, out=tmp_path / "reports")


def test_nothing_is_left_when_an_input_is_missing(full_run, tmp_path: Path):
    (full_run.root / "metrics" / "scores.json").unlink()
    with pytest.raises(DataError, match=r"scores\.json does not exist"):
        build_report(**full_run.arguments, out=tmp_path / "reports")
    assert not (tmp_path / "reports").exists()


def test_the_same_inputs_give_the_same_page(full_run, tmp_path: Path):
    page_of(full_run, tmp_path / "first")
    page_of(full_run, tmp_path / "second")
    assert (tmp_path / "first" / "index.html").read_bytes() == (tmp_path / "second" / "index.html").read_bytes()


def test_a_case_has_its_contexts_side_by_side_with_support_and_changes(full_run, tmp_path: Path):
    """Two reports of one study are set; everything else on the page is by chance."""
    study = json.loads((full_run.root / "predictions" / "manifest.json").read_text())["examples"][0]
    texts = {"sn": "no pneumothorax . the heart is enlarged .", "mw": "no pneumothorax . small pleural effusion ."}
    for context, text in texts.items():
        path = full_run.root / "predictions" / f"{context}.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            if row["record_id"] == f"{context}-{study}":
                row |= {
                    "report": text,
                    "fallback": False,
                    "anchor": {"positive": ["edema"], "negative": [], "uncertain": []},
                }
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = page_of(full_run, tmp_path / "reports")
    text = (tmp_path / "reports" / "index.html").read_text(encoding="utf-8")
    assert re.search(
        r'<mark class="(matching|unverified) changed" title="pleural effusion: positive; [^"]*first cont', text
    )
    assert "no previous report was given" in page.text  # the made-up wording of comparison, without a prior
    for view in ("frontal", "lateral"):
        for depth in (4, 8, 12):
            assert f'aria-label="Depth weights of block {depth} over the {view} radiograph"' in text
    images = text.count('class="tiles"')
    assert len(re.findall(r"more than the even share of 0\.33 \(strongest: ±0\.[0-9]{3}\)", text)) == images > 0


def test_tables_with_intervals_say_what_these_are(full_run, tmp_path: Path):
    page_of(full_run, tmp_path / "reports")
    for name in ("scores", "observations", "groups"):
        table = (tmp_path / "reports" / "tables" / f"{name}.md").read_text(encoding="utf-8")
        assert "bootstrap samples of the" in table, name


def test_the_signature_names_parameters_versions_and_hashes(full_run, tmp_path: Path):
    text = page_of(full_run, tmp_path / "reports").text
    for shown in (
        "calibrate.lambda_cons 0.05",
        "data.records 0123456789abcdef",
        "chexbert.pth " + "ab12cd34" * 8,
        "predictions.weights " + "f00d" * 16,
        "predictions.parent.sha256 " + "cafe" * 16,
        "predictions.frozen.vision " + "beef" * 16,
        "versions.pacer 0.1.0",
    ):
        assert shown in text, shown


def test_a_model_without_a_router_has_no_maps(full_run, tmp_path: Path):
    refine = full_run.params.refine.model_copy(update={"variant": "endpoint"})
    page = page_of(full_run, tmp_path / "reports", params=full_run.params.model_copy(update={"refine": refine}))
    assert "block 12" not in page.text and "image/png" not in "".join(page.addresses)
