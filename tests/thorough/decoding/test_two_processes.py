"""The stage as `accelerate launch` starts it, two processes on the CPU, against one process."""

import shutil
import subprocess
from functools import partial
from pathlib import Path

import polars as pl
from ruamel.yaml import YAML

from pacer.core.schemas import RECORD_SCHEMA, read_records, write_table
from pacer.decoding.run import decode_records, trained_generator
from tests.support import drive
from tests.support.models import MODEL, save_calibrated, save_reader
from tests.support.waiting import PATIENCE

#: The stage, and then the processes that there were: that one process alone made the files must not
#: pass for two. Each tells its rank in one write, or the two get mixed.
SCRIPT = f"""
import runpy
runpy.run_path({str(drive.ROOT / "stages" / "decode.py")!r})["main"]()
from pacer.core.processes import process_state
state = process_state()
print(f"rank {{state.process_index}} of {{state.num_processes}}\\n", end="", flush=True)
"""


def test_two_processes_write_the_files_of_one(tmp_path: Path, backbones: Path) -> None:
    decode = {
        "min_new_tokens": 2,
        "max_new_tokens": 12,
        "batch_size": 3,
        "examples": 2,
        "controls": ["no_lateral"],
    }
    params = drive.parameters(MODEL, decode=decode)
    (tmp_path / "data").mkdir()
    drive.write_inputs(tmp_path / "data", backbones, params)
    records = tmp_path / "data" / "corpus" / "records.parquet"
    write_table(records, read_records(records).with_columns(split=pl.lit("test")), RECORD_SCHEMA)
    (tmp_path / "models").mkdir()
    shutil.copytree(backbones, tmp_path / "models" / "backbones")
    save_calibrated(tmp_path / "models" / "calibrate", backbones)
    save_reader(tmp_path / "models" / "lists", tmp_path / "models" / "calibrate")
    with open(tmp_path / "params.yaml", "w") as file:
        YAML().dump(params.model_dump(mode="json"), file)

    (tmp_path / "decode.py").write_text(SCRIPT)
    launched = subprocess.run(
        [*drive.TWO_PROCESSES, "decode.py"],
        env=drive.environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert launched.returncode == 0, launched.stderr
    assert sorted(launched.stdout.splitlines()) == ["rank 0 of 2", "rank 1 of 2"]
    decode_records(
        tmp_path / "models" / "calibrate",
        tmp_path / "models" / "backbones",
        read_records(records),
        tmp_path / "data" / "features",
        params.decode,
        tmp_path / "alone",
        partial(trained_generator, findings=tmp_path / "models" / "lists"),
    )
    together, alone = (drive.contents(tmp_path / out) for out in ("predictions", "alone"))
    assert together == alone and {"sn.jsonl", "mw.jsonl", "manifest.json"} <= set(together)
