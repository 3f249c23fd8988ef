"""Messages of the library: shown by the command line and the stages, else left to the user's own
logging."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pacer.core.messages import printed_messages

ROOT = Path(__file__).parents[3]


def test_messages_are_printed_once_and_only_inside_the_block(
    capsys: pytest.CaptureFixture[str],
) -> None:
    training = logging.getLogger("pacer.training.run")
    labelling = logging.getLogger("pacer.commitments.labelling")
    training.info("before")
    with printed_messages(), printed_messages():
        training.info("12 records, 100% of them")
        labelling.info("3 requests")
    training.info("after")
    printed = capsys.readouterr()
    assert printed.out == "12 records, 100% of them\n"
    assert printed.err == "3 requests\n"


@pytest.mark.parametrize("starter", ["run.py", "launch.py"])
def test_a_stage_prints_messages(starter: str, tmp_path: Path) -> None:
    (tmp_path / "stage.py").write_text(
        "import logging\n"
        "def main():\n"
        "    logging.getLogger('pacer.decoding.run').info('decode: done')\n"
        "    logging.getLogger('pacer.core.io').warning('no locks')\n"
    )
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "HF_HOME": str(tmp_path),
        "CUDA_VISIBLE_DEVICES": "",
    }
    done = subprocess.run(
        [sys.executable, str(ROOT / "stages" / starter), "stage.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "decode: done\n", "no locks\n")
