"""``pacer export`` and ``pacer generate`` as a user meets them."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

from pacer.core.io import read_jsonl
from pacer.data.schemas import ABOUT, read_about
from pacer.serving.case import GENERATED_NOTE
from pacer.serving.package import export_model
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
    return [str(part) for name, value in given.items() if value is not None for part in (name, value)]


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


def test_a_list_with_attributes_on_the_terminal(described: Path, world: World, pacer) -> None:
    given = ["--commitment", "positive: mild left pleural effusion; negative: edema"]
    shown = pacer("generate", "--model", described, "--frontal", world.case("sn-50000002").frontal, *given)
    assert shown.code == 0 and "Commitment  + mild left pleural effusion   - edema" in shown.out


def test_all_contexts_side_by_side(world: World, generate) -> None:
    shown = generate(*arguments_of(world, "mw-50000003"), "--all-contexts")
    assert shown.code == 0
    header = next(line for line in shown.out.splitlines() if "SN" in line)
    assert re.findall("SN|SW|MN|MW", header) == ["SN", "SW", "MN", "MW"]
    rows = {line.split()[0] for line in shown.out.splitlines() if line.strip()}
    assert rows >= {"sources", "gate", "commitment", "report"}


def table_of(world: World, folder: Path, *record_ids: str) -> Path:
    """A table of the frontal views of records."""
    rows = [f"{record_id},{world.case(record_id).frontal}" for record_id in record_ids]
    table = folder / "cases.csv"
    table.write_text("\n".join(["case,frontal", *rows]))
    return table


def test_a_table_of_cases(world: World, generate, tmp_path: Path) -> None:
    table, out = table_of(world, tmp_path, "sn-50000002", "sn-50000003"), tmp_path / "out.jsonl"
    done = generate("--cases", table, "--out", out)
    assert done.code == 0 and "2 reports written" in done.out
    assert sorted(line["case"] for line in read_jsonl(out)) == ["sn-50000002", "sn-50000003"]
    again = generate("--cases", table, "--out", out)
    assert again.code == 1 and "out.jsonl already exists; remove it, or choose a different file" in again.error


def test_a_model_of_a_generated_corpus_says_so_with_every_report(world: World, pacer, tmp_path: Path) -> None:
    """The corpus says that it was generated, the export keeps that, and all commands show it."""
    table = pq.read_table(world.inputs["records"])
    about = json.dumps(read_about(world.inputs["records"]) | {"generated": True})
    pq.write_table(table.replace_schema_metadata({ABOUT: about}), tmp_path / "records.parquet")
    export_model(tmp_path / "model", world.decode, **world.inputs | {"records": tmp_path / "records.parquet"})
    command = ("generate", "--model", tmp_path / "model")
    one, table = arguments_of(world, "sw-50000002"), table_of(world, tmp_path, "sn-50000002")
    for arguments in (one, [*one, "--all-contexts"], ["--cases", table, "--out", tmp_path / "out.jsonl"]):
        assert GENERATED_NOTE in words_of(pacer(*command, *arguments).out)
    assert GENERATED_NOTE in read_jsonl(tmp_path / "out.jsonl")[0]["notes"]


@pytest.mark.parametrize(("arguments", "sentence"), listed_cases(__file__, "refused"))
def test_what_is_refused_is_one_line(generate, arguments: str, sentence: str) -> None:
    outcome = generate(*arguments.split())
    assert outcome.code == 1 and outcome.out == ""
    assert outcome.error.startswith("error: ") and sentence in outcome.error and outcome.error.count("\n") == 1


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
