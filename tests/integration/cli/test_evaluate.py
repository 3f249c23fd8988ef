"""A trained model on a hospital's own table that is only for testing, by the commands that README.md states."""

import csv
import json
import re
import runpy
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from pacer.core.errors import DataError
from pacer.core.io import read_json, read_jsonl
from tests.support.cli import REPOSITORY
from tests.support.world import World, rehashed

pytestmark = pytest.mark.usefixtures("quick_meteor")

#: subject, study and day of each row, and the study of the world whose frontal image it shows.
STUDIES = (("a", "1", "2024-01-01", 0), ("a", "2", "2024-03-01", 2), ("b", "3", "2024-02-01", 3), ("c", "4", "", 4))


def stated() -> list[list[str]]:
    """The commands between the markers in README.md, as lists of arguments."""
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
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
            written.writerow((subject, study, day, "PA", path, f"Heart is normal. No effusion {study}."))
    named = f"source: files, format: table, root: own, images: {world.root / 'files'}, split: {{val: 0.0, test: 1.0}}"
    corpus = f"{{{named}, table: {{file: studies.csv, columns: {{}}}}}}"
    (repository / "mine.yaml").write_text(f"extends: micro\ncorpus: {corpus}\n")
    return repository


@pytest.fixture
def ready(table: Path, exported: Path, chexbert_directory: Callable[..., Path]) -> Path:
    """The same beside an exported model and a labeller; the frozen models lie nowhere but in the export."""
    shutil.copytree(exported, table / "models" / "mine")
    shutil.copytree(chexbert_directory(), table / "models" / "backbones" / "chexbert")
    return table


@pytest.fixture
def audited(pacer, ready: Path) -> Path:
    """The same after the first of the three commands."""
    assert pacer(*stated()[0]).code == 0
    return ready


def test_three_commands_evaluate_a_model_on_a_table_that_is_only_for_testing(pacer, ready: Path, world: World):
    outcomes = [pacer(*command) for command in stated()]
    assert [outcome.code for outcome in outcomes] == [0, 0, 0], [outcome.error for outcome in outcomes]
    records = pl.read_parquet("mine/corpus/records.parquet")
    assert set(records["split"]) == {"test"}
    scores, signature = read_json("mine/metrics/scores.json"), read_json("mine/metrics/signature.json")
    assert {name: scores[name]["n"] for name in ("sn", "sw")} == {"sn": 4, "sw": 1}
    assert not {"mn", "mw"} & scores.keys() and "Mean" in outcomes[2].out
    made = signature["predictions"]
    assert made["split"] == "all" and made["settings"]["num_beams"] == world.decode.num_beams
    assert made["settings"]["max_new_tokens"] == world.decode.max_new_tokens  # the export's, not those of params.yaml
    assert read_json("mine/predictions.features/manifest.json")["encoding"]["depths"] == [1, 2, 3]
    # the reports are those of `pacer generate`, which knows nothing of records
    (image,) = (world.root / "files" / "p1" / "p10000003").glob("*/frontal.*")
    Path("cases.csv").write_text(f"frontal,view,sections\n{image},PA,findings\n")
    assert pacer("generate", "--model", "models/mine", "--cases", "cases.csv", "--out", "reports.jsonl").code == 0
    line = next(line for line in read_jsonl("mine/predictions/sn.jsonl") if line["record_id"] == "sn-3")
    assert read_jsonl("reports.jsonl")[0]["generated"] == line["generated"]


def test_contexts_can_be_decoded_and_scored_alone(pacer, audited: Path):
    _, decode, score = stated()
    refused = pacer(*decode, "--context", "mw")
    assert refused.code == 1 and "has no records for context mw in split all" in refused.error
    assert pacer(*decode, "--context", "other").error == "error: --context other: expected one of sn, sw, mn, mw\n"
    assert pacer(*decode, "--context", "sn").code == 0
    assert sorted(path.name for path in Path("mine/predictions").glob("*.jsonl")) == ["sn.jsonl"]
    outcome = pacer(*score)
    assert outcome.code == 0 and "4 of 5 records of split all: contexts sn" in outcome.out


def test_a_context_that_an_exported_model_does_not_know_is_named(pacer, audited: Path, world: World):
    decode = stated()[1]
    settings = read_json("models/mine/reporter.json")
    model = Path("models/mine")
    rewritten = json.dumps(settings | {"contexts": ["sn", "mn"], "texts": settings["texts"] | {"cleaner": "iu_xray"}})
    (model / "reporter.json").write_text(rewritten)
    rehashed(model)
    refused = pacer(*decode)
    assert refused.code == 1
    assert "has records for sw, but the model was trained only on sn, mn; select from these with" in refused.error
    made = pacer(*decode, "--context", "sn", "--limit", "1")
    assert made.code == 0
    assert (
        "was built with corpus.cleaner: upstream, but the model's training reports were prepared with iu_xray"
        in made.out
    )


def test_the_pipeline_itself_refuses_such_a_table_before_it_computes_features(pacer, table: Path):
    assert pacer("use", "mine.yaml").code == 0
    source, main = (runpy.run_path(str(REPOSITORY / "stages" / f"{name}.py"))["main"] for name in ("source", "corpus"))
    source()
    with pytest.raises(DataError, match="split train, which the phases train on, has no records for context sn; fix"):
        main()
    assert read_json("data/corpus/audit.json")["records"] == 5  # which `pacer decode` may use
