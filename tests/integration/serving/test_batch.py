"""Many cases: a line each; nothing starts before the bad cases are named. And ReXrank's studies as cases."""

import csv
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pacer.core.errors import DataError
from pacer.serving.case import Case, _key, read_cases, report_cases
from pacer.serving.reporter import Reporter
from tests.support import cases as table_of
from tests.support.world import World


@pytest.fixture
def cases(world: World) -> list[Case]:
    """The six test records of sn and mw."""
    return [world.case(line["record_id"]) for context in ("sn", "mw") for line in world.predictions(context)]


def write_table(folder: Path, cases: list[Case]) -> Path:
    path = folder / "cases.csv"
    columns = ("frontal", "lateral", "prior", "indication", "history", "view", "sections")
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["case", *columns])
        for case in cases:
            writer.writerow([case.name, *(getattr(case, column) or "" for column in columns)])
    return path


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_every_case_of_a_table_has_its_line(
    world: World, reporter: Reporter, cases: list[Case], tmp_path: Path, monkeypatch, batch_size: int
) -> None:
    monkeypatch.setattr(reporter, "batch_size", batch_size)
    table, out = write_table(tmp_path, cases), tmp_path / "deep" / "reports.jsonl"
    truncated = report_cases(reporter, read_cases(table), out)
    lines = [json.loads(line, parse_constant=pytest.fail) for line in out.read_text().splitlines()]
    assert truncated == sum(line["truncated"] for line in lines)
    assert [line["case"] for line in lines] == [case.name for case in cases]
    expected = {line["record_id"]: line for context in ("sn", "mw") for line in world.predictions(context)}
    for line in lines:
        own = expected[line["case"]]
        assert (line["generated"], line["gate"], line["commitment"]) == (own["generated"], own["gate"], own["anchor"])
    assert [path.name for path in out.parent.iterdir()] == ["reports.jsonl"]


def test_all_bad_cases_are_named_before_any_work(
    reporter: Reporter, cases: list[Case], tmp_path: Path, monkeypatch
) -> None:
    bad = [Case(tmp_path / "none.png", name="two"), Case(cases[0].frontal, prior="x" * 30_000, name="four")]
    out = tmp_path / "out.jsonl"
    monkeypatch.setattr(Reporter, "stream", lambda *arguments: pytest.fail("work began"))
    with pytest.raises(DataError, match=r"^2 of 4 cases cannot be used; correct or remove them:") as error:
        report_cases(reporter, [cases[0], *bad, cases[1]], out)
    for text in ("\n  image two, frontal: the file", "\n  previous report of four: 30,000"):
        assert text in str(error.value)
    assert not out.exists()
    many = [Case(tmp_path / "none.png", name=str(number)) for number in range(50)]
    with pytest.raises(DataError, match=r"50 of 50 cases") as error:
        report_cases(reporter, many, out)
    lines = str(error.value).splitlines()
    assert "image 0, frontal:" in lines[1] and "image 19, frontal:" in lines[20] and lines[21:] == ["  ... and 30 more"]


def test_a_stopped_run_continues(
    reporter: Reporter, cases: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finished reports stay, a torn line and a case that has changed are done again, and the file is as without a
    stop."""
    stream, out, asked = Reporter.stream, tmp_path / "out.jsonl", list[str]()
    report_cases(reporter, cases, tmp_path / "whole.jsonl")
    stop_after = 4

    def interrupted(self, remaining, *arguments):
        asked[:] = [case.name for case in remaining]
        for count, item in enumerate(stream(self, remaining, *arguments)):
            if count == stop_after:
                raise KeyboardInterrupt
            yield item

    monkeypatch.setattr(Reporter, "stream", interrupted)
    with pytest.raises(KeyboardInterrupt):
        report_cases(reporter, cases, out)
    assert not out.exists() and len(asked) == 6
    [journal] = tmp_path.glob("out.jsonl.scratch/*/lines.jsonl")
    journal.write_bytes(journal.read_bytes()[:-9])
    finished = [json.loads(line)["line"]["case"] for line in journal.read_text().splitlines()[:-1]]
    stop_after = 0
    for change in ({"indication": "Fever."}, {"commitment": "positive: edema"}):
        changed = [replace(case, **change) if case.name == finished[0] else case for case in cases]
        with pytest.raises(KeyboardInterrupt):
            report_cases(reporter, changed, out)
        assert sorted(asked) == sorted({case.name for case in cases} - set(finished[1:]))
    stop_after = 99
    report_cases(reporter, cases, out)
    assert sorted(asked) == sorted({case.name for case in cases} - set(finished))
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("out")] == ["out.jsonl"]


def read(folder: Path, text: str, name: str = "cases.csv") -> list[Case]:
    (folder / name).write_text(text)
    return read_cases(folder / name)


def test_a_table_of_cases(tmp_path: Path) -> None:
    rows = "a,f/1.png,f/2.png,Edema.,Cough,PA\n\nb,/x/3.dcm,,No effusion. Clear.,,\n"
    assert read(tmp_path, f"Case,frontal,lateral,prior,indication,VIEW\n{rows}") == [
        Case(tmp_path / "f/1.png", tmp_path / "f/2.png", "Edema.", "Cough", None, "PA", name="a"),
        Case(Path("/x/3.dcm"), prior="No effusion. Clear.", name="b"),
    ]
    line = '{"frontal": "/1.png", "prior": "No, never.", "view": null}\n'
    assert read(tmp_path, line, "cases.jsonl") == [Case(Path("/1.png"), prior="No, never.", name="/1.png")]
    assert read(tmp_path, "probe_id,frontal\nsn-1:mean,1.png\n")[0].name == "sn-1:mean"


@pytest.mark.parametrize(("text", "sentence"), table_of.listed_cases(__file__, "refused"))
def test_tables_that_are_refused(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        read(tmp_path, text)


def test_a_list_with_other_attributes_is_another_case(describing: Reporter, cases: list[Case]) -> None:
    lists = [f"positive: {words}pleural effusion" for words in ("", "left ", "right ", "mild right ")]
    assert len({_key(describing.prepare(replace(cases[0], commitment=one))) for one in lists}) == len(lists)


SCRIPT = Path(__file__).parents[3] / "docs" / "examples" / "rexrank.py"
STUDIES = YAML(typ="safe").load(Path(__file__).with_name("batch.yaml"))["rexrank"]


def run(folder: Path, *arguments: str) -> None:
    subprocess.run([sys.executable, str(SCRIPT), *arguments], cwd=folder, check=True)


def test_studies_become_cases_and_reports_go_back(tmp_path: Path) -> None:
    (tmp_path / "studies.json").write_text(json.dumps(STUDIES))
    for image in ("1/front.png", "1/side.png", "2/a.png"):
        (tmp_path / image).parent.mkdir(exist_ok=True)
        (tmp_path / image).touch()
    run(tmp_path, "cases", "studies.json", "cases.csv")
    front, side, other = (tmp_path / image for image in ("1/front.png", "1/side.png", "2/a.png"))
    assert read_cases(tmp_path / "cases.csv") == [
        Case(front, side, view="PA", indication="Cough, fever.", name="one"),
        Case(other, name="two"),
    ]

    (tmp_path / "reports.jsonl").write_text(
        "".join(f"{json.dumps({'case': name, 'report': f'report of {name}'})}\n" for name in ("two", "one"))
    )
    run(tmp_path, "answers", "studies.json", "reports.jsonl", "predictions.json")
    answers = json.loads((tmp_path / "predictions.json").read_text())
    expected = {name: study | {"model_prediction": f"report of {name}"} for name, study in STUDIES.items()}
    assert answers == expected and list(answers) == list(STUDIES)
