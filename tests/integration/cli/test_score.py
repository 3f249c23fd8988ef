"""The commands that README.md states: two CSV files scored without a model, a trained model on a
hospital's table."""

import csv
import io
import json
import re
import runpy
import shlex
import shutil
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import polars as pl
import pytest
from typer.core import TyperGroup
from typer.main import get_command

from pacer.cli.command import app
from pacer.core.errors import ConfigError, DataError
from pacer.core.findings import FINDINGS
from pacer.core.io import parse_yaml, read_json, read_jsonl
from pacer.metrics.meteor import MeteorError
from pacer.statistics.calls import score
from pacer.statistics.system import Scores
from tests.support.cli import REPOSITORY, Outcome
from tests.support.profiles import yaml_of
from tests.support.world import World, rehashed

pytestmark = pytest.mark.usefixtures("quick_meteor")

REFERENCES = [
    "No effusion or pneumothorax.",
    "Small left effusion.",
    "Mild edema. No effusion.",
    "Normal heart.",
]
REPORTS = [
    "No effusion.",
    "Small left pleural effusion.",
    "No edema. No effusion.",
    "Heart is normal.",
]


#: The files that README.md scores.
FILES = ("docs/examples/references.csv", "docs/examples/pacer.csv")


def stated() -> list[str]:
    """Arguments of README.md's `pacer score` of PACER's reports, into the folder `scores`."""
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8").replace("\\\n", " ")
    command = re.search(
        rf"^pacer (score --references .* +--hypotheses {FILES[1]} --out) \S+$", text, re.MULTILINE
    )
    assert command is not None
    return [*shlex.split(command[1]), "scores"]


@pytest.fixture
def files(repository: Path) -> Path:
    (repository / FILES[0]).parent.mkdir(parents=True, exist_ok=True)
    for name, texts in zip(FILES, (REFERENCES, REPORTS), strict=True):
        pl.DataFrame({"id": ["a", "b", "c", "d"], "report": texts}).write_csv(repository / name)
    return repository


def test_two_files_are_scored_without_a_labeller(
    pacer: Callable[..., Outcome], files: Path
) -> None:
    outcome = pacer(*stated())
    assert outcome.code == 0, outcome.error
    assert all(
        head in outcome.out
        for head in ("BLEU-4", "METEOR", "Positive F1", "Negative F1", "--chexbert")
    )
    scores, signature = read_json("scores/scores.json")["all"], read_json("scores/signature.json")
    assert scores["n"] == 4 and 0 < scores["bleu1"] < 1
    # effusion is affirmed in one pair; edema in a reference alone
    assert scores["report_positive_f1"] == pytest.approx(2 / 3)
    assert not {"precision", "recall", "f1"} & scores.keys() and signature["clinical"] is None
    cases = pl.read_parquet("scores/cases.parquet")
    assert cases["reference_labels"].null_count() == cases["hypothesis_labels"].null_count() == 4


def test_files_are_scored_outside_the_repository(
    pacer: Callable[..., Outcome], files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in FILES:
        (tmp_path / "elsewhere" / name).parent.mkdir(parents=True, exist_ok=True)
        (files / name).rename(tmp_path / "elsewhere" / name)
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert pacer(*stated()).code == 0 and read_json("scores/signature.json")["clinical"] is None
    numbers = read_json("scores/scores.json")
    text = yaml_of("phantom").replace("convention: llm-rg4", "convention: unknown")
    Path("params.yaml").write_text(text, encoding="utf-8")
    assert pacer(*stated(), "--force").code == 0
    assert read_json("scores/scores.json") == numbers


def test_one_file_holds_both_texts(pacer: Callable[..., Outcome], files: Path) -> None:
    both = pl.DataFrame({"truth": REFERENCES, "out": REPORTS, "context": "chest, two views"})
    both.write_csv("both.csv", separator=";")
    sides = ["--references", "both.csv", "--hypotheses", "both.csv"]
    command = ["score", *sides, "--out", "one", "--without", "meteor"]
    columns = ["--reference-text", "truth", "--hypothesis-text", "out"]
    assert "set the delimiter to semicolon" in pacer(*command, *columns).error
    outcome = pacer(*command, *columns, "--delimiter", "semicolon")
    assert outcome.code == 0, outcome.error
    assert "the column `context` of the references has none of the values" in outcome.out
    assert pacer(*stated(), "--without", "meteor").code == 0
    assert read_json("one/scores.json") == read_json("scores/scores.json")


def test_f1_by_group_needs_a_labeller(
    pacer: Callable[..., Outcome], files: Path, chexbert_directory: Callable[..., Path]
) -> None:
    columns = {
        "record_id": ["a", "b", "c", "d"],
        "sex": ["F", "F", "M", "M"],
        "site": ["x", "x", "x", "y"],
    }
    pl.DataFrame(columns | {"words": [1, 2, None, None]}).write_csv("columns.csv")
    with pytest.raises(ConfigError, match=r"reference labels .* need a labeller"):
        score(*FILES, labels="labels.parquet")
    without = pacer(*stated(), "--columns", "columns.csv")
    assert (
        without.code == 0
        and "sex, site not used as groups: F1 by group needs a labeller; pass its folder"
        in without.out
    )
    labelled = pacer(
        *stated(),
        "--force",
        "--columns",
        "columns.csv",
        "--chexbert",
        str(chexbert_directory()),
        "--clean",
        "decimals",
    )
    assert labelled.code == 0, labelled.error
    assert all(
        shown in labelled.out
        for shown in (
            "nicolson",
            "ce:llm-rg4",
            "clean-hypotheses:decimals | clean-references:decimals",
        )
    )
    assert ["ALL", "1.500", "(2)"] in [line.split() for line in labelled.out.splitlines()], (
        "the mean over two records"
    )
    shown = labelled.out.partition("F1 by sex, site; other scores are not grouped")[2]
    assert re.findall(r"^(?:sex|site) +(\w) +(\d)", shown, re.MULTILINE) == [
        ("F", "2"),
        ("M", "2"),
        ("x", "3"),
        ("y", "1"),
    ]
    assert "\nno change in CE F1, Positive F1," in pacer("compare", "scores", "scores").out


def test_runs_without_labels_are_compared_without_f1(
    pacer: Callable[..., Outcome], files: Path
) -> None:
    assert pacer(*stated()).code == 0
    pl.read_csv(FILES[0]).with_columns(report=pl.lit("No edema.")).write_csv("others.csv")
    second = ["others.csv" if word == FILES[1] else word for word in stated()]
    assert pacer(*[*second[:-1], "others"]).code == 0
    outcome = pacer("compare", "scores", "others")
    assert outcome.code == 0, outcome.error
    assert (
        "ROUGE-L" in outcome.out
        and "no CheXbert F1" in outcome.out
        and "llm-rg4" not in outcome.out
    )
    assert (
        " scores " in outcome.out.splitlines()[0]
        and "others − scores" in outcome.out.splitlines()[0]
    )
    few = "no intervals and no p values: 4 records are too few; at least 10 are needed"
    assert few in outcome.out.replace("\n", " ")
    assert re.search(r"ROUGE-L .* – +–$", outcome.out, re.MULTILINE)
    assert "4 records; 10,000 random splits of 4 records into halves" in outcome.out
    without = pacer("compare", "scores", "others", "--max-loss", "rougeL=0.1")
    assert without.code == 1 and without.out == outcome.out  # after the table
    assert "needs 10 records that count in both runs (here 4)" in without.error
    signature = Path("others/signature.json")
    signature.write_text(signature.read_text().replace('"numpy": "', '"numpy": "0.'))
    told = pacer("compare", "scores", "others").out.replace("\n", " ")
    assert re.search(
        r"scored differently: numpy \S+ and 0\.\S+; score both alike, because this can be part",
        told,
    )
    signature.write_text(
        signature.read_text().replace(
            '"clean_hypotheses": "none"', '"clean_hypotheses": "upstream"'
        )
    )
    told = pacer("compare", "scores", "others").out.replace("\n", " ")
    assert "; clean_hypotheses none and upstream; score both alike" in told
    Path("others/scores.json").write_bytes(Path("scores/scores.json").read_bytes())
    assert "come from different runs" in pacer("compare", "scores", "others").error


def test_the_file_for_continuous_integration_fails_on_a_loss(
    pacer: Callable[..., Outcome], repository: Path
) -> None:
    """The file in docs/evaluation.md, with reports that are worse, and with the released ones."""
    page = (REPOSITORY / "docs" / "evaluation.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```yaml\n(reports:.*?)```", page, re.DOTALL)
    lines = parse_yaml(block)["reports"]["script"]
    assert len(block.splitlines()) == 5
    texts = [f"Small left effusion number {number} is seen." for number in range(20)]
    for name, reports in (("references", texts), ("released", texts), ("new", ["No edema."] * 20)):
        pl.DataFrame({"id": range(20), "report": reports}).write_csv(f"{name}.csv")
    outcomes = [pacer(*shlex.split(line)[1:]) for line in lines]
    assert [outcome.code for outcome in outcomes] == [0, 0, 3]
    assert [line.split(":")[0] for line in outcomes[-1].error.splitlines()] == [
        "new loses more than 0.02 in report_positive_f1 against released",
        "new loses more than 0.01 in bleu4 against released",
    ]
    shutil.copy("released.csv", "new.csv")
    shutil.rmtree("new")
    assert [pacer(*shlex.split(line)[1:]).code for line in lines] == [0, 0, 0]


def test_several_systems_are_compared_in_one_table(
    pacer: Callable[..., Outcome], repository: Path
) -> None:
    texts = [f"Small left effusion number {number} is seen." for number in range(12)]
    pl.DataFrame({"id": range(12), "report": texts}).write_csv("references.csv")
    for name, reports in (
        ("same", texts),
        ("a=b", ["No edema."] * 12),
        ("other", texts[:6] + ["Edema."] * 6),
    ):
        pl.DataFrame({"id": range(12), "report": reports}).write_csv("reports.csv")
        scored = score("references.csv", "reports.csv", out=f"runs/{name}")
        assert scored.scores["all"]["n"] == 12
    command = ("compare", "runs/same", "runs/a=b", "half=runs/other")
    outcome = pacer(*command, "--out", "compared")
    table, _, notes = outcome.out.partition("\n\n")
    assert (
        outcome.code == 0
        and "no CheXbert F1" not in notes
        and "differences from same (Holm)" in notes
    )
    head = re.sub(" +", " ", table.splitlines()[0])
    assert head == "Score System same Value Change 95% interval p (Holm)"
    assert max(map(len, table.splitlines())) <= 80
    named = [line.split()[1] for line in table.splitlines() if line.startswith("ROUGE-L")]
    assert named == ["a=b", "half"]
    told = json.loads(pacer(*command, "--json").out)
    assert told == read_json("compared/comparison.json") and list(told["others"]) == named
    assert set(told["others"]["half"]["scores"]["all"]) == {row["score"] for row in told["tested"]}
    assert (
        "| ROUGE-L" in Path("compared/table.md").read_text()
        and Path("compared/table.tex").is_file()
    )
    written = pl.read_csv("compared/systems.csv")
    assert written["system"].to_list() == ["same", *named] and "context" not in written.columns
    scored = [read_json(f"runs/{name}/scores.json")["all"]["rougeL"] for name in ("same", "a=b")]
    assert written["rougeL"].to_list()[:2] == pytest.approx(scored)
    pairs = pl.read_csv("compared/pairs.csv").filter(score="rougeL")
    assert pairs.select("first", "second").rows() == [
        ("same", "a=b"),
        ("same", "half"),
        ("a=b", "half"),
    ]
    assert "comparison.json exists" in pacer(*command, "--out", "compared").error
    two = ("compare", "runs/same", "half=runs/other", "--out", "compared")
    assert pacer(*two, "--force").out.split()[:3] == ["Score", "same", "half"]
    loss = pacer(*command, "--max-loss", "rougeL=0.6")
    assert loss.code == 3 and loss.error.startswith(
        "a=b loses more than 0.6 in rougeL against same: −"
    )
    assert loss.error.count("\n") == 1
    doubtful = pacer("compare", "runs/same", "half=runs/other", "--max-loss", "rougeL=0.4")
    assert doubtful.code == 0 and doubtful.error.endswith(
        "), which may be chance, so the check passes\n"
    )
    for wrong, reason in (
        ("nope=0.1", "nope .*; choose from report_positive_f1, "),
        ("bleu4", "such as f1=0.02"),
        ("bleu4=inf", "expected SCORE=LOSS with a finite loss from 0 on"),
    ):
        refused = pacer(*command, "--max-loss", wrong)
        assert refused.code == 1 and re.search(reason, refused.error)
    twice = pacer("compare", "nowhere", "none", *("--max-loss", "bleu4=0.1") * 2)  # before work
    assert twice.code == 1 and "bleu4 is given twice" in twice.error
    assert "two systems have the name x" in pacer("compare", "x=runs/same", "x=runs/other").error
    assert "at least two folders" in pacer("compare", "runs/same").error


def test_reports_are_labelled(pacer: Callable[..., Outcome], files: Path) -> None:
    texts = ["Possible edema, no effusion.", "Stable small left effusion.", "Hello."]
    pl.DataFrame({"key": [*"abc"], "report": texts}).write_csv("mine.csv")
    outcome = pacer("label", "mine.csv", "--id", "key", "--out", "labels.csv")
    assert outcome.code == 0 and outcome.error.endswith("3 reports; 1 of them mention no finding\n")
    table = pl.read_csv("labels.csv", infer_schema=False)
    assert table.columns == ["id", *FINDINGS]
    assert table.select("id", "edema", "pleural effusion").rows() == [
        ("a", "-1", "0"),
        ("b", None, "1"),
        ("c", None, None),
    ]
    command = ("label", "mine.csv", "--id", "key", "--json")
    more = ("--attributes", "--more-findings", "builtin")
    [_, small, _] = map(json.loads, pacer(*command, *more).out.splitlines())
    described = [small[f"pleural effusion {kind}"] for kind in ("side", "severity", "course")]
    assert (described, small["hernia"]) == (["left", "mild", "stable"], None)
    assert "labels.csv exists" in pacer("label", "mine.csv", "--out", "labels.csv").error
    changed = pacer("label", "mine.csv", "--id", "key", "--out", "labels.csv", "--force", *more)
    assert changed.code == 0 and "edema course" in pl.read_csv("labels.csv").columns
    assert "omit --mentions" in pacer("label", "mine.csv", "--attributes", "--mentions").error
    assert "ends in .csv, .json" in pacer("label", "mine.csv", "--out", "labels.xlsx").error


def test_mentions_of_findings_are_listed(pacer: Callable[..., Outcome], files: Path) -> None:
    texts = dict(zip("abcd", REFERENCES, strict=True))
    outcome = pacer("label", FILES[0], "--mentions")
    rows = pl.read_csv(outcome.out.encode()).to_dicts()
    assert (
        outcome.code == 0 and outcome.error == f"{len(rows)} mentions; 0 of 4 reports have none\n"
    )
    assert all(texts[row["id"]][row["start"] : row["end"]] == row["words"] for row in rows)
    assert [(row["finding"], row["polarity"], row["cue"]) for row in rows if row["id"] == "a"] == [
        ("pleural effusion", "negative", "No"),
        ("pneumothorax", "negative", "No"),
    ]
    assert pacer("label", FILES[0], "--mentions", "--out", "found.jsonl").code == 0
    as_json = pacer("label", FILES[0], "--mentions", "--json").out
    assert (
        Path("found.jsonl").read_text() == as_json
        and [*map(json.loads, as_json.splitlines())] == rows
    )
    pl.DataFrame({"id": ["a", "a"], "report": ["Edema.", ""], "text": ["", "Clear."]}).write_csv(
        "two.csv"
    )
    for options, reason in (
        ((), "choose one with report_text (--report-text)"),
        (("--report-text", "text"), "with --id"),
    ):
        assert reason in pacer("label", "two.csv", *options).error
    pl.DataFrame({"report": ["Nothing.", ""]}).write_csv("one.csv")
    assert pacer("label", "one.csv", "--mentions").error == "0 mentions; 2 of 2 reports have none\n"


def test_reports_with_residue_are_not_labelled(pacer: Callable[..., Outcome], files: Path) -> None:
    pl.DataFrame(
        {
            "id": ["a", "b"],
            "report": ["<think>Edema?</think>No effusion.", "user\nzephyrine\nmodel\n"],
        }
    ).write_csv("two.csv")
    refused = pacer("label", "two.csv")
    assert refused.code == 1 and "(`user`) in 1 (b): decode only" in refused.error
    accepted = pacer("label", "two.csv", "--as-is")
    assert "warning: 1 of 2 reports contain more than a report" in accepted.error
    [first, _] = csv.DictReader(io.StringIO(accepted.out))
    assert (first["pleural effusion"], first["edema"]) == ("0", "")
    assert "zephyrine" not in refused.error + accepted.error


def test_a_folder_of_texts_is_scored(pacer: Callable[..., Outcome], files: Path) -> None:
    Path("texts").mkdir()
    for name, text in (("a", "Edema."), ("b", "No effusion.")):
        Path("texts", f"{name}.txt").write_text(text)
    command = ["score", "--references", "texts", "--hypotheses", "texts", "--without", "meteor"]
    assert pacer(*command, "--out", "scored").code == 0
    signature = json.loads(Path("scored", "signature.json").read_text())
    assert signature["data"]["references"] == signature["data"]["hypotheses"]
    Path("texts", "b.txt").write_text("No effusions.")
    assert pacer(*command, "--out", "again").code == 0
    other = json.loads(Path("again", "signature.json").read_text())
    assert other["data"]["references"] != signature["data"]["references"]


def test_further_findings_are_labelled(pacer: Callable[..., Outcome], files: Path) -> None:
    pl.DataFrame({"id": ["a", "b"], "report": ["No hernia.", "Herz normal."]}).write_csv("two.csv")
    found = pacer("label", "two.csv", "--mentions", "--more-findings", "builtin")
    assert found.out == "id,finding,polarity,start,end,words,cue\na,hernia,negative,3,9,hernia,No\n"
    Path("mine.tsv").write_text("hernia\tbulge\t\tA hernia.\n")
    table = pl.read_csv(pacer("label", "two.csv", "--more-findings", "mine.tsv").out.encode())
    assert table.columns == ["id", *FINDINGS, "bulge"] and table["bulge"].to_list() == [0, None]
    Path("mine.tsv").write_text("hernia\tedema\t\tA hernia.\n")
    refused = pacer("label", "two.csv", "--more-findings", "mine.tsv")
    assert refused.code == 1 and "mine.tsv, line 1: edema is one of the 13" in refused.error


def test_reports_in_another_language_are_named(pacer: Callable[..., Outcome], files: Path) -> None:
    texts = ["No edema.", "Kein Erguss.", "nan", "LUNGS CLEAR.", "Lunge frei."]
    pl.DataFrame({"id": [*"abcde"], "report": texts}).write_csv("mixed.csv")
    named = pacer("label", "mixed.csv").error
    assert named.startswith(
        "warning: reports without any frequent English word: 2 (b, e); the rules read no other "
        "language\n"
    )
    assert "Erguss" not in named


def test_a_metric_of_this_folder(
    pacer: Callable[..., Outcome], files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("mine_here.py").write_text(
        "def longer(references, reports):\n"
        "    return [len(b) - len(a) for a, b in zip(references, reports)]\n"
    )
    scored = pacer(*stated(), "--metric", "mine_here:longer")
    assert scored.code == 0 and "mine_here:longer" in scored.out, scored.error


def test_a_case_of_two_files_is_shown(pacer: Callable[..., Outcome], files: Path) -> None:
    assert pacer(*stated()).code == 0
    assert pacer("show", "c", "scores").out == "written to shown/study-c.html\n"
    page = Path("shown/study-c.html").read_text()
    assert ">scores<" in page and re.search(
        r'<mark class="[^"]*opposite[^"]*"[^>]*>No edema<', page
    )
    refused = pacer("show", "z", "scores")
    assert refused.error == (
        "error: scores has no report for study z; pass the id of a study or record in its cases, "
        "such as a\n"
    )
    again = ("show", "A=scores", "--study", "a", "--study", "c")
    assert pacer(*again).code == 1 and not Path("shown/study-a.html").exists()
    several = pacer(*again, "--force")
    assert several.out == "written to shown/study-a.html\nwritten to shown/study-c.html\n"
    assert ">A<" in Path("shown/study-a.html").read_text()
    for wrong in (("c",), ("scores", "scores")):
        assert "at least one folder" in pacer("show", *wrong).error


def test_texts_are_shown_as_they_were_written(pacer: Callable[..., Outcome], files: Path) -> None:
    written = "FINDINGS:\nNo Effusion.\n\nMild edema."
    for name, texts in zip(FILES, (["No effusion.", written], ["", written.lower()]), strict=True):
        pl.DataFrame({"id": ["a", "b"], "report": texts}).write_csv(name)
    assert pacer(*stated(), "--clean", "decimals", "--missing", "empty").code == 0
    assert pacer("show", "scores", "--study", "a", "--study", "b").code == 0
    empty, page = (Path(f"shown/study-{name}.html").read_text() for name in "ab")
    assert empty.count("The report is empty.") == 1 and "is empty" not in page
    texts = [
        re.sub("<[^>]*>", "", one) for one in re.findall(r'<p class="text">(.*?)</p>', page, re.S)
    ]
    assert texts == [written.lower(), written]  # a report is above its reference
    cases = pl.read_parquet("scores/cases.parquet")
    assert cases["hypothesis_raw"].to_list() == [None, written.lower()]


def rows_of(text: str) -> list[list[str]]:
    """The cells of a printed table, without its head and its notes."""
    return [re.split(r" {2,}| (?=\d)", line.strip()) for line in text.splitlines()[1:]]


def test_findings_are_counted_listed_and_ranked(pacer: Callable[..., Outcome], files: Path) -> None:
    assert pacer(*stated()).code == 0
    pl.DataFrame({"id": ["a", "b", "c", "d"], "report": REFERENCES}).write_csv("same.csv")
    other = [
        argument.replace(FILES[1], "same.csv").replace("scores", "same") for argument in stated()
    ]
    assert pacer(*other).code == 0
    counted = {row[0]: row[1:] for row in rows_of(pacer("findings", "scores").out)}
    # affirmed in references and in reports; hit, missed, invented; partly, opposite; denied in
    # references, in reports and in both
    assert counted["edema"] == ["1", "0", "0", "1", "0", "0", "1", "0", "1", "0"]
    assert counted["pleural effusion"] == ["1", "1", "1", "0", "0", "0", "0", "2", "2", "2"]
    assert counted["all findings"][2:] == ["1", "1", "0", "0", "1", "4", "4", "3"]
    both = json.loads(pacer("findings", "scores", "B=same", "--json").out)
    edema = [(row["system"], row["hit"]) for row in both if row["finding"] == "edema"]
    assert edema == [("scores", 0), ("B", 1)]
    listed = pacer("findings", "scores", "--verdict", "opposite", "--finding", "Edema").out
    said = "c edema opposite positive, mild: edema negative: edema"
    assert [" ".join(line.split()) for line in listed.splitlines()[1:]] == [said]
    [worst] = json.loads(pacer("findings", "scores", "--worst", "5", "--json").out)
    assert (worst["record_id"], worst["opposite"], worst["missed"]) == ("c", 1, 0)
    assert pacer("findings", "scores", "B=same", "--worst", "1").code == 0
    refused = pacer("findings", "scores", "--finding", "nodules")
    assert refused.code == 1 and "--finding nodules: expected one of atelectasis" in refused.error
    refused = pacer("findings", "scores", "--verdict", "wrong")
    assert refused.code == 1 and "--verdict wrong: expected one of correct, partly" in refused.error
    assert pacer("findings", "scores", "--verdict", "opposite", "--verdict", "missed").out == (
        pacer("findings", "scores", "--verdict", "opposite").out
    )
    for chosen in (
        ("--verdict", "invented"),
        ("--wrong", "side"),
        ("--verdict", "correct", "--worst", "3"),
    ):
        assert pacer("findings", "scores", *chosen).out == "none\n"
        assert json.loads(pacer("findings", "scores", *chosen, "--json").out) == []
    assert "pass the folder that it is in" in pacer("findings", "scores/findings.parquet").error


def test_lists_of_findings_are_written(pacer: Callable[..., Outcome], files: Path) -> None:
    assert pacer(*stated()).code == 0
    command = ("findings", "scores", "--verdict", "opposite")
    assert pacer(*command, "--out", "wrong.csv").out == "1 rows written to wrong.csv\n"
    [row] = pl.read_csv("wrong.csv").to_dicts()
    said = {"record_id": "c", "finding": "edema", "reference_severity": "mild"}
    assert said.items() <= row.items() and row["report_words"] == "edema"
    assert pacer(*command, "--out", "wrong.jsonl").code == 0
    [row] = read_jsonl(Path("wrong.jsonl"))
    assert row["reference_places"] == [{"start": 5, "end": 10, "words": "edema"}]
    assert "wrong.csv exists" in pacer(*command, "--out", "wrong.csv").error
    assert pacer("findings", "scores", "--out", "wrong.csv", "--force").code == 0
    assert "hit" in pl.read_csv("wrong.csv").columns


def test_further_findings_are_counted_but_not_scored(
    pacer: Callable[..., Outcome], files: Path
) -> None:
    references = ["Hiatal hernia. Edema.", "No hernia.", "Possible scoliosis.", "Clear."]
    reports = ["Hernia. Edema.", "Hernia.", "Clear.", "Scoliosis."]
    for name, texts in zip(FILES, (references, reports), strict=True):
        pl.DataFrame({"id": [*"abcd"], "report": texts}).write_csv(name)
    assert pacer(*stated()).code == 0
    plain = (read_json("scores/scores.json"), pl.read_parquet("scores/findings.parquet"))
    shutil.copytree("scores", "plain")
    counts = pacer("findings", "scores").out
    with_more = pacer("findings", "scores", "--more-findings", "builtin").out
    assert "hernia" not in counts and "others need --more-findings" in (
        pacer("findings", "scores", "--finding", "hernia").error
    )
    assert pacer(*stated(), "--more-findings", "builtin", "--force").code == 0
    assert read_json("scores/scores.json") == plain[0]
    ledger = pl.read_parquet("scores/findings.parquet")
    assert ledger.filter(pl.col("finding").is_in(FINDINGS)).equals(plain[1])
    rows = ledger.filter(~pl.col("finding").is_in(FINDINGS))
    assert rows.select("record_id", "finding", "verdict").rows() == [
        ("a", "hernia", "correct"),
        ("b", "hernia", "opposite"),
        ("c", "scoliosis", "missed"),
        ("d", "scoliosis", "invented"),
    ]
    cases = pl.read_parquet("scores/cases.parquet")
    assert cases["report_more_positive"].to_list() == [["hernia"], ["hernia"], [], ["scoliosis"]]
    assert cases["reference_more_uncertain"].to_list() == [[], [], ["scoliosis"], []]
    assert read_json("scores/signature.json")["data"]["more_findings"]
    # the table is the same for reports that were scored without further findings
    assert pacer("findings", "scores").out == with_more
    with_other = pacer("findings", "scores", "plain")
    assert "choose them with --more-findings" in with_other.out and "hernia" not in with_other.out
    assert "hernia" in pacer("findings", "scores", "plain", "--more-findings", "builtin").out
    counted = {row[0]: row[1:6] for row in rows_of(with_more)}
    assert (counted["hernia"], counted["all findings"]) == (
        ["1", "2", "1", "0", "1"],
        ["1", "1", "1", "0", "0"],
    )
    hernia = pacer("findings", "scores", "--finding", "Hernia", "--verdict", "opposite").out
    assert len(rows_of(hernia)) == 1
    Path("mine.tsv").write_text("hernia\tedema\t\tA hernia.\n")
    refused = pacer(*stated(), "--more-findings", "mine.tsv", "--force")
    assert refused.code == 1 and "mine.tsv, line 1: edema is one of the 13" in refused.error


def test_systems_of_other_records_are_noted(pacer: Callable[..., Outcome], files: Path) -> None:
    assert pacer(*stated()).code == 0
    for file in FILES:
        lines = Path(file).read_text().splitlines()
        Path(f"{file}.few.csv").write_text("\n".join(lines[:-1]) + "\n")
    names = {**{file: f"{file}.few.csv" for file in FILES}, "scores": "few"}
    assert pacer(*(names.get(argument, argument) for argument in stated())).code == 0
    note = "the systems have different records: scores 4, few 3, and 3 in all of them"
    assert note in " ".join(pacer("findings", "scores", "few").out.split())
    assert "different records" not in pacer("findings", "scores", "B=scores").out


def test_scoring_notes_blank_patient_ids_and_a_score_that_is_left_out(
    pacer: Callable[..., Outcome], files: Path
) -> None:
    pl.DataFrame(
        {"id": ["a", "b"], "subject_id": ["p", " "], "report": ["no effusion .", "edema ."]}
    ).write_csv("r.csv")
    arguments = ("--references", "r.csv", "--hypotheses", "r.csv", "--out", "s")
    printed = " ".join(pacer("score", *arguments, "--without", "meteor").out.split())
    assert "1 of 2 records have no patient id and count as patients of their own" in printed
    assert "bleu:corpus | mean:contexts" in printed


def test_without_meteor_everything_else_is_written(
    pacer: Callable[..., Outcome], files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pacer(*stated()).code == 0
    whole = read_json("scores/scores.json")["all"]

    def fails() -> None:
        raise MeteorError("no Java")

    monkeypatch.setattr("pacer.metrics.table.meteor_run", lambda *_: nullcontext(fails))
    for further, reason in (
        ((), "no Java"),
        (("--without", "meteor", "--without", "bleu4"), "excluded on request"),
    ):
        outcome = pacer(*stated(), *further, "--force")
        assert outcome.code == 0 and (f"meteor is left out: {reason}" in outcome.out) == (
            further == ()
        )
        result = Scores.read("scores")
        scores, signature = result.scores, result.signature
        left_out = {"meteor", *further[3:]}
        assert scores["all"] == {key: value for key, value in whole.items() if key not in left_out}
        assert set(signature.left_out) == left_out and signature.left_out["meteor"] == reason
        compared = pacer("compare", "scores", "scores").out
        assert (
            "ROUGE-L" in compared
            and "METEOR" not in compared
            and ("BLEU-4" in compared) != ("bleu4" in left_out)
        )
    assert "expected one of" in pacer(*stated(), "--without", "meteo", "--force").error


def test_scores_are_replaced_by_force_alone(pacer: Callable[..., Outcome], files: Path) -> None:
    assert pacer(*stated()).code == 0
    other = [argument.replace(FILES[1], "other.csv") for argument in stated()]
    pl.DataFrame({"id": ["a", "b", "c", "d"], "report": REFERENCES}).write_csv("other.csv")
    refused = pacer(*other)
    assert refused.code == 1 and refused.error == pacer(*stated()).error
    assert refused.error == (
        "error: scores contains the scores of pacer.csv; choose a different folder (--out), or "
        "overwrite them with force=True (--force)\n"
    )
    with pytest.raises(ConfigError, match="scores contains the scores of"):
        score(FILES[0], "other.csv", out="scores")
    assert (
        pacer(*other, "--force").code == 0 and read_json("scores/scores.json")["all"]["bleu1"] > 0.9
    )


def test_identical_reports_are_said(pacer: Callable[..., Outcome], files: Path) -> None:
    many = {
        "id": list(map(str, range(20))),
        "report": [f"effusion of {number} cm ." for number in range(20)],
    }
    pl.DataFrame(many).write_csv(FILES[0])
    pl.DataFrame(many | {"report": ["no edema ."] * 20}).write_csv(FILES[1])
    assert (
        "Many reports are identical: ALL 100% (references 5%)." in pacer(*stated(), "--force").out
    )


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("score --references r", "Missing option '--hypotheses'"),
        ("score --references r --hypotheses h --predictions p", "No such option: --predictions"),
        ("score-run --records r", "Missing option '--predictions'"),
        ("score-run --predictions p --missing empty", "No such option: --missing"),
        ("score --references r --hypotheses h --clean no", "Invalid value for '--clean'"),
    ],
)
def test_files_and_runs_have_commands_of_their_own(
    pacer: Callable[..., Outcome], command: str, problem: str
) -> None:
    refused = pacer(*command.split(), "--out", "scores")
    assert refused.code == 2 and problem in refused.error


@pytest.mark.parametrize("name", ["score", "score-run"])
def test_a_command_that_scores_has_at_most_seventeen_options(name: str) -> None:
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    assert len(group.commands[name].params) <= 17


def test_parameters_of_a_run_that_do_not_exist_are_named(
    pacer: Callable[..., Outcome], repository: Path
) -> None:
    (repository / "predictions").mkdir()
    run = ("score-run", "--records", "params.yaml", "--predictions", "predictions", "--out", "out")
    refused = pacer(*run, "--params", "mine.yaml")
    assert refused.code == 1 and "mine.yaml does not exist" in refused.error


def test_a_column_of_ids_is_used_in_each_file_that_has_it(
    pacer: Callable[..., Outcome], repository: Path
) -> None:
    """The references have a column of other ids, which would be used first without the option."""
    studies = ["5", "6", "7"]
    texts = ["No effusion.", "Mild edema.", "Clear lungs."]
    references = {"record_id": ["sn-1", "sn-2", "sn-3"], "study_id": studies, "report": texts}
    pl.DataFrame(references).write_csv("references.csv")
    Path("by_id.json").write_text(json.dumps(dict(zip(studies, texts, strict=True))))
    pl.DataFrame({"id": [1, 2, 3], "study_id": studies, "report": texts}).write_csv("both.csv")
    command = ("score", "--references", "references.csv", "--out", "scores", "--force")
    for name in ("by_id.json", "both.csv"):
        assert pacer(*command, "--hypotheses", name).code == 1
        outcome = pacer(*command, "--hypotheses", name, "--id", "study_id")
        assert outcome.code == 0, outcome.error
        assert read_json("scores/scores.json")["all"]["bleu1"] > 0.99
    refused = pacer(*command, "--hypotheses", "by_id.json", "--id", "uid")
    assert refused.error == (
        "error: no column is named uid: references.csv has the columns record_id, study_id, "
        "report, and by_id.json has id, text; choose one of them with `--id`\n"
    )


#: subject, study and day of each row, and the study of the world whose frontal image it shows.
STUDIES = (
    ("a", "1", "2024-01-01", 0),
    ("a", "2", "2024-03-01", 2),
    ("b", "3", "2024-02-01", 3),
    ("c", "4", "", 4),
)


def three_commands() -> list[list[str]]:
    """The commands between the markers in docs/serving.md, as lists of arguments."""
    text = (REPOSITORY / "docs" / "serving.md").read_text(encoding="utf-8")
    block = re.search(r"<!-- evaluate-commands -->\n```bash\n(.*?)```", text, re.DOTALL)
    assert block is not None
    lines = block[1].replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines]


@pytest.fixture
def table(repository: Path, world: World) -> Path:
    """Four studies in a table of frontal views without splits, and a profile that names it."""
    (repository / "own").mkdir()
    with open(repository / "own" / "studies.csv", "w", newline="") as file:
        written = csv.writer(file)
        written.writerow(("subject", "study", "date", "view", "image", "findings"))
        for subject, study, day, number in STUDIES:
            (image,) = (world.root / "files" / f"p1/p{10_000_000 + number}").glob("*/frontal.*")
            path = image.relative_to(world.root / "files")
            written.writerow(
                (subject, study, day, "PA", path, f"Heart is normal. No effusion {study}.")
            )
    named = (
        f"source: files, format: table, root: own, images: {world.root / 'files'}, split: "
        "{val: 0.0, test: 1.0}"
    )
    corpus = f"{{{named}, table: {{file: studies.csv, columns: {{}}}}}}"
    (repository / "other.yaml").write_text(f"extends: micro\ncorpus: {corpus}\n")
    return repository


@pytest.fixture
def ready(table: Path, exported: Path, chexbert_directory: Callable[..., Path]) -> Path:
    """The same beside an exported model and a labeller; the frozen models lie nowhere but in the
    export."""
    shutil.copytree(exported, table / "models" / "mine")
    shutil.copytree(chexbert_directory(), table / "models" / "backbones" / "chexbert")
    return table


@pytest.fixture
def audited(pacer, ready: Path) -> Path:
    """The same after the first of the three commands."""
    assert pacer(*three_commands()[0]).code == 0
    return ready


def test_three_commands_evaluate_a_model_on_a_table_that_is_only_for_testing(
    pacer, ready: Path, world: World
):
    outcomes = [pacer(*command) for command in three_commands()]
    assert [outcome.code for outcome in outcomes] == [0, 0, 0], [
        outcome.error for outcome in outcomes
    ]
    records = pl.read_parquet("other/corpus/records.parquet")
    assert set(records["split"]) == {"test"}
    scores, signature = (
        read_json("other/metrics/scores.json"),
        read_json("other/metrics/signature.json"),
    )
    assert {name: scores[name]["n"] for name in ("sn", "sw")} == {"sn": 4, "sw": 1}
    assert not {"mn", "mw"} & scores.keys() and "Mean" in outcomes[2].out
    made = signature["predictions"]
    assert made["split"] == "all" and made["settings"]["num_beams"] == world.decode.num_beams
    assert (
        made["settings"]["max_new_tokens"] == world.decode.max_new_tokens
    )  # the export's, not those of params.yaml
    assert read_json("other/predictions.features/manifest.json")["encoding"]["depths"] == [1, 2, 3]
    # the reports are those of `pacer generate`, which knows nothing of records
    (image,) = (world.root / "files" / "p1" / "p10000003").glob("*/frontal.*")
    Path("cases.csv").write_text(f"frontal,view,sections\n{image},PA,findings\n")
    assert (
        pacer(
            "generate", "--model", "models/mine", "--cases", "cases.csv", "--out", "reports.jsonl"
        ).code
        == 0
    )
    line = next(
        line for line in read_jsonl("other/predictions/sn.jsonl") if line["record_id"] == "sn-3"
    )
    assert read_jsonl("reports.jsonl")[0]["generated"] == line["generated"]


def test_contexts_can_be_decoded_and_scored_alone(pacer, audited: Path):
    _, decode, score = three_commands()
    refused = pacer(*decode, "--context", "mw")
    assert refused.code == 1 and "has no records for context mw in split all" in refused.error
    assert (
        pacer(*decode, "--context", "other").error
        == "error: --context other: expected one of sn, sw, mn, mw\n"
    )
    assert pacer(*decode, "--context", "sn").code == 0
    assert sorted(path.name for path in Path("other/predictions").glob("*.jsonl")) == ["sn.jsonl"]
    outcome = pacer(*score)
    assert outcome.code == 0 and "4 of 5 records of split all: contexts sn" in outcome.out


def test_a_context_that_an_exported_model_does_not_know_is_named(
    pacer, audited: Path, world: World
):
    decode = three_commands()[1]
    settings = read_json("models/mine/reporter.json")
    model = Path("models/mine")
    rewritten = json.dumps(
        settings | {"contexts": ["sn", "mn"], "texts": settings["texts"] | {"cleaner": "iu_xray"}}
    )
    (model / "reporter.json").write_text(rewritten)
    rehashed(model)
    refused = pacer(*decode)
    assert refused.code == 1
    assert (
        "has records for sw, but the model was trained only on sn, mn; select from these with"
        in refused.error
    )
    made = pacer(*decode, "--context", "sn", "--limit", "1")
    assert made.code == 0
    assert (
        "was built with corpus.cleaner: upstream, but the model's training reports were prepared "
        "with iu_xray" in made.out
    )


def test_the_pipeline_itself_refuses_such_a_table_before_it_computes_features(pacer, table: Path):
    assert pacer("use", "other.yaml").code == 0
    source, main = (
        runpy.run_path(str(REPOSITORY / "stages" / f"{name}.py"))["main"]
        for name in ("source", "corpus")
    )
    source()
    with pytest.raises(
        DataError,
        match="split train, which the phases train on, has no records for context sn; fix",
    ):
        main()
    assert read_json("data/corpus/audit.json")["records"] == 5  # which `pacer decode` may use
