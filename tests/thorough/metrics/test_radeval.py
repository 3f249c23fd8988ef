"""`scorers/radeval.py` writes a file that `score.columns` takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from pacer.metrics.columns import read_score_columns

ROOT = Path(__file__).resolve().parents[3]
#: What RadEval 2.2.1 answers for each report of two, by metric; read off the code of its adapters.
RECORDED = {
    "bleu": {"bleu": [0.5, 1.0]},
    "rouge": {"rouge1": [0.5, 1.0], "rouge2": [0.25, 1.0], "rougeL": [0.5, 1.0]},
    "radgraph": {"radgraph_simple": [0.5, 1.0], "radgraph_partial": [0.4, 1.0], "radgraph_complete": [0.3, 1.0]},
    "ratescore": {"ratescore": [0.6, 1.0]},
    "srrbert": {
        "srrbert_weighted_f1": [0.5, 1.0],
        "srrbert_weighted_precision": [0.5, 1.0],
        "srrbert_weighted_recall": [0.5, 1.0],
    },
    "green": {"green": [0.5, 1.0]},
    "crimson": {"crimson": [-0.5, 1.0]},
    "bertscore": {"bertscore": [0.7, 1.0]},
    "radgraph_radcliq": {"radgraph_radcliq": [0.5, 1.0]},
    "temporal": {"temporal_f1": [0.0, 1.0]},
    "semb": {"semb": [1.0, 0.0]},
}


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch) -> None:
    """A package that answers as RadEval does, without RadCliQ's weights."""
    package = tmp_path / "site"
    (package / "radeval-2.2.1.dist-info").mkdir(parents=True)
    (package / "radeval-2.2.1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: radeval\nVersion: 2.2.1\n"
    )
    for name, code in (
        (
            "crimson/crimson",
            "class CRIMSON:\n"
            "    def __init__(self, provider): assert provider == 'hf'\n"
            "    def __call__(self, refs, hyps, patient_contexts):\n"
            "        assert patient_contexts == [{'indication': 'cough'}, None]\n"
            "        return 0.25, 0.75, [-0.5, 1.0], []\n",
        ),
        (
            "f1chexbert/__init__",
            "import numpy as np\n"
            "class F1CheXbert:\n"
            "    def __init__(self, device): pass\n"
            "    def get_embeddings(self, texts):\n"
            "        known = {'clear .': [3.0, 4.0], 'effusion .': [0.0, 0.0]}\n"
            "        return [np.array(known.get(text, [1.0, 0.0])) for text in texts]\n",
        ),
    ):
        path = package / f"radeval/metrics/{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    (package / "radeval" / "__init__.py").write_text(
        f"RECORDED = {RECORDED!r}\n"
        "class RadEval:\n"
        "    def __init__(self, metrics, per_sample, show_progress):\n"
        "        assert per_sample and len(metrics) == 1\n"
        "        if metrics == ['radcliq']: raise OSError('the hub cannot be reached')\n"
        "        self.metric = metrics[0]\n"
        "    def __call__(self, refs, hyps):\n"
        "        assert refs == ['clear .', 'effusion .'] and hyps == ['clear .', 'edema .']\n"
        "        return RECORDED[self.metric]\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(package))
    monkeypatch.setenv("HF_HUB_CACHE", str(package))


def run(
    folder: Path, *metrics: str, python: str | Path = sys.executable, records_too: bool = True
) -> subprocess.CompletedProcess:
    cases = {"record_id": ["a", "b"], "reference": ["clear .", "effusion ."], "hypothesis": ["clear .", "edema ."]}
    pl.DataFrame(cases).write_parquet(folder / "cases.parquet")
    records = {"record_id": ["b", "a"], "indication": [None, "cough"]}
    pl.DataFrame(records).write_parquet(folder / "records.parquet")
    command = [python, ROOT / "scorers/radeval.py", folder / "cases.parquet", folder / "radeval.parquet"]
    command += [*(("--records", folder / "records.parquet") if records_too else ()), "--metrics"]
    return subprocess.run([*command, *metrics], capture_output=True, text=True, check=False)


def test_its_file_is_one_of_columns(recorded, tmp_path: Path) -> None:
    done = run(tmp_path, *RECORDED)
    assert done.returncode == 0 and done.stdout.startswith("RadEval 2.2.1: 2 records written"), done.stderr
    found = read_score_columns(tmp_path / "radeval.parquet", ["b", "a"], ["rougeL"])
    assert found.columns == [f"radeval_{name}" for values in RECORDED.values() for name in values]
    assert found["radeval_rouge2"].to_list() == [1.0, 0.25] and found["radeval_crimson"].to_list() == [1.0, -0.5]
    assert found["radeval_semb"].to_list() == [0.0, 1.0]


def test_crimson_needs_the_indications(recorded, tmp_path: Path) -> None:
    done = run(tmp_path, "crimson", records_too=False)
    assert done.returncode == 2 and "crimson needs --records" in done.stderr


def test_weights_that_are_missing_are_named(recorded, tmp_path: Path) -> None:
    done = run(tmp_path, "radcliq")
    assert done.returncode == 1 and not (tmp_path / "radeval.parquet").exists()
    assert done.stderr == (
        "RadEval cannot make radcliq (OSError); it needs StanfordAIMI/RRG_scorers, distilroberta-base\n"
    )


def test_bleu_and_rouge_are_radevals_own(tmp_path: Path) -> None:
    python = ROOT / ".venv-radeval" / "bin" / "python"
    if not python.exists():
        pytest.skip("RadEval's environment is not here; make radeval")
    assert run(tmp_path, "bleu", "rouge", python=python).returncode == 0
    code = (
        "import json; from radeval import RadEval; "
        "metrics = RadEval(metrics=['bleu', 'rouge'], per_sample=True, show_progress=False); "
        "print(json.dumps(metrics(refs=['clear .', 'effusion .'], hyps=['clear .', 'edema .'])))"
    )
    by_hand = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout
    expected = {f"radeval_{name}": values for name, values in json.loads(by_hand.splitlines()[-1]).items()}
    assert pl.read_parquet(tmp_path / "radeval.parquet").drop("record_id").to_dict(as_series=False) == expected
