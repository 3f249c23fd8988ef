"""The phantom does not depend on the process that makes it."""

import subprocess
import sys

from pacer.core.io import hash_file
from pacer.phantom.generate import generate_phantom
from tests.unit.phantom.test_generate import CONFIG, corpus

__all__ = ["corpus"]


def test_world_and_tokenizer_do_not_depend_on_the_hash_seed():
    script = (
        "from pacer.phantom.world import make_world; from pacer.phantom.language import report_of;"
        "from pacer.phantom.tokenizer import phantom_tokenizer;"
        "print([(s, report_of(s, 'sn').text) for p in make_world(3, 15) for s in p.studies]);"
        "print(phantom_tokenizer(900).to_str())"
    )
    command = [sys.executable, "-c", script]
    first, second = (
        subprocess.run(command, env={"PYTHONHASHSEED": value}, capture_output=True, check=True).stdout
        for value in ("1", "2")
    )
    assert len(first) > 1000 and first == second


def hashes(directory):
    return {str(path.relative_to(directory)): hash_file(path) for path in directory.rglob("*") if path.is_file()}


def test_generation_is_deterministic_whatever_the_processes(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("pacer.phantom.render._PROCESSES", 1)
    generate_phantom(CONFIG, 7, tmp_path)
    assert hashes(tmp_path) == hashes(corpus)
