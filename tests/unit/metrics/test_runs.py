"""Which run some scores are of, and what the pages say about the equality of two runs."""

import re
import subprocess
from pathlib import Path

import last_run
import pytest

from pacer.config.strict import read_mapping
from pacer.core.errors import DataError
from pacer.core.io import hash_file, hash_json, write_json
from pacer.metrics.runs import SPREAD, describe_run, record_run

ROOT = Path(__file__).parents[3]
MICRO = {"profile": "micro", "seed": 42, "changed": {}}
SEEN = read_mapping(ROOT / "bench/results/default_f1.yaml")


def write_scores(folder: Path, parameters: dict | None, f1: float = 0.7) -> None:
    scores = {"mean": {"f1": f1}}
    write_json(folder / "scores.json", scores)
    signature = {"parameters": parameters, "scores_hash": hash_json(scores)}
    write_json(folder / "signature.json", signature)


@pytest.fixture
def metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of scores in a git repository with one commit, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / "metrics").mkdir()
    (tmp_path / "pacer").mkdir()
    (tmp_path / "pacer" / "code.py").write_text("a = 1\n")
    user = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    for command in (("init", "-q"), ("add", "pacer"), (*user, "commit", "-q", "-m", "a")):
        subprocess.run(["git", *command], check=True)
    write_scores(tmp_path / "metrics", MICRO)
    return tmp_path / "metrics"


def test_a_run_is_described_by_its_parameters_hash_commit_and_processor(metrics: Path) -> None:
    record_run(metrics)
    commit = subprocess.check_output(["git", "rev-parse", "--short=8", "HEAD"], text=True).strip()
    known = hash_file(metrics / "scores.json")[:8]
    told = (
        rf"profile micro, seed 42; scores {known} of [-0-9]{{10}} [:0-9]+\S+; commit {commit}; .+"
    )
    assert re.fullmatch(told, describe_run(metrics))


def test_uncommitted_changes_of_the_code_are_noted(metrics: Path) -> None:
    Path("params.yaml").write_text("a: 1\n")  # not code
    record_run(metrics)
    assert "uncommitted" not in describe_run(metrics)
    Path("pacer/new.py").write_text("a = 2\n")
    record_run(metrics)
    assert "with uncommitted changes; " in describe_run(metrics)


def test_a_run_outside_git_has_no_commit(metrics: Path) -> None:
    Path(".git").rename("elsewhere")
    record_run(metrics)
    assert "commit" not in describe_run(metrics) and " thread" in describe_run(metrics)


def test_each_run_keeps_its_record(metrics: Path) -> None:
    record_run(metrics)
    first = describe_run(metrics)
    write_scores(metrics, MICRO, f1=0.6)
    assert describe_run(metrics).endswith(", which this clone did not compute")
    record_run(metrics)
    write_scores(metrics, MICRO)
    assert describe_run(metrics) == first


def test_files_of_two_runs_are_refused(metrics: Path) -> None:
    write_json(metrics / "scores.json", {"mean": {"f1": 0.5}})
    with pytest.raises(DataError, match="come from different runs"):
        describe_run(metrics)


def test_scores_of_an_earlier_version_have_no_parameters(metrics: Path) -> None:
    write_scores(metrics, None)
    assert describe_run(metrics).startswith("scores ")


@pytest.mark.parametrize(
    ("f1", "changed", "place"),
    [
        (SEEN["low"], {}, "in"),
        (SEEN["low"] - 0.01, {}, "below"),
        (SEEN["high"] + 0.01, {}, "above"),
        (SEEN["high"], {"lora.rank": 4}, None),
    ],
)
def test_the_last_run_is_compared_with_the_expected_range_of_its_profile(
    f1: float,
    changed: dict,
    place: str | None,
    metrics: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    results = metrics.parent / "bench" / "results"
    results.mkdir(parents=True)
    seen = (ROOT / "bench/results/default_f1.yaml").read_text()
    (results / "default_f1.yaml").write_text(seen)
    write_scores(metrics, {"profile": "phantom", "seed": 43, "changed": changed}, f1)
    monkeypatch.setattr(last_run, "ROOT", metrics.parent)
    last_run.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("profile phantom, seed 43") and lines[1].endswith(SPREAD)
    assert [
        f"mean F1 {f1:.3f}, seed 43, is {place} the expected" in line for line in lines[2:]
    ] == ([True] if place else [])


def test_the_pages_say_the_same_about_two_runs() -> None:
    texts = [
        " ".join((ROOT / name).read_text(encoding="utf-8").split())
        for name in ("docs/training.md", "docs/pipeline.md")
    ]
    said = [
        re.findall(rf"\*\*Reproducibility\.\*\* .*?{re.escape(SPREAD)}", text) for text in texts
    ]
    assert said[0] == said[1] and len(said[0]) == 1
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    bounds = re.findall(r"\d\.\d+", SPREAD)
    assert len(bounds) == 2
    assert re.search(r"This is one run: .* by up to {}, .* by up to {}\.".format(*bounds), readme)
