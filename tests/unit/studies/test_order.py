"""The order in which several jobs take the runs of a study."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

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


@pytest.mark.parametrize(("jobs", "order"), [(1, "a1 b1 a2 b2"), (2, "a1 a2 b1 b2")])
def test_a_job_takes_the_first_run_that_shares_the_fewest_stages_with_those_in_progress(
    tmp_path: Path, jobs: int, order: str
) -> None:
    """Of two jobs the second would wait for the training of a1 if it took b1."""
    made, names = runner(tmp_path, "a1", "b1", "a2", "b2"), []
    while (following := made._take()) is not None:
        names.append(following[1].name.removeprefix("study-"))
        made._busy[:] = made._busy[-1:] if jobs == 2 else []
    assert " ".join(names) == order
