"""Studies of the phantom that show one finding in an otherwise normal chest."""

from dataclasses import replace

import numpy as np

from pacer.phantom.world import Draw, PhantomStudy, begin_finding, make_world


def example_study(
    finding: str | None, seed: int, severity: float = 0.6, lateral_only: bool = False
) -> PhantomStudy:
    """A study with both views that shows one finding, or none.

    Args:
        finding: a name of FINDINGS; None for a normal chest.
        seed: decides the body and where the finding is.
        lateral_only: the finding shows on the lateral view alone (a name of LATERAL_CAPABLE).
    """
    study = make_world(seed, 1, 1.0, lateral_fraction=1.0)[0].studies[0]
    findings = {}
    rng = np.random.default_rng([seed, 50])
    while finding is not None and not findings:
        state = begin_finding(finding, Draw(*rng.random(len(Draw._fields))), has_lateral=True)
        if state.lateral_only == lateral_only:
            findings[finding] = replace(state, severity=severity, certainty="definite")
    return replace(study, findings=findings, resolved={})
