"""Calibrations of a promise on patients from a known law."""

from __future__ import annotations

import numpy as np

from pacer.decoding.promise import GRID, passing, risk_test

LIMIT, LEVEL = 0.2, 0.1
LAWS = [  # true risk at each threshold, strictest first
    (0.05, 0.1, 0.15, 0.205, 0.3, 0.4),
    (0.2001, 0.21, 0.25, 0.3, 0.35, 0.4),
]


def broken_share(risks: tuple[float, ...], patients: int, calibrations: int) -> float:
    """The share of calibrations that promise a threshold whose true risk is above the limit. Patients have few or many
    findings, and rates of error of their own, whose mean is the threshold's risk."""
    draw, broken = np.random.default_rng(patients), 0
    for _ in range(calibrations):
        told = (1 + draw.poisson(2, patients)) * np.where(draw.random(patients) < 0.1, 3, 1)
        tests = []
        for place, (threshold, risk) in enumerate(zip(GRID, risks, strict=True)):
            stated = draw.binomial(told, 0.5 + 0.1 * place)
            wrong = draw.binomial(stated, draw.beta(4 * risk, 4 * (1 - risk), patients))
            tests.append(risk_test(wrong, stated, LIMIT, LEVEL, threshold))
        passed = passing({"false_present": tests}, LEVEL)["false_present"]
        broken += bool(passed) and risks[GRID.index(passed[-1])] > LIMIT
    return broken / calibrations
