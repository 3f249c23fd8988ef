"""A call in a forked process, where the threads of polars are missing."""

import os
import subprocess
import sys

import pytest

from tests.support.repository import ROOT

CALLS = {
    "score": "pacer.score(['edema'], ['edema'], without=['meteor'])",
    "compare": "pacer.compare(one, one)",
    "reward": "pacer.reward(['edema'], ['edema'])",
}
FORKING = """
import multiprocessing, sys
import pacer

def call(_):
    return {call}

if __name__ == "__main__":
    if sys.argv[1] == "used":
        one = pacer.score(["edema"], ["edema"], without=["meteor"])
    with multiprocessing.get_context("fork").Pool(1) as pool:
        try:
            print(pool.map_async(call, [0]).get(timeout=60))
        except Exception as error:
            print(type(error).__name__, error)
"""


def forked(call: str, before: str) -> str:
    command = [sys.executable, "-c", FORKING.replace("{call}", CALLS[call]), before]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=environment, capture_output=True, text=True).stdout


@pytest.mark.parametrize("call", CALLS)
def test_a_process_forked_after_a_call_is_refused_in_one_sentence(call: str) -> None:
    printed = forked(call, "used")
    assert printed.startswith(f"PacerError pacer.{call} cannot run in a process that was forked")
    assert "get_context('spawn')" in printed and printed.count("\n") == 1


def test_a_process_forked_before_any_call_answers() -> None:
    assert forked("reward", "unused") == "[[1.0]]\n"
