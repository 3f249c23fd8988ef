"""A world is the same to the byte on every processor."""

import os
import subprocess
import sys

import numpy as np
import pytest

from pacer.core.io import hash_bytes
from pacer.phantom.canvas import cosine, power, sine
from tests.support.processor import without_features
from tests.support.repository import ROOT

#: Patients of the default world with a radiograph in which a value that is rounded otherwise in
#: numpy's float32 power (the first nine), sine or cosine changes a grey value.
SENSITIVE = "10902925 11463926 11615005 12563088 13351450 13357256 14542767 15211180 18162493 "
SENSITIVE += "10522546 11977543"
DRAW = """
import sys
from pacer.config import load_params
from pacer.core.io import hash_bytes
from pacer.phantom.render import VIEWS, render
from pacer.phantom.world import make_world
corpus = load_params(sys.argv[1]).corpus
world = make_world(corpus.seed, **corpus.phantom.model_dump())
studies = [study for one in world if one.subject_id in sys.argv[2:] for study in one.studies]
drawn = [render(study, 112, view)[0] for study in studies for view in VIEWS]
states = repr([(study.findings, study.resolved) for one in world for study in one.studies])
print(len(drawn), hash_bytes(b"".join(map(bytes, drawn))), hash_bytes(states.encode()))
"""


def drawn(settings: dict[str, str]) -> list[str]:
    """Return the number of radiographs of these patients, their hash and that of the findings of
    the whole world, from a process with these environment variables."""
    command = [sys.executable, "-c", DRAW, str(ROOT / "configs" / "phantom.yaml")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **settings}
    return subprocess.run(
        [*command, *SENSITIVE.split()], env=environment, check=True, capture_output=True, text=True
    ).stdout.split()


@pytest.mark.skipif(not without_features(), reason="numpy has one kind of instructions here")
def test_a_world_does_not_depend_on_the_instructions_of_the_processor() -> None:
    number, *hashes = drawn({})
    assert int(number) > 30 and [number, *hashes] == drawn(without_features())


def test_the_functions_that_draw_a_world_give_the_same_bits_everywhere() -> None:
    angles = np.arange(-40, 40, 0.001).astype(np.float32)
    values = (sine(angles), cosine(angles), power(abs(angles), 1.3))
    # of numpy's sine and cosine with AVX2 or newer, and of its float64 power
    assert hash_bytes(b"".join(map(bytes, values)))[:16] == "a802d8892bb0862d"
    for drawing, exact in zip(values[:2], (np.sin, np.cos)):
        assert np.abs(drawing - exact(angles.astype(np.float64))).max() < 1.2e-7
