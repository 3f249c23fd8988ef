"""A world is the same to the byte on every processor."""

import os
import subprocess
import sys

import numpy as np
import pytest

from pacer.core.io import hash_bytes
from pacer.phantom.canvas import wave
from tests.support.processor import without_features
from tests.support.repository import ROOT

DRAW = """
import sys
from pacer.config import load_params
from pacer.core.io import hash_bytes
from pacer.phantom.render import VIEWS, render
from pacer.phantom.world import make_world
corpus = load_params(sys.argv[1]).corpus
world = make_world(corpus.seed, **corpus.phantom.model_dump())
studies = [study for one in world[:40] for study in one.studies]
drawn = []
for study in studies:
    for view in VIEWS:
        image, regions = render(study, 112, view)
        # not rounded to steps of grey, regions reveal a difference in the last bit
        drawn += [image, *(regions[name] for name in sorted(regions))]
states = repr([(study.findings, study.resolved) for one in world for study in one.studies])
print(len(drawn), hash_bytes(b"".join(map(bytes, drawn))), hash_bytes(states.encode()))
"""


def drawn(settings: dict[str, str]) -> list[str]:
    """Return the number of radiographs and regions of forty patients, their hash and that of the
    findings of the whole world, from a process with these environment variables."""
    command = [sys.executable, "-c", DRAW, str(ROOT / "configs" / "phantom.yaml")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **settings}
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout.split()


@pytest.mark.skipif(not without_features(), reason="numpy has one kind of instructions here")
def test_a_world_does_not_depend_on_the_instructions_of_the_processor() -> None:
    number, *hashes = drawn({})
    assert int(number) > 400 and [number, *hashes] == drawn(without_features())


def test_a_wave_has_the_same_bits_everywhere_and_is_much_like_a_cosine() -> None:
    turns = np.arange(-40, 40, 0.001).astype(np.float32)
    drawing = wave(turns, 1.0)
    assert hash_bytes(bytes(drawing))[:16] == "204f40a818f9a8c2"
    assert np.abs(drawing - np.cos(2 * np.pi * turns.astype(np.float64))).max() < 0.021
