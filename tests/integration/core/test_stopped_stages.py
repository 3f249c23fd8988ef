"""`features` and `decode` are stopped in the middle of their work, and go on to the files of a run without a stop."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from ruamel.yaml import YAML

from pacer.core.stops import LAST_WORDS
from pacer.data.schemas import IMAGE_SCHEMA, RECORD_SCHEMA, read_records, write_table
from tests.support import drive
from tests.support.models import MODEL, save_calibrated, save_reader

STAGES = drive.ROOT / "stages"
#: A stage that sends itself a signal before a call of a function, counted from 0.
SCRIPT = Path(__file__).with_suffix(".txt").read_text()


@pytest.fixture(scope="module")
def folder(backbones: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inputs of both stages, as the pipeline has them."""
    root = tmp_path_factory.mktemp("stopped")
    params = drive.parameters(MODEL, decode={"max_new_tokens": 12, "batch_size": 3, "controls": []})
    (root / "data").mkdir()
    drive.write_inputs(root / "data", backbones, params)
    corpus = root / "data" / "corpus"
    records = read_records(corpus / "records.parquet").with_columns(split=pl.lit("test"))
    write_table(corpus / "records.parquet", records, RECORD_SCHEMA)
    paths = sorted((root / "data" / "images").iterdir())
    rows = [(path.name, str(path), path.stat().st_size, 56, 56) for path in paths]
    write_table(corpus / "images.parquet", pl.DataFrame(rows, IMAGE_SCHEMA, orient="row"), IMAGE_SCHEMA)
    shutil.copytree(backbones, root / "models" / "backbones")
    save_calibrated(root / "models" / "calibrate", backbones)
    save_reader(root / "models" / "findings", root / "models" / "calibrate")
    with open(root / "params.yaml", "w") as file:
        YAML().dump(params.model_dump(mode="json"), file)
    return root


def run(folder: Path, script: Path) -> tuple[int, str]:
    """Exit code of a stage, and the last line that it said."""
    command = [sys.executable, str(STAGES / "launch.py"), str(script)]
    environment = drive.environment() | {"HF_HOME": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, (done.stderr.splitlines() or [""])[-1]


def contents(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("stage", "out", "function", "number", "kept", "sent"),
    [
        ("features", "data/features", "pacer.features encode write_shard", 2, "store/*.safetensors", "SIGINT"),
        ("decode", "predictions", "pacer.core.journal Journal append", 7, "*/lines/0.jsonl", "SIGINT"),
        ("decode", "predictions", "pacer.core.journal Journal append", 3, "*/lines/0.jsonl", "SIGTERM"),
    ],
)
def test_a_stop_in_the_middle(
    stage: str, out: str, function: str, number: int, kept: str, sent: str, folder: Path
) -> None:
    scratch = Path(f"{folder / out}.scratch")
    shutil.rmtree(folder / out, ignore_errors=True)
    assert run(folder, STAGES / f"{stage}.py")[0] == 0
    whole = contents(folder / out)
    shutil.rmtree(folder / out)
    module, owner, name = function.split()
    script = folder / "script.py"
    about = {"module": module, "owner": owner, "function": name, "number": number, "signal": sent}
    script.write_text(SCRIPT.format(stage=str(STAGES / f"{stage}.py"), **about))
    assert run(folder, script) == (128 + signal.Signals[sent], LAST_WORDS)
    assert any(path.stat().st_size for path in scratch.glob(kept)) and not (folder / out).exists()
    assert run(folder, STAGES / f"{stage}.py")[0] == 0
    assert contents(folder / out) == whole and not scratch.exists()
