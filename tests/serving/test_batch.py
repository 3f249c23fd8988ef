"""Many cases: one line each, whatever stops the run; nothing starts before all bad cases are named."""

from __future__ import annotations

import fcntl
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

from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError, PacerError
from pacer.core.io import read_json, read_jsonl
from pacer.serving.batch import report_cases
from pacer.serving.case import Case
from pacer.serving.case_files import BadCase, read_cases
from pacer.serving.reporter import Reporter
from pacer.tables.table import CsvForm
from tests.serving.world import World

pytestmark = pytest.mark.slow


@pytest.fixture
def cases(world: World) -> list[Case]:
    """The six test records of sn and mw."""
    return [world.case(line["record_id"]) for context in ("sn", "mw") for line in world.predictions(context)]


def without_times(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def test_every_case_has_its_line_in_order(world: World, reporter: Reporter, cases: list[Case], tmp_path: Path) -> None:
    out = tmp_path / "deep" / "reports.jsonl"
    done = report_cases(reporter, cases, out, batch_size=2)
    assert (done.reports, done.kept, done.renewed, done.skipped) == (6, 0, 0, ())
    lines = read_jsonl(out)
    assert [line["case"] for line in lines] == [case.name for case in cases]
    expected = {line["record_id"]: line for context in ("sn", "mw") for line in world.predictions(context)}
    for line in lines:
        own = expected[line["case"]]
        assert (line["generated"], line["gate"], line["commitment"]) == (own["generated"], own["gate"], own["anchor"])
    about = read_json(f"{out}.about.json")
    assert (about["cases"], about["reports"], about["skipped"]) == (6, 6, [])
    assert sorted(path.name for path in out.parent.iterdir()) == ["reports.jsonl", "reports.jsonl.about.json"]


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
    assert (done.reports, done.kept, done.renewed) == (2 + torn, 4 - torn, 0)
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
from pacer.serving.batch import report_cases
from pacer.serving.case_files import read_cases
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
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
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
    assert [line["generated"] for line in read_jsonl(out)] == [
        line["generated"] for line in read_jsonl(tmp_path / "whole.jsonl")
    ]


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
    assert not list(tmp_path.iterdir())
    done = report_cases(reporter, mixed, out, skip_bad=True)
    assert [case.name for case in done.skipped] == ["two", "three", "four"] and done.reports == 2
    assert [line["case"] for line in read_jsonl(out)] == [cases[0].name, cases[1].name]
    assert [case["name"] for case in read_json(f"{out}.about.json")["skipped"]] == ["two", "three", "four"]
    many = [BadCase(str(number), f"{number} is bad") for number in range(50)]
    with pytest.raises(DataError, match=r"50 of 50 cases") as error:
        report_cases(reporter, many, tmp_path / "other.jsonl")
    lines = str(error.value).splitlines()
    assert lines[1] == "  0 is bad" and lines[20:] == ["  19 is bad", "  ... and 30 more"]


def test_a_line_belongs_to_its_sources_and_its_model(
    world: World, reporter: Reporter, exported: Path, cases: list[Case], tmp_path: Path
) -> None:
    import shutil
    from dataclasses import replace

    out = tmp_path / "out.jsonl"
    image = tmp_path / "image.jpg"
    shutil.copy(str(cases[0].frontal), image)
    own = [replace(cases[0], frontal=image), *cases[1:3]]
    report_cases(reporter, own, out)
    assert report_cases(reporter, own, out).kept == 3
    shutil.copy(str(cases[4].frontal), image)
    done = report_cases(reporter, own, out)
    assert (done.reports, done.kept, done.renewed) == (1, 2, 1)
    changed = [own[0], replace(own[1], view="AP" if own[1].view != "AP" else "PA"), replace(own[2], prior="Edema.")]
    done = report_cases(reporter, changed, out)
    assert (done.reports, done.kept, done.renewed) == (2, 1, 1)  # the third is in another context now
    half = Reporter.from_pretrained(exported, device="cpu", dtype="bfloat16")
    assert report_cases(half, changed, out).renewed == 3
    with pytest.raises(DataError, match=r"holds the result of .*, which is not among the cases; name another file"):
        report_cases(reporter, cases[3:], out)
    assert len(read_jsonl(out)) == 3


def test_all_contexts_of_many_cases(world: World, reporter: Reporter, cases: list[Case], tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    report_cases(reporter, cases, out)
    done = report_cases(reporter, cases, out, all_contexts=True)
    assert (done.reports, done.kept, done.renewed) == (3 * 3, 6, 0)
    lines = read_jsonl(out)
    assert [line["context"] for line in lines] == ["sn"] * 3 + [*CONTEXTS] * 3
    for line in lines:
        study = line["case"].split("-")[1]
        expected = next(own for own in world.predictions(line["context"]) if own["record_id"].endswith(study))
        assert line["generated"] == expected["generated"]
    assert report_cases(reporter, cases, out).kept == 15  # the other contexts stay
    assert len(read_jsonl(out)) == 15


def test_files_that_are_no_results_stay_as_they_are(reporter: Reporter, cases: list[Case], tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    for content, sentence in (
        ("my notes\n", "is not a file of results"),
        ("my notes", "is not a file of results"),
        ('{"a": 1}\n', "line 1 is no result"),
        ("[1]\n", "is not a file of results"),
        ('{"case": ["x"], "context": "sn", "key": "k"}\n', "line 1 is no result"),
    ):
        out.write_text(content)
        with pytest.raises(DataError, match=f"{sentence}.*name another file"):
            report_cases(reporter, cases, out)
        assert out.read_text() == content
    with pytest.raises(DataError, match="is a folder; name a file for the output"):
        report_cases(reporter, cases, tmp_path)
    with pytest.raises(DataError, match="cannot be written: Not a directory"):
        report_cases(reporter, cases, out / "below")


def test_two_runs_do_not_share_a_file(reporter: Reporter, cases: list[Case], tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with open(out, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(PacerError, match="is in use by another process"):
            report_cases(reporter, cases, out)


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
        ("case,frontal,priors\n", "unknown column 'priors'; the closest known one is prior"),
        ("case,lateral\na,b\n", "has no column frontal"),
        ("frontal,Frontal\na,b\n", "has a column twice"),
        ("frontal\n", "holds no case"),
        ("", "has no column frontal"),
        ("frontal\na.png\na.png\n", "two cases with the name a.png; give"),
        ("frontal\na.png\na.png\nb.png\nb.png\n", "two cases with the name a.png and of 1 more; give"),
        (
            "case;frontal;prior\na;b.png;Clear, no effusion.\n",
            "separated by semicolons; .* set --delimiter to semicolon",
        ),
        ("case\tfrontal\n", "separated by tabs; .* set --delimiter to tab"),
        ("frontal,prior\na.png\n", "line 2: 1 field, but the header has 2"),
        ('frontal\n"a.png\n', "quotes do not match"),
    ],
)
def test_tables_that_are_refused(table, text: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        read_cases(table(text), CsvForm(settings="--"))


def test_a_table_in_the_form_of_a_hospital(tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    path.write_bytes("case;frontal;prior\nä;1.png;Erguß, klein.\n".encode("cp1252"))
    with pytest.raises(DataError, match=r"not UTF-8 .* or set --encoding, for example to cp1252"):
        read_cases(path, CsvForm("semicolon", settings="--"))
    assert read_cases(path, CsvForm("semicolon", "cp1252")) == [
        Case(tmp_path / "1.png", prior="Erguß, klein.", name="ä")
    ]


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
            "lateral of b (line 3): it leads out of the folder of the table",
            "previous report of c: it leads out of the folder of the table, or give the text",
            "previous report of d: it is an absolute path",
        ),
        strict=True,
    ):
        assert isinstance(case, BadCase) and sentence in case.problem and "somebody" not in case.problem


def test_what_is_neither_table_nor_folder(tmp_path: Path, table) -> None:
    for path, sentence in (
        (table("x", "cases.xlsx"), "is a spreadsheet; save the sheet as CSV"),
        (table("PK\x03\x04", "renamed.csv"), "is a spreadsheet; save the sheet as CSV"),
        (table("{}", "cases.jsonl"), "is neither a folder nor a table"),
        (tmp_path / "none.csv", "does not exist"),
        (tmp_path / "empty", "neither|holds no case"),
    ):
        with pytest.raises(DataError, match=sentence):
            read_cases(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no case"):
        read_cases(tmp_path / "empty")


def test_a_folder_of_cases(tmp_path: Path) -> None:
    files = (
        "b.PNG",
        "a/Frontal.dcm",
        "a/lateral.jpg",
        "a/prior.txt",
        "a/history.txt",
        "a/view.txt",
        ".DS_Store",
        "a/.hidden",
        "c/lateral.png",
        "d/frontal.png",
        "d/frontal.jpg",
        "e/frontal.png",
        "e/notes.doc",
        "notes.txt",
    )
    files += ("Thumbs.db", "desktop.ini", "a/Thumbs.db")
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("AP\n" if name.endswith("view.txt") else "x")
    folder = tmp_path / "a"
    first, second, *bad = read_cases(tmp_path)
    assert first == Case(
        folder / "Frontal.dcm",
        folder / "lateral.jpg",
        folder / "prior.txt",
        history=folder / "history.txt",
        view="AP",
        name="a",
    )
    assert second == Case(tmp_path / "b.PNG", name="b.PNG")
    assert [case.name for case in bad] == ["c", "d", "e", "notes.txt"]
    problems = [case.problem for case in bad if isinstance(case, BadCase)]
    for problem, sentence in zip(
        problems,
        ("c holds no frontal image", "d holds frontal twice", "e holds 'notes.doc'", "notes.txt is neither an image"),
        strict=True,
    ):
        assert sentence in problem


@pytest.mark.parametrize("name", ["a\udcff.jpg", "b\n12 reports written.jpg", "c\u202e.png", "d" * 201])
def test_names_that_cannot_be_shown(tmp_path: Path, name: str) -> None:
    """Of files and folders, and in a table: they would end a run as its results are written, or forge its lines."""
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / name).touch()
    [case] = read_cases(tmp_path / "cases")
    assert isinstance(case, BadCase) and "has a name that cannot be used" in case.problem
    assert (case.name + case.problem).isascii() and (case.name + case.problem).isprintable()


def test_lines_are_plain_json(reporter: Reporter, cases: list[Case], tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    report_cases(reporter, cases[:1], out)
    (line,) = out.read_text().splitlines()
    json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
