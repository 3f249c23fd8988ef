from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from pacer.core.io import read_jsonl
from pacer.metrics import external_scorers
from pacer.metrics.external_scorers import Pair, run_scorer

ROOT = Path(__file__).resolve().parents[2]
PAIRS = [Pair(f"r{number}", "a b c", "a " * number) for number in range(5)]
#: A scorer of the number of words that notes every record it is asked for; ``{...}`` is what a test changes.
SCORER = """
import argparse, json, time
from pathlib import Path
parser = argparse.ArgumentParser()
for name in ("references", "hypotheses", "out"):
    parser.add_argument("--" + name, type=Path)
given = parser.parse_args()
rows = [json.loads(line) for line in given.hypotheses.read_text().splitlines()]
with open({asked!r}, "a") as asked:
    asked.write("".join(row["record_id"] + "\\n" for row in rows))
scores = [{{"record_id": row["record_id"], "words": len(row["text"].split())}} for row in rows]
about = {{"name": "words", "version": {version!r}}}
{change}
(given.out / "scores.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in scores))
(given.out / "about.json").write_text(json.dumps(about))
"""


class Scorer:
    """A command in a folder of its own, and what it was asked."""

    def __init__(self, folder: Path):
        self.script, self.asked = folder / "scorer.py", folder / "asked.txt"
        self.command = f"{sys.executable} {self.script}"
        self.write()

    def write(self, change: str = "", version: str = "1") -> None:
        self.script.write_text(SCORER.format(asked=str(self.asked), version=version, change=change))

    def ids(self) -> list[str]:
        """The records that it was asked for since the last call of this."""
        ids = self.asked.read_text().split() if self.asked.exists() else []
        self.asked.unlink(missing_ok=True)
        return ids


@pytest.fixture
def scorer(tmp_path, monkeypatch) -> Scorer:
    monkeypatch.setattr(external_scorers, "BATCH", 2)
    return Scorer(tmp_path)


def test_every_record_has_its_number(scorer, tmp_path):
    found = run_scorer("words", scorer.command, PAIRS, tmp_path / "kept", 1)
    assert found.failed is None
    assert found.values == {"words": [0.0, 1.0, 2.0, 3.0, 4.0]}
    assert found.about == {"name": "words", "version": "1"}
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"words.jsonl", "words.log"}  # no texts stay


def test_nothing_is_asked_twice(scorer, tmp_path):
    run_scorer("words", scorer.command, PAIRS[:3], tmp_path, 1)
    scorer.ids()
    assert run_scorer("words", scorer.command, PAIRS, tmp_path, 1).values["words"] == [0, 1, 2, 3, 4]
    assert scorer.ids() == ["r3", "r4"]
    changed = [PAIRS[0]._replace(hypothesis="a b c d"), *PAIRS[1:]]
    assert run_scorer("words", scorer.command, changed, tmp_path, 1).values["words"] == [4, 1, 2, 3, 4]
    assert scorer.ids() == ["r0"]


def test_a_killed_run_keeps_the_answers_it_has(scorer, tmp_path):
    scorer.write(change="if rows[0]['record_id'] == 'r2': time.sleep(600)")
    code = (
        "from pathlib import Path; from pacer.metrics import external_scorers as e; e.BATCH = 2; "
        f"e.run_scorer('words', {scorer.command!r}, "
        "[e.Pair(f'r{n}', 'a b c', 'a ' * n) for n in range(5)], Path("
        f"{str(tmp_path)!r}), 60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)})
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and "r2" not in (scorer.asked.read_text() if scorer.asked.exists() else ""):
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert scorer.ids() == ["r0", "r1", "r2", "r3"]
    scorer.write()
    assert run_scorer("words", scorer.command, PAIRS, tmp_path, 1).values["words"] == [0, 1, 2, 3, 4]
    assert scorer.ids() == ["r2", "r3", "r4"]


def test_another_version_scores_everything_anew(scorer, tmp_path):
    run_scorer("words", scorer.command, PAIRS[:3], tmp_path, 1)
    scorer.write(version="2")
    scorer.ids()
    found = run_scorer("words", scorer.command, PAIRS, tmp_path, 1)
    assert found.about["version"] == "2"
    assert set(scorer.ids()) == {"r0", "r1", "r2", "r3", "r4"}
    assert {row["about"]["version"] for row in read_jsonl(tmp_path / "words.jsonl")} == {"2"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("raise SystemExit(3)", "ended with status 3"),
        ("import os; os.kill(os.getpid(), 9)", "signal 9 ended it"),
        ("scores.pop()", "1 records have none: r1"),
        ("scores[0]['record_id'] = 'x'", "1 are of other ids, and 1 records have none: r0"),
        ("scores[0]['words'] = float('nan')", "words of r0 is no finite number"),
        ("scores[0]['words'] = True", "words of r0 is no finite number"),
        ("scores[0]['words'] = 'three'", "words of r0 is no finite number"),
        ("scores[0]['words'] = 10 ** 400", "words of r0 is no finite number"),
        ("scores[0]['record_id'] = 'a b c'", "1 are of other ids"),
        ("scores.append(scores[0])", "3 lines for 2 records"),
        ("scores[0]['more'] = 1", "r1 has values of other names than r0"),
        ("scores = [{'record_id': row['record_id'], 'a b c': 1} for row in rows]", "names of values have letters"),
        ("del scores[0]['words']", "one number or more"),
        ("scores = [[]]", "one number or more"),
        ("about = []", "name and version"),
        ("del about['version']", "name and version"),
        ("about['version'] = time.time()", "change from one call to the next"),
    ],
)
def test_a_scorer_that_fails_says_how(scorer, tmp_path, change, words):
    scorer.write(change)
    found = run_scorer("words", scorer.command, PAIRS, tmp_path / "kept", 1)
    assert not found.values
    assert found.failed is not None and found.failed.startswith("scorer words: ") and words in found.failed
    assert "\n" not in found.failed and "a b c" not in found.failed
    assert not list((tmp_path / "kept").rglob("*ences.jsonl"))  # no texts stay
    scorer.write()  # mended, under the same version: a bad answer was never kept
    assert run_scorer("words", scorer.command, PAIRS, tmp_path / "kept", 1).values["words"] == [0, 1, 2, 3, 4]


def test_a_scorer_that_cannot_be_started(tmp_path):
    found = run_scorer("words", "no-such-command", PAIRS, tmp_path, 1)
    assert found.failed == "scorer words: no-such-command cannot be started: No such file or directory"


def test_a_time_limit_ends_all_of_it(scorer, tmp_path):
    child = tmp_path / "child.pid"
    sleeper = f"import os, time; open({str(child)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    scorer.write(change=f"import subprocess, sys; subprocess.run([sys.executable, '-c', {sleeper!r}])")
    found = run_scorer("words", scorer.command, PAIRS, tmp_path / "kept", 0.05)
    assert found.failed is not None and "within 0.05 minutes" in found.failed
    time.sleep(0.2)
    assert not child.exists() or not alive(int(child.read_text() or 0))


def alive(process: int) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{process}/status").read_text() if process else False
    except OSError:
        return False


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
    "radcliq": {"radcliq_v1": [1.5, -0.2]},
    "green": {"green": [0.5, 1.0]},
    "crimson": {"crimson": [-0.5, 1.0]},
}


@pytest.fixture
def recorded_radeval(tmp_path, monkeypatch) -> Path:
    """A package that answers as RadEval does, without RadCliQ's weights."""
    package = tmp_path / "site"
    (package / "radeval-2.2.1.dist-info").mkdir(parents=True)
    (package / "radeval-2.2.1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: radeval\nVersion: 2.2.1\n"
    )
    (package / "rouge_score-0.1.2.dist-info").mkdir()
    (package / "rouge_score-0.1.2.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: rouge_score\nVersion: 0.1.2\n"
    )
    (package / "radeval.py").write_text(
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
    return package


def radeval_command(*metrics: str, python: str | Path = sys.executable) -> str:
    return f"{python} {ROOT / 'scorers' / 'radeval.py'} --metrics {' '.join(metrics)}"


def test_radevals_answers_are_read(recorded_radeval, tmp_path):
    pairs = [Pair("a", "clear .", "clear ."), Pair("b", "effusion .", "edema .")]
    wanted = [metric for metric in RECORDED if metric != "radcliq"]
    found = run_scorer("radeval", radeval_command(*wanted), pairs, tmp_path / "kept", 1)
    assert found.failed is None
    assert found.values == {name: values for metric in wanted for name, values in RECORDED[metric].items()}
    assert (found.about["name"], found.about["version"], found.about["metrics"]) == ("RadEval", "2.2.1", wanted)


def test_weights_that_are_missing_are_named(recorded_radeval, tmp_path):
    found = run_scorer("radeval", radeval_command("radcliq"), [Pair("a", "clear .", "x")], tmp_path / "kept", 1)
    assert found.failed is not None and "ended with status 1" in found.failed
    said = (tmp_path / "kept" / "radeval.log").read_text().splitlines()
    assert said == ["RadEval cannot make radcliq (OSError); it needs StanfordAIMI/RRG_scorers, distilroberta-base"]


@pytest.mark.slow
def test_radevals_bleu_and_rouge_are_its_own(tmp_path):
    python = ROOT / ".venv-radeval" / "bin" / "python"
    if not python.exists():
        pytest.skip("RadEval's environment is not here; make radeval")
    texts = ["no acute cardiopulmonary process .", "small left effusion . no pneumothorax .", "the heart is large ."]
    pairs = [Pair(str(n), one, other) for n, (one, other) in enumerate(zip(texts, [*texts[1:], texts[1]], strict=True))]
    found = run_scorer("radeval", radeval_command("bleu", "rouge", python=python), pairs, tmp_path, 10)
    assert found.failed is None
    code = (
        "import json, sys; from radeval import RadEval; sides = json.load(sys.stdin); "
        "metrics = RadEval(metrics=['bleu', 'rouge'], per_sample=True, show_progress=False); "
        "print(json.dumps(metrics(refs=sides[0], hyps=sides[1])))"
    )
    sides = json.dumps([[pair.reference for pair in pairs], [pair.hypothesis for pair in pairs]])
    by_hand = subprocess.run([python, "-c", code], input=sides, capture_output=True, text=True, check=True).stdout
    assert found.values == json.loads(by_hand.splitlines()[-1])


@pytest.mark.slow
def test_numbers_reach_scores_cases_and_comparison(scorer, tmp_path, chexbert_directory, one_meteor):
    from pacer.comparison.compare import compare_runs
    from tests.metrics.test_scoring import Case

    case = Case(tmp_path / "case", chexbert_directory())
    external = {"words": scorer.command, "broken": "no-such-command"}
    scores = case.score(external=external)
    cases = pl.read_parquet(tmp_path / "case" / "metrics" / "cases.parquet")
    for context in ("sn", "mn"):
        counted = cases.filter(context=context)["hypothesis"].str.split(" ").list.len()
        assert scores[context]["words/words"] == counted.mean()
        assert cases.filter(context=context)["words/words"].to_list() == counted.to_list()
    assert scores["mean"]["words/words"] == pytest.approx(
        (scores["sn"]["words/words"] + scores["mn"]["words/words"]) / 2
    )
    about = case.read("signature.json")["external"]
    assert about["words"] == {"values": ["words"], "about": {"name": "words", "version": "1"}}
    assert "cannot be started" in about["broken"]["failed"]
    without = case.score(out_dir=tmp_path / "without")
    assert all(scores["sn"][name] == value for name, value in without["sn"].items())  # nothing else is lost by it
    assert compare_runs(tmp_path / "case", tmp_path / "case", resamples=20).scores["sn"]["words/words"].difference == 0
    assert "words/words" in compare_runs(tmp_path / "case", tmp_path / "without", resamples=20).left_out
    scorer.write(change="for row in scores: row['length'] = row.pop('words')")
    case.score(out_dir=tmp_path / "other", external={"words": scorer.command})
    left_out = compare_runs(tmp_path / "case", tmp_path / "other", resamples=20).left_out
    assert {"words/words", "words/length"} <= left_out.keys()
