"""`pacer audit` and `pacer show` as a user types them, and how paths that do not exist are
refused."""

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from PIL import Image

from tests.support.cases import listed_cases
from tests.support.cli import REPOSITORY
from tests.support.corpus import record
from tests.support.reporting import Run, make_run

SECRET = "zephyrine opacity in the left lung base ."


@pytest.fixture
def corpus(repository: Path) -> dict[str, list[dict]]:
    """Six examinations of a frontal view in MIMIC-RG4's layout, and ``mine.yaml`` that names
    them."""
    folder = repository / "mine"
    folder.mkdir()
    Image.new("L", (16, 16)).save(folder / "f.png")
    rows = {
        split: [
            record("sn", 0, 0)
            | {
                "id": f"{split}{n}",
                "study_id": f"{split}{n}",
                "subject_id": f"{split}{n}",
                "indication": 0,
            }
            | {"finding": f"{SECRET} {n}{split}", "impression": "s", "APPA_imagepath": "f.png"}
            for n in range(2)
        ]
        for split in ("train", "val", "test")
    }
    write(folder, rows)
    named = "{source: files, root: mine, annotations: {sn: sn.json}, contexts: [sn]}"
    (repository / "mine.yaml").write_text(f"extends: phantom\ncorpus: {named}\n")
    return rows


def write(folder: Path, rows: dict[str, list[dict]]) -> None:
    (folder / "sn.json").write_text(json.dumps(rows))


def test_a_sound_corpus(pacer, corpus):
    outcome = pacer("audit", "--params", "mine.yaml", "--out", "read")
    assert outcome.code == 0, outcome.error
    words = " ".join(outcome.out.split())
    assert "Context train paper val paper test paper studies patients" in words
    assert "SN 2 172,608 2 1,391 2 2,357 6 6" in words
    assert "ok Rows read 6: 6 used" in words and "ok Bad rows or records none" in words
    assert words.endswith(
        "written to read; read/problems.csv lists what was rejected or left out, and what to check "
        "(6 lines)"
    )
    assert {path.name for path in Path("read").iterdir()} == {
        "records.parquet",
        "images.parquet",
        "priors.parquet",
        "problems.csv",
        "audit.json",
    }
    assert "zephyrine" not in outcome.out + outcome.error


def test_polars_lines_of_the_audit_run_as_they_are_printed(pacer, corpus, repository: Path):
    folder = repository / "mine"
    rows = [f'p{n},s{n},f.png,"Heart {n} &lt; 5 cm.\nSigned by: A. Roe, MD"' for n in range(9)]
    (folder / "t.csv").write_text("\n".join(["subject,study,frontal,findings", *rows]) + "\n")
    named = "{source: files, format: table, root: mine, contexts: [sn], table: {file: t.csv}}"
    (repository / "mine.yaml").write_text(f"extends: phantom\ncorpus: {named}\n")
    outcome = pacer("audit", "--params", "mine.yaml")
    assert outcome.code == 0, outcome.error
    assert "lines of polars below" in " ".join(outcome.out.split())
    lines = [line for line in outcome.out.splitlines() if line.startswith("import")]
    assert len(lines) == 2
    for line, residue in zip(sorted(lines), ("&lt;", "Signed by"), strict=True):
        exec(line, {})
        mended = pl.read_parquet(folder / "t.mended.parquet")
        assert mended.height == 9 and not mended["findings"].str.contains(residue).any()


def test_targets_that_the_token_limit_cuts_are_counted_once_the_language_model_is_here(
    pacer, corpus, backbones: Path, repository: Path
):
    words = " ".join(pacer("audit", "--params", "mine.yaml").out.split())
    assert (
        "check Training targets over 100 tokens unknown until you run `dvc repro backbones`"
        in words
    )
    corpus["train"][0]["finding"] = "The heart is enlarged. " * 40
    write(repository / "mine", corpus)
    language = repository / "models" / "backbones" / "language"
    shutil.copytree(backbones / "language", language)
    (language / "provenance.json").write_text('{"provider": "bundled"}')
    words = " ".join(pacer("audit", "--params", "mine.yaml").out.split())
    assert (
        "check Training targets over 100 tokens 1 of 2 (50.0%): truncated, without an end token"
        in words
    )


def test_a_control_that_would_fail_after_training_is_named(pacer, corpus, repository: Path):
    words = " ".join(pacer("audit", "--params", "mine.yaml").out.split())
    assert "ok Control another_patient possible in all contexts" in words
    del corpus["test"][1]
    write(repository / "mine", corpus)
    words = " ".join(pacer("audit", "--params", "mine.yaml").out.split())
    assert "check Control another_patient context sn: one patient has 1 of 1 records" in words
    assert "set decode: {controls: [no_lateral, no_prior]}" in words


def test_the_phantom_is_generated_first(pacer):
    refused = pacer("audit")
    assert refused.code == 1 and "run `dvc repro source` first" in refused.error


def test_what_deserves_a_check_is_marked_and_without_out_nothing_is_written(
    pacer, corpus, repository: Path
):
    corpus["train"].clear()
    corpus["val"][0]["[red]colour[/nonsense]"] = "grey"  # names of fields are no markup
    write(Path("mine"), corpus)
    before = sorted(repository.rglob("*"))
    outcome = pacer("audit", "--params", "mine.yaml")
    assert outcome.code == 0, outcome.error
    words = " ".join(outcome.out.split())
    assert "check Fields that are not used sn: 1 × [red]colour[/nonsense]" in words
    assert (
        "Context val paper test paper" in words and "train" not in words.lower()
    )  # it is only evaluated
    assert sorted(repository.rglob("*")) == before


def test_a_refused_corpus_leaves_the_table_of_problems_here(pacer, corpus):
    for row in corpus["train"]:
        row["APPA_imagepath"] = "absent.png"
    write(Path("mine"), corpus)
    outcome = pacer("audit", "--params", "mine.yaml")
    assert outcome.code == 1 and outcome.out == ""
    assert (
        "all are listed in audit.problems.csv" in outcome.error and "Traceback" not in outcome.error
    )
    with open("audit.problems.csv", newline="") as file:
        problems = list(csv.DictReader(file))
    assert [(row["kind"], row["row"], row["id"]) for row in problems] == [
        ("bad", "train[0]", "train0"),
        ("bad", "train[1]", "train1"),
    ]
    assert "zephyrine" not in outcome.error + Path("audit.problems.csv").read_text()
    for row in corpus["train"]:
        row["APPA_imagepath"] = "f.png"
    write(Path("mine"), corpus)
    assert pacer("audit", "--params", "mine.yaml").code == 0
    assert not Path("audit.problems.csv").exists()  # nothing is wrong any more


def test_a_refused_corpus_leaves_the_earlier_one_and_says_so(pacer, corpus, repository: Path):
    assert pacer("audit", "--params", "mine.yaml", "--out", "read").code == 0
    before = (repository / "read" / "records.parquet").read_bytes()
    corpus["train"][0]["APPA_imagepath"] = "gone.png"
    write(repository / "mine", corpus)
    outcome = pacer("audit", "--params", "mine.yaml", "--out", "read")
    assert outcome.code == 1 and "read still contains the earlier corpus" in outcome.error
    assert (repository / "read" / "records.parquet").read_bytes() == before
    assert "read.problems.csv" in outcome.error and (repository / "read.problems.csv").exists()
    assert (
        not (repository / "audit.problems.csv").exists()
        and not (repository / "read.scratch").exists()
    )


__all__ = ["make_run"]


@pytest.fixture
def run(repository: Path, make_run, capsys: pytest.CaptureFixture) -> Run:
    """A run where a user has it: below `data/`, `predictions/` and `metrics/`."""
    made = make_run(repository / "made")
    for name, folder in (("data", ""), ("predictions", "predictions"), ("metrics", "metrics")):
        (repository / name).symlink_to(made.root / folder)
    capsys.readouterr()
    return made


def test_a_study_by_two_runs_beside_radiograph_and_previous_report(pacer, run: Run) -> None:
    cases = pl.read_parquet("metrics/cases.parquet")
    study = cases.filter(context="mw")["study_id"][0]
    Path("theirs").mkdir()
    cases.with_columns(hypothesis=pl.lit("small effusion .")).write_parquet("theirs/cases.parquet")
    shutil.copy("metrics/signature.json", "theirs")
    command = ("show", study, "PACER=metrics", "theirs")
    outcome = pacer(*command, "--context", "sn", "--context", "mw")
    assert outcome.code == 0, outcome.error
    assert outcome.out == f"written to shown/study-{study}.html\n"
    page = Path(f"shown/study-{study}.html")
    titles = [f">{context} {name}<" for context in ("SN", "MW") for name in ("PACER", "theirs")]
    for shown in (*titles, "Previous report", "in italics"):
        assert shown in page.read_text(), shown
    prior = pl.read_parquet("data/corpus/records.parquet").filter(record_id=f"mw-{study}")[
        "prior_report"
    ][0]
    assert page.read_text().count('src="data:image/jpeg') == 2 and prior in page.read_text()
    columns = [
        re.sub("<[^>]*>", "", text)
        for text in page.read_text().split('<section class="reading">')[1:]
    ]
    for place, context in enumerate(("sn", "mw")):
        row = cases.filter(context=context, study_id=study)
        own, theirs = columns[2 * place : 2 * place + 2]
        assert row["hypothesis"][0] in own and row["reference"][0] in own
        assert "small effusion ." in theirs
    Path("data/corpus/images.parquet").unlink()
    assert "exists; choose" in pacer(*command).error
    assert pacer(*command, "--force").code == 0
    assert "No radiograph" in page.read_text() and ">SW PACER<" in page.read_text()


COMMANDS = [case.values[0] for case in listed_cases(__file__, "commands")]
RUN_ALL = """
import sys
from pacer.cli import main
for command in sys.argv[1:]:
    sys.argv = ["pacer", *command.split()]
    try:
        main()
    except SystemExit as ended:
        assert ended.code == 1, command
    assert not {"torch", "sklearn"} & sys.modules.keys(), command
"""


def test_a_wrong_path_is_refused_before_anything_heavy_is_imported(repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL, *COMMANDS],
        env={"PYTHONPATH": str(REPOSITORY), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == len(COMMANDS)
    for command, line in zip(COMMANDS, lines, strict=True):
        assert "does not exist" in line and "absent" in line, (command, line)
