"""F1 of what needs no look at the case, against a search over all constant reports and a deal of the references."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import polars as pl
import pytest

from pacer.metrics.chexbert.observations import OBSERVATIONS
from pacer.metrics.clinical import clinical_efficacy
from pacer.metrics.statistics.sources import floors


def cases_of(labels: np.ndarray, contexts: list[str]) -> pl.DataFrame:
    ids = [str(number) for number in range(len(labels))]
    sides = {f"{side}_labels": labels.tolist() for side in ("reference", "hypothesis")}
    return pl.DataFrame({"context": contexts, "study_id": ids} | sides)


def test_no_constant_report_is_better_than_the_best_one() -> None:
    draw = np.random.default_rng(0)
    labels = (draw.random((40, 14)) < draw.uniform(0, 0.7, 14)).astype(int)
    labels[:, 6:] = 0  # a few observations, so that all their choices can be tried
    names = range(len(OBSERVATIONS))
    tried = []
    for chosen in (subset for size in range(7) for subset in combinations(range(6), size)):
        report = np.tile([int(name in chosen) for name in names], (40, 1))
        tried.append(clinical_efficacy(labels, report)["f1"] or 0.0)
    found = floors(cases_of(labels, ["sn"] * 40), "llm-rg4")
    assert found["One report for all, at best"] == pytest.approx(max(tried))


def test_floors_are_means_over_contexts_and_need_labels() -> None:
    labels = (np.random.default_rng(2).random((20, 14)) < 0.3).astype(int)
    both = floors(cases_of(labels, ["sn"] * 8 + ["mw"] * 12), "weighted")
    apart = [floors(cases_of(part, ["sn"] * len(part)), "weighted") for part in (labels[:8], labels[8:])]
    assert both == pytest.approx({name: (apart[0][name] + apart[1][name]) / 2 for name in both}) and len(both) == 1
    unlabelled = cases_of(labels, ["sn"] * 20).with_columns(hypothesis_labels=pl.lit(None, pl.List(pl.Int64)))
    assert floors(unlabelled, "llm-rg4") == {}
