"""The benches in miniature on the CPU, how a part of `make gpu` ends, Open-I's scores by hand."""

import runpy
import signal
import sys
import time
from pathlib import Path

import gpu as gpu_bench
import openi
import openi_scores as scores
import polars as pl
import psutil
import pytest
import torch

from pacer.commitments.rules.extract import extract_anchor
from pacer.data.schemas import of_split
from tests.support import drive
from tests.support.cases import listed_cases
from tests.support.made_records import few_records
from tests.support.models import MODEL
from tests.support.repository import ROOT


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another GPU than this machine's."""
    monkeypatch.setattr(gpu_bench, "describe", lambda: "NVIDIA Example")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("part", "row"), listed_cases(__file__, "every_bench_runs_in_miniature"))
def test_every_bench_runs_in_miniature(
    part: str, row: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, option, preset = gpu_bench.PARTS[part][1]
    assert (option, preset) == ("--preset", "gpu")
    out, threads = tmp_path / "results.md", torch.get_num_threads()
    monkeypatch.setattr(sys, "argv", [path, option, "miniature", "--out", str(out)])
    runpy.run_path(str(ROOT / path), run_name="__main__")
    torch.set_num_threads(threads)
    assert row in out.read_text()


@pytest.fixture
def on_terminate():
    """The handler of SIGTERM as it was, afterwards."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_when_stopped_it_writes_what_the_part_has_printed(
    gpu: None, on_terminate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stop = (
        "import os, signal, time; print('| begun |', flush=True); os.kill(os.getppid(), "
        "signal.SIGTERM); time.sleep(99)"
    )
    monkeypatch.setattr(
        gpu_bench, "PARTS", {"long": (1, ("-c", stop)), "next": (1, ("-c", "print(1)"))}
    )
    with pytest.raises(SystemExit, match="failed: long"):
        gpu_bench.main(["--out", str(tmp_path / "gpu.md")])
    written = (tmp_path / "gpu.md").read_text()
    assert ", stopped (" in written and "| begun |" in written and "## next" not in written


def test_a_part_that_fails_says_so_and_the_next_goes_on(
    gpu: None, on_terminate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hang = (
        "import subprocess, time; child = subprocess.Popen(['sleep', '99']); "
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid)); print('| begun |', "
        "flush=True); time.sleep(99)"
    )
    codes = {
        "slow": hang,
        "broken": "print('| half |'); raise ValueError('no room')",
        "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "good": "print('# Title\\n\\n| 1 |')",
    }
    parts = {name: (0.05 if name == "slow" else 1, ("-c", code)) for name, code in codes.items()}
    monkeypatch.setattr(gpu_bench, "PARTS", parts)
    out = tmp_path / "gpu.md"
    with pytest.raises(SystemExit, match="failed: slow, broken, killed"):
        gpu_bench.main(["--out", str(out)])
    written = {
        text.removeprefix("## ").partition(":")[0]: text for text in out.read_text().split("\n## ")
    }
    assert "ran out of its time" in written["slow"] and "| begun |" in written["slow"]
    assert "exit code 1 (" in written["broken"] and "ValueError: no room" in written["broken"]
    assert "exit code -9 (" in written["killed"]
    assert ", done (" in written["good"] and "### Title" in written["good"]
    child, end = int((tmp_path / "child").read_text()), time.monotonic() + 10
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end, "a child of a part that ran out of its time lives on"
        time.sleep(0.05)
    gpu_bench.main(["--out", str(out), "good"])
    assert out.read_text().count("## good: ") == 2


def test_unknown_parts_and_machines_without_a_gpu_are_refused(
    gpu: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys
) -> None:
    with pytest.raises(SystemExit):
        gpu_bench.main(["nothing"])
    assert "no such part: nothing; there are steps, decode" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(SystemExit, match="no CUDA device was found"):
        gpu_bench.main(["--out", str(tmp_path / "gpu.md")])


@pytest.fixture
def corpus() -> pl.DataFrame:
    """Contexts sn and mn of eight patients, the last three in test, two of whose reports are in no
    other."""
    records = few_records(".png").filter(pl.col("context").is_in(["sn", "mn"]))
    last = pl.col("study_id").is_in(["s5", "s6", "s7"])
    added = (
        pl.when(pl.col("study_id").is_in(["s5", "s6"]))
        .then(pl.lit(" the ribs are old ."))
        .otherwise(pl.lit(""))
    )
    return records.with_columns(
        split=pl.when(last).then(pl.lit("test")).otherwise(pl.lit("train")),
        report=pl.col("report") + added,
    )


def test_the_nearest_radiograph_is_the_same_one(
    corpus: pl.DataFrame, backbones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive.write_features(
        tmp_path / "features", tmp_path / "images", backbones, drive.parameters(MODEL), seed=0
    )
    monkeypatch.setattr(openi, "FEATURES", tmp_path / "features")
    assert openi.nearest_reports(corpus, corpus) == dict(
        corpus.select("record_id", "report").iter_rows()
    )


def written(
    row: str, replicate: str | None, control: str, reports: dict[str, str], *, committed: bool
) -> list[dict]:
    """Lines of one system, with what the rules read in its reports for a commitment."""
    about = {"row": row, "replicate": replicate, "control": control}
    return [
        about
        | {
            "record_id": record,
            "report": text,
            "commitment": extract_anchor(text).as_dict() if committed else None,
        }
        for record, text in reports.items()
    ]


def test_findings_chance_and_controls(corpus: pl.DataFrame, tmp_path: Path) -> None:
    """The three test reports of a context name nothing, a cardiomegaly, and an effusion and a
    pneumonia."""
    train, test = of_split(corpus, "train"), of_split(corpus, "test")
    right = dict(test.select("record_id", "report").iter_rows())
    heart = dict.fromkeys(right, "mild cardiomegaly .")
    lateral = {record: text for record, text in heart.items() if record.startswith("mn")}
    lines = written(scores.PACER, "43", "", right, committed=True)
    for control, reports in ((scores.ANOTHER, heart), (scores.NO_LATERAL, lateral)):
        lines += written(scores.PACER, "43", control, reports, committed=True)
    lines += written(scores.NEAREST, None, "", heart, committed=False)
    lines += written(
        scores.CONSTANT, None, "", openi.constant_reports(train, test), committed=False
    )
    openi.write_lines(lines, tmp_path)
    judged = scores.Corpus(corpus, openi.read_lines(tmp_path))
    names = [scores.PACER, scores.NEAREST, scores.CONSTANT]
    table = scores.findings_table(judged, names)
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table
        if line.startswith("| ")
    ][1:]
    assert [[*row[:3], row[3].split()[0]] for row in rows] == [
        [scores.PACER, "43", "commitment", "1.000"],
        [scores.PACER, "43", "report", "1.000"],
        [scores.NEAREST, "–", "report", ".333"],
        [scores.CONSTANT, "–", "report", ".000"],
    ]
    assert [cell.split(" (")[0] for cell in rows[0][6:]] == [".333", ".333", "6 of 6"]
    assert rows[2][4] == ".333", "whoever writes the same for everybody has the F1 of chance"
    assert abs(float(rows[0][4]) - 1 / 3) < 0.05, (
        "each of three findings meets its patient in a third of the deals"
    )
    pair = scores.System(scores.PACER), scores.System(scores.NEAREST)
    cells, _ = scores.difference_cells(judged, *pair)
    assert [cell.split(" (")[0] for cell in cells[1:]] == ["+.667", "+.667", "+.667"]
