"""``pacer export`` and ``pacer generate`` as a user meets them: one case, a table of many, and
ReXrank's studies."""

import csv
import json
import re
import runpy
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

from pacer.core.errors import DataError
from pacer.core.io import read_jsonl, yaml_beside
from pacer.core.schemas import ABOUT, read_about
from pacer.serving.batch import _key, read_cases, report_cases
from pacer.serving.case import GENERATED_NOTE, Case
from pacer.serving.package import export_model
from pacer.serving.reporter import Reporter
from tests.support.cases import listed_cases
from tests.support.cli import Outcome
from tests.support.world import ROOT, World


@pytest.fixture
def generate(pacer, exported: Path) -> Callable[..., Outcome]:
    return lambda *arguments: pacer("generate", "--model", exported, *arguments)


def arguments_of(world: World, record_id: str) -> list[str]:
    case = world.case(record_id)
    given = {
        "--frontal": case.frontal,
        "--lateral": case.lateral,
        "--prior": case.prior,
        "--indication": case.indication,
        "--history": case.history,
        "--view": case.view,
    }
    return [
        str(part) for name, value in given.items() if value is not None for part in (name, value)
    ]


def words_of(text: str) -> str:
    """The words of a text, but for carriage returns, which a terminal does not get."""
    return " ".join(text.replace("\r", "").split())


def prediction(world: World, record_id: str) -> dict:
    return next(line for line in world.predictions(record_id[:2]) if line["record_id"] == record_id)


def test_one_case_on_the_terminal(world: World, generate) -> None:
    line = prediction(world, "mw-50000002")
    shown = generate(*arguments_of(world, "mw-50000002"))
    assert shown.code == 0 and shown.error == ""
    for text in (
        "MW: frontal + lateral + previous report; view other",
        f"gate {line['gate']:.3f}",
        "For research only",
    ):
        assert text in shown.out
    assert words_of(line["report"]) in words_of(shown.out)


def test_a_list_with_sides_on_the_terminal(described: Path, world: World, pacer) -> None:
    given = ["--commitment", "positive: left pleural effusion; negative: edema"]
    shown = pacer(
        "generate", "--model", described, "--frontal", world.case("sn-50000002").frontal, *given
    )
    assert shown.code == 0 and "Commitment  + left pleural effusion   - edema" in shown.out


def test_a_report_for_each_context(world: World, generate) -> None:
    shown = generate(*arguments_of(world, "mw-50000003"), "--all-contexts")
    assert shown.code == 0
    assert re.findall(r"^(\w\w): frontal", shown.out, re.MULTILINE) == ["SN", "SW", "MN", "MW"]
    assert shown.out.count("gate ") == 4
    assert shown.out.count("For research only") == 1


def test_the_cases_of_a_table(world: World, generate, tmp_path: Path) -> None:
    two, out = [world.case(name) for name in ("sn-50000002", "sn-50000003")], tmp_path / "out.jsonl"
    table = write_table(tmp_path, two)
    done = generate("--cases", table, "--out", out)
    assert done.code == 0 and "2 reports written" in done.out
    assert sorted(line["case"] for line in read_jsonl(out)) == ["sn-50000002", "sn-50000003"]
    again = generate("--cases", table, "--out", out)
    assert (
        again.code == 1
        and "out.jsonl already exists; remove it, or choose a different file" in again.error
    )


def test_a_model_of_a_generated_corpus_says_so_with_every_report(
    world: World, pacer, tmp_path: Path
) -> None:
    """The corpus says that it was generated, the export keeps that, and one case and a table of
    cases show it."""
    table = pq.read_table(world.inputs["records"])
    about = json.dumps(read_about(world.inputs["records"]) | {"generated": True})
    pq.write_table(table.replace_schema_metadata({ABOUT: about}), tmp_path / "records.parquet")
    export_model(
        tmp_path / "model", world.decode, **world.inputs | {"records": tmp_path / "records.parquet"}
    )
    command = ("generate", "--model", tmp_path / "model")
    one, table = (
        arguments_of(world, "sw-50000002"),
        write_table(tmp_path, [world.case("sn-50000002")]),
    )
    for arguments in (one, ["--cases", table, "--out", tmp_path / "out.jsonl"]):
        assert GENERATED_NOTE in words_of(pacer(*command, *arguments).out)
    assert GENERATED_NOTE in read_jsonl(tmp_path / "out.jsonl")[0]["notes"]


@pytest.mark.parametrize(("arguments", "sentence"), listed_cases(__file__, "options"))
def test_what_is_refused_is_one_line(generate, arguments: str, sentence: str) -> None:
    outcome = generate(*arguments.split())
    assert outcome.code == 1 and outcome.out == ""
    assert (
        outcome.error.startswith("error: ")
        and sentence in outcome.error
        and outcome.error.count("\n") == 1
    )


def test_export_then_generate(world: World, pacer, tmp_path: Path, monkeypatch) -> None:
    """In the folder of a pipeline, as in the README."""
    params = YAML(typ="safe").load(ROOT / "configs" / "phantom.yaml")
    params["decode"] |= world.decode.model_dump(
        include={"min_new_tokens", "max_new_tokens", "num_beams", "repetition_penalty"}
    )
    YAML(typ="safe").dump(params, tmp_path / "params.yaml")
    for name, place in (
        ("model", "models/calibrate"),
        ("backbones", "models/backbones"),
        ("features", "data/features"),
        ("records", "data/corpus/records.parquet"),
    ):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).symlink_to(world.inputs[name])
    monkeypatch.chdir(tmp_path)
    exported = pacer("export", "my-model")
    assert exported.code == 0, exported.error
    assert "model written to my-model" in exported.out
    shown = pacer("generate", "--model", "my-model", *arguments_of(world, "sn-50000002")).out
    assert words_of(prediction(world, "sn-50000002")["report"]) in words_of(shown)


@pytest.fixture
def cases(world: World) -> list[Case]:
    """The six test records of sn and mw."""
    return [
        world.case(line["record_id"])
        for context in ("sn", "mw")
        for line in world.predictions(context)
    ]


def write_table(folder: Path, cases: list[Case]) -> Path:
    path = folder / "cases.csv"
    columns = ("frontal", "lateral", "prior", "indication", "history", "view", "sections")
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["case", *columns])
        for case in cases:
            writer.writerow([case.name, *(getattr(case, column) or "" for column in columns)])
    return path


def test_every_case_of_a_table_has_its_line(
    world: World, reporter: Reporter, cases: list[Case], tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(reporter, "batch_size", 4)  # the six cases are two batches
    table, out = write_table(tmp_path, cases), tmp_path / "deep" / "reports.jsonl"
    truncated = report_cases(reporter, read_cases(table), out)
    lines = [json.loads(line, parse_constant=pytest.fail) for line in out.read_text().splitlines()]
    assert truncated == sum(line["truncated"] for line in lines)
    assert [line["case"] for line in lines] == [case.name for case in cases]
    expected = {
        line["record_id"]: line for context in ("sn", "mw") for line in world.predictions(context)
    }
    for line in lines:
        own = expected[line["case"]]
        assert (line["generated"], line["gate"], line["commitment"]) == (
            own["generated"],
            own["gate"],
            own["anchor"],
        )
    assert [path.name for path in out.parent.iterdir()] == ["reports.jsonl"]


def test_all_bad_cases_are_named_before_any_work(
    reporter: Reporter, cases: list[Case], tmp_path: Path, monkeypatch
) -> None:
    bad = [
        Case(tmp_path / "none.png", name="two"),
        Case(cases[0].frontal, prior="x" * 30_000, name="four"),
    ]
    out = tmp_path / "out.jsonl"
    monkeypatch.setattr(Reporter, "stream", lambda *arguments: pytest.fail("work began"))
    with pytest.raises(
        DataError, match=r"^2 of 4 cases cannot be used; correct or remove them:"
    ) as error:
        report_cases(reporter, [cases[0], *bad, cases[1]], out)
    for text in ("\n  image two, frontal: the file", "\n  previous report of four: 30,000"):
        assert text in str(error.value)
    assert not out.exists()
    many = [Case(tmp_path / "none.png", name=str(number)) for number in range(50)]
    with pytest.raises(DataError, match=r"50 of 50 cases") as error:
        report_cases(reporter, many, out)
    lines = str(error.value).splitlines()
    assert (
        "image 0, frontal:" in lines[1]
        and "image 19, frontal:" in lines[20]
        and lines[21:] == ["  ... and 30 more"]
    )


def test_a_stopped_run_continues(
    reporter: Reporter, cases: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finished reports stay, a torn line and a case that has changed are done again, and the file
    is as without a stop."""
    stream, out, asked = Reporter.stream, tmp_path / "out.jsonl", list[str]()
    cases = cases[1:5]
    report_cases(reporter, cases, tmp_path / "whole.jsonl")
    stop_after = 3

    def interrupted(self, remaining, *arguments):
        asked[:] = [case.name for case in remaining]
        for count, item in enumerate(stream(self, remaining, *arguments)):
            if count == stop_after:
                raise KeyboardInterrupt
            yield item

    monkeypatch.setattr(Reporter, "stream", interrupted)
    with pytest.raises(KeyboardInterrupt):
        report_cases(reporter, cases, out)
    assert not out.exists() and len(asked) == 4
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
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("out")] == [
        "out.jsonl"
    ]


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
    assert read(tmp_path, line, "cases.jsonl") == [
        Case(Path("/1.png"), prior="No, never.", name="/1.png")
    ]
    assert read(tmp_path, "probe_id,frontal\nsn-1:mean,1.png\n")[0].name == "sn-1:mean"


@pytest.mark.parametrize(("text", "sentence"), listed_cases(__file__, "refused"))
def test_tables_that_are_refused(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        read(tmp_path, text)


def test_a_list_with_other_sides_is_another_case(describing: Reporter, cases: list[Case]) -> None:
    lists = [f"positive: {side}pleural effusion" for side in ("", "left ", "right ", "bilateral ")]
    assert len(
        {_key(describing.prepare(replace(cases[0], commitment=one))) for one in lists}
    ) == len(lists)


SCRIPT = ROOT / "docs" / "examples" / "rexrank.py"
STUDIES = yaml_beside(__file__, "commands.yaml")["rexrank"]


def test_studies_become_cases_and_reports_go_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*arguments: str) -> None:
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
        runpy.run_path(str(SCRIPT), run_name="__main__")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "studies.json").write_text(json.dumps(STUDIES))
    for image in ("1/front.png", "1/side.png", "2/a.png"):
        (tmp_path / image).parent.mkdir(exist_ok=True)
        (tmp_path / image).touch()
    run("cases", "studies.json", "cases.csv")
    front, side, other = (tmp_path / image for image in ("1/front.png", "1/side.png", "2/a.png"))
    assert read_cases(tmp_path / "cases.csv") == [
        Case(front, side, view="PA", indication="Cough, fever.", name="one"),
        Case(other, name="two"),
    ]

    (tmp_path / "reports.jsonl").write_text(
        "".join(
            f"{json.dumps({'case': name, 'report': f'report of {name}'})}\n"
            for name in ("two", "one")
        )
    )
    run("answers", "studies.json", "reports.jsonl", "predictions.json")
    answers = json.loads((tmp_path / "predictions.json").read_text())
    expected = {
        name: study | {"model_prediction": f"report of {name}"} for name, study in STUDIES.items()
    }
    assert answers == expected and list(answers) == list(STUDIES)
