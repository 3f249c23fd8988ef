"""RadEval's metrics on a run's cases, and the installation for scoring alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from pacer.core.io import yaml_beside
from pacer.tables.columns import read_columns
from tests.integration.cli.test_installed import ROOT, TEXTS, clone

GIVEN = yaml_beside(__file__, "radeval.yaml")
RECORDED = GIVEN["recorded"]


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch) -> None:
    """A package that answers as RadEval does."""
    for name, code in GIVEN["files"].items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"RECORDED = {RECORDED!r}\n{code}" if name == "radeval/__init__.py" else code
        )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "site"))


def run(
    folder: Path, *metrics: str, python: str | Path = sys.executable
) -> subprocess.CompletedProcess:
    cases = {
        "record_id": ["a", "b"],
        "reference": ["clear .", "effusion ."],
        "hypothesis": ["clear .", "edema ."],
    }
    pl.DataFrame(cases).write_parquet(folder / "cases.parquet")
    records = {"record_id": ["b", "a"], "indication": [None, "cough"]}
    pl.DataFrame(records).write_parquet(folder / "records.parquet")
    command = [
        python,
        ROOT / "scorers/radeval.py",
        folder / "cases.parquet",
        folder / "radeval.parquet",
    ]
    command += ["--records", folder / "records.parquet", "--metrics", *metrics]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_its_file_is_one_of_columns(recorded, tmp_path: Path) -> None:
    done = run(tmp_path, *RECORDED)
    assert done.returncode == 0 and done.stdout.startswith("RadEval 2.2.1: 2 records written"), (
        done.stderr
    )
    found = read_columns(tmp_path / "radeval.parquet", ["b", "a"])
    assert found.columns == [f"radeval_{name}" for values in RECORDED.values() for name in values]
    assert found["radeval_rouge2"].to_list() == [1.0, 0.25] and found[
        "radeval_crimson"
    ].to_list() == [1.0, -0.5]
    assert found["radeval_semb"].to_list() == [0.0, 1.0]


def test_texts_of_a_certificate_get_a_table_for_each_score(recorded, tmp_path: Path) -> None:
    texts = {"id": ["a", "b"], "reference": ["clear .", "effusion ."]}
    pl.DataFrame(texts | {"text": ["clear .", "edema ."]}).write_csv(tmp_path / "texts.csv")
    command = [sys.executable, ROOT / "scorers/radeval.py", "texts.csv", "radeval"]
    command += ["--metrics", "radgraph", "ratescore"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    tables = sorted(path.name for path in (tmp_path / "radeval").iterdir())
    names = [name for metric in ("radgraph", "ratescore") for name in RECORDED[metric]]
    assert tables == sorted(f"radeval_{name}.csv" for name in names)
    found = read_columns(tmp_path / "radeval/radeval_ratescore.csv", ["b", "a"], "id", "score")
    assert found["score"].to_list() == [1.0, 0.6]


def test_what_a_metric_lacks_is_named(recorded, tmp_path: Path) -> None:
    done = run(tmp_path, "radcliq")
    assert "(OSError); it needs StanfordAIMI/RRG_scorers, distilroberta-base" in done.stderr
    package = tmp_path / "site/radeval/__init__.py"
    package.write_text("import RadEval.metrics")
    assert (
        "cannot compute bleu: package 'RadEval' is not installed; run `make radeval`"
        in run(tmp_path, "bleu").stderr
    )


def test_bleu_and_rouge_are_radevals_own(tmp_path: Path) -> None:
    python = ROOT / ".venv-radeval" / "bin" / "python"
    if not python.exists():
        pytest.skip("RadEval's environment is not here; make radeval")
    assert run(tmp_path, "bleu", "rouge", python=python).returncode == 0
    code = (
        "import json, radeval.metrics.radgraph; from radeval import RadEval; "
        "metrics = RadEval(metrics=['bleu', 'rouge'], per_sample=True, show_progress=False); "
        "print(json.dumps(metrics(refs=['clear .', 'effusion .'], hyps=['clear .', 'edema .'])))"
    )
    by_hand = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    expected = {
        f"radeval_{name}": values for name, values in json.loads(by_hand.splitlines()[-1]).items()
    }
    assert (
        pl.read_parquet(tmp_path / "radeval.parquet").drop("record_id").to_dict(as_series=False)
        == expected
    )


COMMAND = "pip install -c constraints.txt ."


def test_a_clone_in_an_empty_environment_scores_two_systems(tmp_path: Path) -> None:
    assert COMMAND in (ROOT / "README.md").read_text(encoding="utf-8")
    clone(tmp_path)
    programs = tmp_path / "environment" / "bin"
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(programs / command[0]), *command[1:]],
            cwd=tmp_path,
            env=own,
            capture_output=True,
            text=True,
            check=False,
        )

    subprocess.run([sys.executable, "-m", "venv", str(programs.parent)], check=True)
    installed = run(*COMMAND.split())
    if "No matching distribution" in installed.stderr or "connection" in installed.stderr.lower():
        pytest.skip("no package index is reached")
    assert installed.returncode == 0, installed.stderr
    assert run("python", "-c", "import torch").returncode == 1
    for name, changed in (("r", {}), ("one", {"b": "the heart is normal ."}), ("two", {})):
        (tmp_path / f"{name}.json").write_text(json.dumps(TEXTS | changed))
    for name in ("one", "two"):  # METEOR takes its time elsewhere
        texts = ("--references", "r.json", "--hypotheses", f"{name}.json")
        found = run("pacer", "score", *texts, "--out", name, "--without", "meteor")
        assert found.returncode == 0, found.stderr
    found = run("pacer", "compare", "one", "two")
    assert found.returncode == 0 and "BLEU-4" in found.stdout, found.stderr
    code = (
        "import pacer, sys; print(pacer.label(['no effusion .'])[0].negative, 'torch' in "
        "sys.modules)"
    )
    assert "False" in run("python", "-c", code).stdout
