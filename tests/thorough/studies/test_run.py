"""Commands of one study at the same time, and a terminal that is closed."""

import shlex
import signal

from pacer.studies.run import commands
from pacer.studies.study import load_study
from tests.integration.studies.test_run import assert_it_ends
from tests.support.studies import STUDY, TinyRepository, working


def test_commands_of_a_study_run_at_the_same_time_and_make_each_stage_once(
    tiny: TinyRepository,
) -> None:
    """As Slurm starts them; one run is asked of two of them."""
    tiny.write("studies/tiny.yaml", STUDY.replace("name: SimMLM, target", "name: Sim MLM, target"))
    lines = tiny.call("study", "run", "tiny", "--print").splitlines()
    before, *comments = (line.partition("  # ")[2] for line in lines)
    assert lines[0] == "pacer study run tiny --row 'no gate' --replicate 10" and len(lines) == 8
    assert not before and comments == [*["after 1"] * 5, "after 1, 5", "after 1, 5"]
    left_out: list[str] = []
    assert (
        commands(load_study(tiny.folder / "studies", "tiny"), tiny.folder, left_out.append) == lines
    )
    assert left_out == [
        "tiny: released is left out; it needs baselines/params.yaml:llm_rg4.weights"
    ]
    processes = [
        tiny.start(*shlex.split(line, comments=True)[4:]) for line in (lines[0], lines[2], lines[0])
    ]
    told = [process.communicate(timeout=300)[0] for process in processes]
    assert not any(process.returncode for process in processes), told
    assert [len(tiny.ran(stage)) for stage in ("source", "train", "score")] == [1, 1, 2]
    assert any("waiting for another run to finish it" in text for text in told)
    assert (
        len(tiny.call("study", "run", "tiny", "--print").splitlines()) == 6 and working(tiny) == []
    )


def test_a_study_ends_with_its_terminal(tiny: TinyRepository) -> None:
    assert_it_ends(tiny, signal.SIGHUP)
