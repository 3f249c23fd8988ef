"""``pacer export`` and ``pacer generate`` as a user meets them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pacer.cli import main
from pacer.core.io import read_jsonl
from pacer.data.schemas import ABOUT, read_about
from pacer.serving.case import GENERATED_NOTE
from pacer.serving.export import export_model
from tests.support.cli import Outcome
from tests.support.world import ROOT, World


@pytest.fixture
def pacer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Callable[..., Outcome]:
    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["pacer", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "160")
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return Outcome(ended.value.code or 0, printed.out, printed.err)

    return run


@pytest.fixture
def generate(pacer, exported: Path) -> Callable[..., Outcome]:
    return lambda *arguments: pacer("generate", "--model", exported, "--device", "cpu", *arguments)


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
    return [str(part) for name, value in given.items() if value is not None for part in (name, value)]


def test_one_case_on_the_terminal_and_as_json(world: World, generate) -> None:
    line = next(line for line in world.predictions("mw") if line["record_id"] == "mw-50000002")
    told = generate(*arguments_of(world, "mw-50000002"), "--json")
    assert told.code == 0 and told.error == ""
    found = json.loads(told.out)
    assert (found["generated"], found["context"], found["gate"]) == (line["generated"], "mw", line["gate"])
    assert len(found["depth_weights"]["lateral"]["weights"]) == 4
    shown = generate(*arguments_of(world, "mw-50000002"))
    assert shown.code == 0
    for text in (
        "MW: frontal + lateral + previous report; view other",
        "gate 0.",
        "tokens of the indication and history were cut off",
        "For research only",
    ):
        assert text in shown.out
    assert " ".join(line["report"].split())[:40] in " ".join(shown.out.split())


def test_other_sections_are_asked_for(world: World, generate, reporter) -> None:
    texts = set()
    for sections in ("findings+impression", "findings", "impression"):
        found = json.loads(generate(*arguments_of(world, "mw-50000003"), "--sections", sections, "--json").out)
        [expected] = reporter.generate([replace(world.case("mw-50000003"), sections=sections)])
        assert (found["sections"], found["generated"]) == (sections, expected.generated)
        texts.add(found["generated"])
    assert len(texts) > 1


def test_all_contexts_side_by_side(world: World, generate) -> None:
    shown = generate(*arguments_of(world, "mw-50000003"), "--all-contexts")
    assert shown.code == 0
    header = next(line for line in shown.out.splitlines() if "SN" in line)
    assert [word for word in header.split() if word.isupper()] == ["MW", "MN", "SW", "SN"]
    told = generate(*arguments_of(world, "mw-50000002"), "--all-contexts", "--json").out
    assert list(json.loads(told)) == ["mw", "mn", "sw", "sn"]


def test_a_previous_report_may_be_a_file(world: World, generate, tmp_path: Path) -> None:
    case = world.case("sw-50000003")
    file = tmp_path / "prior.txt"
    file.write_text(str(case.prior))
    common = ("--frontal", case.frontal, "--json", "--prior")
    assert (
        json.loads(generate(*common, file).out)["generated"]
        == json.loads(generate(*common, case.prior).out)["generated"]
    )
    refused = generate(*common, tmp_path / "misspelt.txt")
    assert refused.code == 1 and "--prior: this looks like the path of a file" in refused.error


def test_a_table_of_cases_and_a_resumed_run(world: World, generate, tmp_path: Path) -> None:
    rows = ["case,frontal,lateral"]
    for record_id in ("mn-50000002", "mn-50000003"):
        case = world.case(record_id)
        names = [str(Path(str(image)).relative_to(world.root / "files")) for image in (case.frontal, case.lateral)]
        rows.append(",".join([record_id, *(f"files/{name}" for name in names)]))
    (tmp_path / "files").symlink_to(world.root / "files")
    (tmp_path / "broken.png").touch()
    table, out = tmp_path / "cases.csv", tmp_path / "out.jsonl"
    table.write_text("\n".join([*rows, "broken,broken.png,"]))
    refused = generate("--cases", table, "--out", out)
    assert refused.code == 1 and "1 of 3 cases cannot be used; fix" in refused.error
    assert "\n  image frontal of broken" in refused.error
    done = generate("--cases", table, "--out", out, "--skip-bad")
    assert done.code == 0 and "2 reports written" in done.out and "1 of 3 cases left out" in done.out
    assert "left out: image frontal of broken" in done.out
    again = generate("--cases", table, "--out", out, "--skip-bad")
    assert "0 reports written" in again.out and "2 kept from an earlier run" in again.out
    assert sorted(line["case"] for line in read_jsonl(out)) == ["mn-50000002", "mn-50000003"]


def test_a_model_of_a_generated_corpus_says_so_with_every_report(world: World, pacer, tmp_path: Path) -> None:
    """The corpus says that it was generated, the export carries that, and every way to a report shows it."""
    table = pq.read_table(world.inputs["records"])
    about = json.dumps(read_about(world.inputs["records"]) | {"generated": True})
    pq.write_table(table.replace_schema_metadata({ABOUT: about}), tmp_path / "records.parquet")
    export_model(tmp_path / "model", world.decode, **world.inputs | {"records": tmp_path / "records.parquet"})
    arguments = arguments_of(world, "mw-50000002")
    command = ("generate", "--model", tmp_path / "model", "--device", "cpu")
    for more in ([], ["--all-contexts"]):
        shown = pacer(*command, *arguments, *more).out
        assert GENERATED_NOTE in " ".join(shown.split())
    assert GENERATED_NOTE in json.loads(pacer(*command, *arguments, "--json").out)["notes"]
    (tmp_path / "cases.csv").write_text("case,frontal\na,frontal.jpg\n")
    (tmp_path / "frontal.jpg").write_bytes(Path(arguments[1]).read_bytes())
    done = pacer(*command, "--cases", tmp_path / "cases.csv", "--out", tmp_path / "out.jsonl")
    assert GENERATED_NOTE in " ".join(done.out.split())
    assert GENERATED_NOTE in read_jsonl(tmp_path / "out.jsonl")[0]["notes"]


def test_a_model_of_a_real_corpus_says_nothing_of_generated_ones(reporter, world: World) -> None:
    assert reporter.notes == () and GENERATED_NOTE not in reporter.generate([world.case("sn-50000002")])[0].notes


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "give --frontal (with --lateral, --prior) for one case, or --cases and --out for many"),
        (("--out", "x"), "--out is for --cases"),
        (("--frontal", "a.png", "--batch-size", "2"), "--batch-size is for --cases"),
        (("--cases", "c.csv"), "--cases needs --out"),
        (("--cases", "c.csv", "--out", "x", "--view", "PA"), "--view is for one case, not for --cases"),
        (("--cases", "c.csv", "--out", "x", "--all-contexts"), "--all-contexts is for one case, not for --cases"),
        (("--cases", "none.csv", "--out", "x"), "none.csv does not exist"),
        (("--frontal", "none.png"), "image frontal of none.png: the file none.png does not exist"),
    ],
)
def test_what_does_not_go_together_is_one_line(generate, arguments: tuple[str, ...], sentence: str) -> None:
    outcome = generate(*arguments)
    assert outcome.code == 1 and outcome.out == ""
    assert outcome.error.startswith("error: ") and sentence in outcome.error and outcome.error.count("\n") == 1


def test_export_then_generate(world: World, pacer, tmp_path: Path, monkeypatch) -> None:
    """With params.yaml, as in the README."""
    from ruamel.yaml import YAML

    params = YAML(typ="safe").load(ROOT / "configs" / "phantom.yaml")
    params["decode"] |= world.decode.model_dump(include={"min_new_tokens", "max_new_tokens", "num_beams"})
    yaml = YAML(typ="safe")
    yaml.dump(params, tmp_path / "params.yaml")
    monkeypatch.chdir(tmp_path)
    given = [part for name, path in world.inputs.items() for part in (f"--{name}", path)]
    made = pacer("export", "my-model", *given)
    assert made.code == 0, made.error
    assert "trained parameters written to my-model" in made.out and "the model card has none" in made.out
    told = pacer("generate", "--model", "my-model", *arguments_of(world, "sn-50000002"), "--json")
    line = next(line for line in world.predictions("sn") if line["record_id"] == "sn-50000002")
    assert json.loads(told.out)["generated"] == line["generated"]


def test_help_does_not_load_torch() -> None:
    code = (
        "import sys, pacer.cli; heavy = {'torch', 'transformers', 'polars', 'numpy', 'PIL'} & set(sys.modules); "
        "print(heavy); sys.exit(bool(heavy & {'torch', 'transformers'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout


def test_the_colours_of_differences(world: World, generate, monkeypatch) -> None:
    """On a terminal what differs is marked, and nothing else."""
    from rich.console import Console

    terminal = Console(force_terminal=True, color_system="standard", width=160, highlight=False)
    monkeypatch.setattr("pacer.cli.reports.console", terminal)
    shown = generate(*arguments_of(world, "mw-50000003"), "--all-contexts").out
    assert "\x1b[32m" in shown
    alone = generate(*arguments_of(world, "sn-50000003"), "--all-contexts").out
    assert "\x1b[32m" not in alone
