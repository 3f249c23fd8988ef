"""The order in which several jobs take the runs of a study."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pacer.studies.plan import Run
from pacer.studies.run import StudyRunner


def runner(tmp_path: Path, *names: str) -> StudyRunner:
    """Rows a and b of every dataset share a training."""
    keys = [{"train": name[1], "score": name} for name in names]
    runs = [Run(0, name[1], f"study-{name}", [], {}, {}, key) for name, key in zip(names, keys, strict=True)]
    repository: Any = SimpleNamespace(root=tmp_path)
    dvc: Any = SimpleNamespace(cache=lambda root: str(root))
    study: Any = None
    return StudyRunner(study, repository, tmp_path, dvc, runs, print)


def taken(runner: StudyRunner) -> str:
    following = runner._take()
    assert following is not None
    return following[1].name.removeprefix("study-")


def test_a_job_takes_the_first_run_that_shares_the_fewest_stages_with_those_in_progress(tmp_path: Path) -> None:
    several = runner(tmp_path, "a1", "b1", "a2", "b2")
    assert [taken(several), taken(several)] == ["a1", "a2"]  # b1 would wait for the training of a1
    assert [taken(several), taken(several)] == ["b1", "b2"]
    assert several._take() is None


def test_one_job_keeps_the_order_of_the_study(tmp_path: Path) -> None:
    one = runner(tmp_path, "a1", "b1", "a2")
    order = []
    for _ in range(3):
        order.append(taken(one))
        one._busy.clear()
    assert order == ["a1", "b1", "a2"]
