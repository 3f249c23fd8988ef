"""A process that is killed before any of its changes to files leaves the old output, the new one, or a refusal."""

from pathlib import Path

import pytest

from pacer.core.io import atomic_directory
from tests.support.kills import PLACES, killed_runs

#: By what is written: the old and the new content, and how a reader refuses the rest.
CASES = {
    "folder": (["1", "1"], ["2", "2"], ()),
    "result": ([1, 1], [2, 2], ("has no cases.parquet", "come from different runs")),
}


@pytest.mark.parametrize("kind", CASES)
def test_no_mixture_is_left_and_the_job_can_be_done_again(tmp_path: Path, kind: str) -> None:
    old, new, refusals = CASES[kind]
    seen = set()
    for place, remains, again in killed_runs(kind, tmp_path):
        assert again == new, place
        words = next((words for words in refusals if isinstance(remains, str) and words in remains), None)
        state = {str(old): "old", str(new): "new", "[]": "none"}.get(str(remains), words)
        assert state is not None, (place, remains)
        seen.add((place, state))
    # while a folder is replaced there is a moment without one; the old one lies aside, and the next run puts it back
    missing = "none" if kind == "folder" else refusals[0]
    expected = {("new", missing), ("new", "new"), *(("replaced", state) for state in ("old", "new", missing))}
    if kind == "result":
        expected |= {(PLACES[2], state) for state in ("old", "new", refusals[1])}
    assert seen == expected


def test_a_folder_that_was_put_aside_is_put_back(tmp_path: Path) -> None:
    out, scratch = tmp_path / "out", tmp_path / "out.scratch"
    with atomic_directory(out) as folder:
        (folder / "old").touch()
    scratch.mkdir()
    out.rename(scratch / "replaced")
    with pytest.raises(ZeroDivisionError), atomic_directory(out):
        _ = 1 / 0
    assert [path.name for path in out.iterdir()] == ["old"] and not scratch.exists()
