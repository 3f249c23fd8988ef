"""Many cases: one line each, whatever stops the run; nothing starts before all bad cases are named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pacer.core.errors import DataError
from pacer.core.io import read_jsonl
from pacer.serving.batch import BadCase, read_cases, report_cases
from pacer.serving.case import Case
from pacer.serving.reporter import Reporter
from tests.support.world import World


@pytest.fixture
def cases(world: World) -> list[Case]:
    """The six test records of sn and mw."""
    return [world.case(line["record_id"]) for context in ("sn", "mw") for line in world.predictions(context)]


def without_times(lines: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """By case: reports end in an order that depends on the batches."""
    return {line["case"]: {key: value for key, value in line.items() if key != "seconds"} for line in lines}


def test_every_case_has_its_line(world: World, reporter: Reporter, cases: list[Case], tmp_path: Path) -> None:
    out = tmp_path / "deep" / "reports.jsonl"
    done = report_cases(reporter, cases, out, batch_size=2)
    assert (done.reports, done.kept, done.skipped) == (6, 0, ())
    lines = [json.loads(line, parse_constant=pytest.fail) for line in out.read_text().splitlines()]
    assert sorted(line["case"] for line in lines) == sorted(case.name for case in cases)
    expected = {line["record_id"]: line for context in ("sn", "mw") for line in world.predictions(context)}
    for line in lines:
        own = expected[line["case"]]
        assert (line["generated"], line["gate"], line["commitment"]) == (own["generated"], own["gate"], own["anchor"])
    assert [path.name for path in out.parent.iterdir()] == ["reports.jsonl"]


class Stopped(Exception):
    pass


@pytest.mark.parametrize("torn", [False, True])
def test_a_stopped_run_goes_on_with_the_rest(
    reporter: Reporter, cases: list[Case], tmp_path: Path, monkeypatch, torn: bool
) -> None:
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    report_cases(reporter, cases, whole)
    stream, prepare, prepared = Reporter.stream, Reporter.prepare, []

    def interrupted(self, *arguments):
        for count, found in enumerate(stream(self, *arguments)):
            if count == 4:
                raise Stopped
            yield found

    def counted(self, case):
        prepared.append(case.name)
        return prepare(self, case)

    with monkeypatch.context() as patched:
        patched.setattr(Reporter, "stream", interrupted)
        with pytest.raises(Stopped):
            report_cases(reporter, cases, out, batch_size=3)
    assert out.read_bytes().count(b"\n") == 4
    if torn:
        out.write_bytes(out.read_bytes()[:-9])
    monkeypatch.setattr(Reporter, "prepare", counted)
    done = report_cases(reporter, cases, out)
    assert (done.reports, done.kept) == (2 + torn, 4 - torn)
    assert len(set(prepared)) == 2 + torn  # what is there is not opened again
    assert without_times(read_jsonl(out)) == without_times(read_jsonl(whole))


def test_a_killed_process_leaves_its_lines(
    reporter: Reporter, exported: Path, cases: list[Case], tmp_path: Path
) -> None:
    """SIGKILL while it works; the next run makes the file of an undisturbed one."""
    table, out = write_table(tmp_path, cases), tmp_path / "out.jsonl"
    script = tmp_path / "run.py"
    script.write_text(f"""
import time
from pathlib import Path
import torch
torch.set_num_threads(1)
from pacer.serving.batch import read_cases, report_cases
from pacer.serving.reporter import Reporter
stream = Reporter.stream
def slow(self, *arguments):
    for found in stream(self, *arguments):
        yield found
        time.sleep(0.2)
Reporter.stream = slow
report_cases(Reporter.from_pretrained({str(exported)!r}, device="cpu"), read_cases(Path({str(table)!r})),
             Path({str(out)!r}), batch_size=1)
""")
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    process = subprocess.Popen([sys.executable, str(script)], env=environment, stderr=subprocess.DEVNULL)
    while process.poll() is None and not (out.exists() and out.read_bytes().count(b"\n") >= 2):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    there = out.read_bytes().count(b"\n")
    assert there >= 2
    done = report_cases(reporter, read_cases(table), out)
    assert (done.kept, done.reports) == (there, 6 - there)
    report_cases(reporter, cases, tmp_path / "whole.jsonl")
    made, whole = (
        {line["case"]: line["generated"] for line in read_jsonl(path)} for path in (out, tmp_path / "whole.jsonl")
    )
    assert made == whole


def write_table(folder: Path, cases: list[Case]) -> Path:
    import csv

    path = folder / "cases.csv"
    (folder / "linked").symlink_to("/")  # what a table names lies below its folder
    columns = ("name", "frontal", "lateral", "prior", "indication", "history", "view", "sections")
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["case", *columns[1:]])
        for case in cases:
            given = {column: getattr(case, column) or "" for column in columns}
            writer.writerow(f"linked{value}" if isinstance(value, Path) else value for value in given.values())
    return path


def test_all_bad_cases_are_named_before_any_work(
    reporter: Reporter, cases: list[Case], tmp_path: Path, monkeypatch
) -> None:
    bad = [
        Case(tmp_path / "none.png", name="two"),
        BadCase("three", "three names no frontal image"),
        Case(cases[0].frontal, prior="x" * 30_000, name="four"),
    ]
    mixed, out = [cases[0], *bad, cases[1]], tmp_path / "out.jsonl"
    with monkeypatch.context() as patched:
        patched.setattr(Reporter, "stream", lambda *arguments: pytest.fail("work began"))
        with pytest.raises(DataError, match=r"^3 of 5 cases cannot be used; ") as error:
            report_cases(reporter, mixed, out)
    for text in (
        "image frontal of two",
        "three names no frontal image",
        "previous report of four: 30,000",
        "--skip-bad",
    ):
        assert text in str(error.value)
    assert not out.read_bytes()
    done = report_cases(reporter, mixed, out, skip_bad=True)
    assert [case.name for case in done.skipped] == ["two", "three", "four"] and done.reports == 2
    assert sorted(line["case"] for line in read_jsonl(out)) == sorted([cases[0].name, cases[1].name])
    many = [BadCase(str(number), f"{number} is bad") for number in range(50)]
    with pytest.raises(DataError, match=r"50 of 50 cases") as error:
        report_cases(reporter, many, tmp_path / "other.jsonl")
    lines = str(error.value).splitlines()
    assert lines[1] == "  0 is bad" and lines[20:] == ["  19 is bad", "  ... and 30 more"]


def test_files_that_are_no_results_stay_as_they_are(reporter: Reporter, cases: list[Case], tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    for content, sentence in (
        ("my notes\n", "is not a file of results"),
        ("my notes", "is not a file of results"),
        ('{"a": 1}\n', "line 1 is no result"),
        ("[1]\n", "is not a file of results"),
        ('{"case": ["x"], "context": "sn"}\n', "line 1 is no result"),
    ):
        out.write_text(content)
        with pytest.raises(DataError, match=f"{sentence}.*name another file"):
            report_cases(reporter, cases, out)
        assert out.read_text() == content


@pytest.fixture
def table(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str, name: str = "cases.csv") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_a_table_of_cases(table, tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("edema")
    path = table(
        "Case,frontal,lateral,prior,indication,VIEW\n"
        "a,f/1.png,f/2.png,old.txt,Cough,PA\n\nb,x/3.dcm,,No effusion. Clear.,,\n"
    )
    assert read_cases(path) == [
        Case(tmp_path / "f/1.png", tmp_path / "f/2.png", tmp_path / "old.txt", "Cough", None, "PA", name="a"),
        Case(tmp_path / "x/3.dcm", prior="No effusion. Clear.", name="b"),
    ]
    assert read_cases(table("frontal\tprior\n1.png\tNo, never.\n", "c.tsv"))[0].name == "1.png"
    found = read_cases(table("case,frontal,prior\na,,\n,1.png,missing.txt\n"))
    assert [case.name for case in found] == ["a", "1.png"]
    assert all(isinstance(case, BadCase) for case in found)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("case,frontal,priors\n", "unknown column 'priors'; expected case, frontal, "),
        ("case,lateral\na,b\n", "has no column frontal"),
        ("frontal,Frontal\na,b\n", "has a column twice"),
        ("frontal\n", "holds no case"),
        ("", "has no column frontal"),
        ("frontal\na.png\na.png\n", "two cases with the name a.png; name each"),
        ("frontal\na.png\na.png\nb.png\nb.png\n", "two cases with the name a.png and of 1 more; name each"),
        ("case;frontal\na;b.png\n", "unknown column 'case;frontal'; expected case, frontal, "),
        ('frontal\n"a.png\n', "quotes do not match"),
    ],
)
def test_tables_that_are_refused(table, text: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        read_cases(table(text))


def test_paths_of_a_table_stay_below_its_folder(table, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("patient named somebody")
    (tmp_path / "in").mkdir()
    path = table(
        "case,frontal,lateral,prior\na,/x/1.png,,\nb,1.png,../2.png,\nc,1.png,,../secret.txt\n"
        f"d,1.png,,{tmp_path / 'secret.txt'}\n",
        "in/c.csv",
    )
    found = read_cases(path)
    for case, sentence in zip(
        found,
        (
            "frontal of a (line 2): it is an absolute path; write it relative to the folder of the table",
            "lateral of b (line 3): it is outside the folder of the table",
            "previous report of c: it is outside the folder of the table, or give the text",
            "previous report of d: it is an absolute path",
        ),
        strict=True,
    ):
        assert isinstance(case, BadCase) and sentence in case.problem and "somebody" not in case.problem


def test_a_table_that_is_no_csv_is_refused(table) -> None:
    with pytest.raises(DataError, match=r"is not a \.csv or \.tsv table"):
        read_cases(table("{}", "cases.jsonl"))


@pytest.mark.parametrize("name", ["b\u200b.jpg", "c\u202e.png", "d" * 201])
def test_names_that_cannot_be_shown(table, name: str) -> None:
    [case] = read_cases(table(f"frontal\n{name}\n"))
    assert isinstance(case, BadCase) and "has a name that cannot be used" in case.problem
    assert case.problem.isascii() and case.problem.isprintable()
