"""Studies that are killed, and what counts as their code."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pacer.core.errors import ConfigError, PacerError
from pacer.core.io import read_json
from pacer.studies.dvc import MARK
from pacer.studies.run import results_folder, run_study
from pacer.studies.study import load_study
from tests.integration.studies.test_run import alive, cells, start
from tests.support.studies import FakeRepository


def test_an_experiment_left_by_a_kill_is_replaced(repository: FakeRepository, run) -> None:
    run()
    for record in (results_folder(repository.folder) / "runs").glob("*/run.json"):
        if read_json(record)["row"] == "gated":
            record.unlink()
    run()
    names = (repository.fake / "experiments").read_text().split()
    assert len(names) == len(set(names)) == 3


def test_a_killed_row_goes_on_where_it_was(repository: FakeRepository, run) -> None:
    """Half-trained state and outs of its checkout are there again, locks of the dead DVC are not."""
    repository.dvc("repro", "score")
    process = start(repository)
    process.kill()
    process.communicate()
    [tree] = (results_folder(repository.folder) / "worktrees").glob("*/tree")
    (tree / "models" / "weights.scratch").mkdir()
    (tree / "models" / "weights.scratch" / "step").write_text("7")
    (tree / ".dvc" / "tmp").mkdir(parents=True)
    (tree / ".dvc" / "tmp" / "rwlock").write_text("{}")
    repository.write("code/score.py", "# edited after the kill\n")
    dvc = repository.folder / "bin" / "dvc"
    dvc.write_text(
        dvc.read_text().replace(
            "definition =",
            "seen = [*Path().rglob('step'), *Path().rglob('rwlock')]\nif seen: print(*seen)\ndefinition =",
        )
    )
    assert run()[0] == "tiny: 3 of 3 runs to make"
    logs = [path.read_text() for path in (results_folder(repository.folder) / "logs").iterdir()]
    assert any("models/weights.scratch/step" in log for log in logs) and not any("rwlock" in log for log in logs)
    assert not tree.exists()


def test_a_broken_checkout_is_made_anew(repository: FakeRepository, run) -> None:
    process = start(repository)
    process.kill()
    process.communicate()
    [tree] = (results_folder(repository.folder) / "worktrees").glob("*/tree")
    (tree / ".git").write_text("gitdir: /nowhere")
    before = repository.state()
    assert run()[0] == "tiny: 1 of 3 runs to make"
    assert repository.state() == before and cells(repository)["gated"] == "0.800"


def test_a_terminated_study_ends_its_dvc(repository: FakeRepository, run) -> None:
    repository.dvc("repro", "score")
    before = repository.state()
    process = start(repository)
    orphan = int((repository.fake / "hanging").read_text())
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode not in (0, None) and not alive(orphan)
    assert repository.state() == before
    assert run()[0] == "tiny: 1 of 3 runs to make"


def test_a_stage_that_outlives_its_dvc_is_waited_for(repository: FakeRepository, run) -> None:
    process = start(repository)
    slow = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import signal, time; signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), exit()));"
            "print('ready', flush=True); time.sleep(60)",
        ],
        env={**os.environ, MARK: str(results_folder(repository.folder) / "worktrees")},
        stdout=subprocess.PIPE,
    )
    assert slow.stdout is not None and slow.stdout.readline() == b"ready\n"
    process.kill()
    process.communicate()
    run()
    assert slow.poll() == 0
    slow.stdout.close()


@pytest.mark.parametrize(("path", "moment"), [("code/score.py", "  score: runs"), ("dvc.yaml", "[2/3]")])
def test_a_study_runs_the_code_that_it_found(repository: FakeRepository, run, path: str, moment: str) -> None:
    """The user may go on editing: the keys of all rows stand for the code at the start, and so do their runs."""
    (repository.folder / path).write_text(text := repository.read(path) + "# not committed\n")

    def edit(line: str) -> None:
        if line.startswith(moment):
            new = text.replace("cmd: python code/score.py\n", "cmd: python -O code/score.py\n")
            repository.write(path, new + "# later\n")

    study = load_study(repository.folder / "studies", "tiny")
    run_study(study, repository.folder, edit)
    assert repository.read(path).endswith("# later\n")
    assert run()[0] == "tiny: 3 of 3 runs to make"
    repository.write(path, text)
    assert run()[0].startswith("tiny: nothing to do")


def test_new_files_and_deleted_ones_are_part_of_the_code(repository: FakeRepository, run) -> None:
    text = repository.read("dvc.yaml").replace("code/train.py, data/source", "code/train.py, code/more, data/source")
    repository.write("dvc.yaml", text)
    repository.write("code/more/new.py", "# not in git\n")
    (repository.folder / "code" / "report.py").unlink()
    before = repository.state()
    run()
    assert repository.state() == before
    assert run()[0].startswith("tiny: nothing to do")
    repository.write("code/more/new.py", "# edited\n")
    assert run()[0] == "tiny: 3 of 3 runs to make"


def test_the_users_own_data_are_found_by_their_relative_path(repository: FakeRepository, run) -> None:
    text, dvc = repository.read("params.yaml"), repository.folder / "bin" / "dvc"
    beside, inside = f"../{repository.folder.name}-beside", "own/files"
    for path in (beside, inside):
        repository.write(f"{path}/file", path)
    repository.write(".gitignore", repository.read(".gitignore") + "/own\n")
    check = f"assert all((Path(p) / 'file').read_text() == p for p in ('{beside}', '{inside}'))"
    dvc.write_text(dvc.read_text().replace("def repro(targets):", f"def repro(targets):\n    {check}"))
    assert text.count("root: null") == 1 and text.count("prompt_file: null") == 1
    text = text.replace("prompt_file: null", f"prompt_file: {inside}")
    repository.write("params.yaml", text.replace("root: null", f"root: {beside}"))
    before = repository.state()
    run()
    assert repository.state() == before
    repository.write("params.yaml", text.replace("root: null", "root: ../.."))
    with pytest.raises(ConfigError, match=r"write \.\./\.\. in the parameters as /"):
        run()


def test_a_failed_row_lets_those_beside_it_end(repository: FakeRepository, run) -> None:
    (repository.fake / "meet").write_text("2")
    (repository.fake / "fail").write_text("hze")
    with pytest.raises(PacerError, match="failed to reproduce 'score'"):
        run("tiny", "no gate", "gated", jobs=2)
    assert cells(repository)["no gate"] == "0.550"
    (repository.fake / "fail").unlink()
    (repository.fake / "meet").unlink()
    assert run(jobs=2)[0] == "tiny: 2 of 3 runs to make"


def test_code_that_prepares_other_data_runs_all_rows_again(repository: FakeRepository, run) -> None:
    """The edit is noticed by the first row that is made, and no table holds rows of both."""
    repository.dvc("repro", "score")
    run("tiny", "no gate")
    repository.write("code/source.py", "# other\n")
    (repository.fake / "data").write_text("second")
    run("tiny", "gated")
    assert cells(repository) == {"no gate": "–", "direct": "–", "no gate again": "–", "gated": "0.800"}
    assert run()[0] == "tiny: 2 of 3 runs to make"
    assert run()[0].startswith("tiny: nothing to do")
