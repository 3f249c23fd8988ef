"""A promise on what reports state (``decode.risk``): thresholds, one for each context, with tested
rates of error.

For a threshold and a patient i let ``stated_i`` be the findings that the patient's reports affirm,
and ``wrong_i`` those of them that the references do not affirm, both read by the rules.
``false_present: alpha`` promises

    E[wrong] <= alpha · E[stated]    for patients exchangeable with those of val,

with the given confidence over the patients of val. ``missed`` promises the same of the findings
that the references affirm, and those of them that the reports do not. Method: Learn then Test
(Angelopoulos et al., arXiv:2110.01052) with fixed sequences over :data:`GRID`: from the strictest
threshold on, each is tested until one does not pass. Strictest is the highest for ``false_present``
and the lowest for ``missed``; two promises share the error of the test. Thresholds at which too few
patients have a finding for a test are skipped. That depends on what is stated and not on errors, so
the first test still has the whole error. The reports tested are those shown, so val is decoded with
each threshold. Not in the paper (``docs/readings.md``).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import t as student

from pacer.commitments.rules import extract_anchor
from pacer.config.decode import Risk
from pacer.core.errors import DataError

#: The file beside the predictions.
PROMISE = "promise.json"
#: Thresholds that are tested.
GRID = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
#: Patients with a finding in the denominator from which the test, which is asymptotic, is made.
ASYMPTOTIC = 50
#: Patients that a refusal counts to.
_MOST_PATIENTS = 100_000


@dataclass(frozen=True)
class RiskTest:
    """One threshold, tested on the patients of a context (``told`` with a finding): ``errors``
    among ``findings``, p of the hypothesis that the promise does not hold, and patients ``enough``
    for it at this rate (None: no number)."""

    threshold: float
    patients: int
    told: int
    findings: int
    errors: int
    p: float
    enough: int | None

    def tested(self, patients: int | None = None) -> bool:
        """Return whether the test is made; ``patients``: with so many like these."""
        return self.told * (patients or self.patients) >= ASYMPTOTIC * self.patients


def counts(reports: Sequence[str], references: Sequence[str]) -> dict[str, np.ndarray]:
    """Return errors and findings of each record [n, 2], for each kind of promise."""
    rows: dict[str, list[tuple[int, int]]] = {"false_present": [], "missed": []}
    for report, reference in zip(reports, references, strict=True):
        stated, there = (
            set(extract_anchor(report).positive),
            set(extract_anchor(reference).positive),
        )
        rows["false_present"].append((len(stated - there), len(stated)))
        rows["missed"].append((len(there - stated), len(there)))
    return {kind: np.array(of_kind).reshape(-1, 2) for kind, of_kind in rows.items()}


def risk_test(
    errors: np.ndarray, findings: np.ndarray, limit: float, level: float, at: float
) -> RiskTest:
    """Test E[loss] >= 0 over patients [n], where loss = errors - limit · findings; p <= level
    rejects it.

    1. Add one patient, all of whose findings are errors, as many as a random finding's patient has:
       no promise may rest on errors that are only rare.
    2. Take Student's t of the mean loss of all of them, corrected for skewness (Hall, J. R. Stat.
       Soc. B 54, 1992: 221; monotone). Below :data:`ASYMPTOTIC` patients with a finding p is 1.
    3. Repeat with more patients of the same moments, to find how many would be enough.

    Args:
        level: of the test. at: the threshold.
    """
    loss, patients = errors - limit * findings, len(errors)
    with_finding, mean = int((findings > 0).sum()), float(loss.mean())
    added_loss = (1 - limit) * float((findings**2).sum()) / max(float(findings.sum()), 1.0)
    variance, third = float(loss.var()), float(((loss - mean) ** 3).mean())

    def statistic(size: Any) -> Any:
        # how far the mean of all lies above that of the others, and the added patient above the
        # mean of all
        shift, distance = (added_loss - mean) / (size + 1), (added_loss - mean) * size / (size + 1)
        deviation = np.sqrt(variance + shift**2 + distance**2 / size)
        skewness = (
            (size * (third - 3 * variance * shift - shift**3) + distance**3)
            / (size + 1)
            / deviation**3
        )
        plain, skewed = (mean + shift) * np.sqrt(size + 1) / deviation, skewness / np.sqrt(size + 1)
        return plain + skewed * plain**2 / 3 + skewed**2 * plain**3 / 27 + skewed / 6

    p = float(student.cdf(statistic(patients), patients)) if with_finding >= ASYMPTOTIC else 1.0
    enough = None
    if mean < 0:
        sizes = np.geomspace(
            math.ceil(ASYMPTOTIC * patients / with_finding), _MOST_PATIENTS, 1000
        ).round()
        passes = sizes[statistic(sizes) <= student.ppf(level, sizes)]
        enough = int(passes[0]) if len(passes) else None
    return RiskTest(at, patients, with_finding, int(findings.sum()), int(errors.sum()), p, enough)


def passing(tests: Mapping[str, Sequence[RiskTest]], level: float) -> dict[str, list[float]]:
    """Return the thresholds at which each kind of promise holds: of those tested, the ones before
    the first that fails. ``tests``: of each kind at every threshold of :data:`GRID`, in this
    order."""
    passed: dict[str, list[float]] = {}
    for kind, of_kind in tests.items():
        tested = filter(RiskTest.tested, of_kind if kind == "false_present" else of_kind[::-1])
        passed[kind] = [test.threshold for test in takewhile(lambda test: test.p <= level, tested)]
    return passed


def make_promise(
    risk: Risk, val: pl.DataFrame, reports: Mapping[float, Mapping[str, str]]
) -> dict[str, Any]:
    """Choose a threshold for each context: of those at which all promises hold, the lowest, which
    states the most; the highest, if only ``missed`` is promised. Raises a DataError if no threshold
    passes in some context; the message says how many patients would do.

    Args:
        val: the records of split val. reports: of these records by id, for each threshold of
            :data:`GRID`.

    Returns:
        The content of ``promise.json``: ``risk``, and ``contexts`` (context -> ``threshold`` and
        ``tests`` by kind).
    """
    level = (1 - risk.confidence) / len(risk.promised)
    contexts, refused = dict[str, Any](), list[str]()
    for (context,), part in val.group_by("context", maintain_order=True):
        patients = np.unique(part["subject_id"].to_numpy(), return_inverse=True)[1]
        tests: dict[str, list[RiskTest]] = {kind: [] for kind in risk.promised}
        for threshold in GRID:
            written = [reports[threshold][record_id] for record_id in part["record_id"]]
            counted = counts(written, part["report_raw"].to_list())
            for kind, limit in risk.promised.items():
                sums = np.zeros((int(patients.max()) + 1, 2))
                np.add.at(sums, patients, counted[kind])
                tests[kind].append(risk_test(*sums.T, limit, level, threshold))
        passed = passing(tests, level)
        both = set.intersection(*map(set, passed.values()))
        if both:
            threshold = min(both) if "false_present" in risk.promised else max(both)
            contexts[context] = {
                "threshold": threshold,
                "tests": {
                    kind: [asdict(test) for test in of_kind] for kind, of_kind in tests.items()
                },
            }
        else:
            refused.append(_refusal(str(context), tests, passed))
    if refused:
        raise DataError(
            f"decode.risk: none of the thresholds {', '.join(map(str, GRID))} meets the limits "
            f"with {risk.confidence:.0%} confidence on split val; {'; '.join(refused)}. Use a "
            "larger split or other limits"
        )
    return {"risk": risk.model_dump(), "contexts": contexts}


def _refusal(
    context: str, tests: Mapping[str, Sequence[RiskTest]], passed: Mapping[str, list[float]]
) -> str:
    """Say why a context has no threshold."""
    parts = []
    for kind, of_kind in tests.items():
        if passed[kind]:
            parts.append(f"{kind} holds at {', '.join(map(str, passed[kind]))}")
        else:
            test = _stopping(of_kind if kind == "false_present" else of_kind[::-1])
            would = (
                f"about {test.enough} patients would be enough"
                if test.enough
                else "more patients would not help"
            )
            rate = (
                f"{test.errors} of {test.findings} findings wrong at {test.threshold}, where "
                "the tests stopped"
            )
            parts.append(f"{kind}: {test.patients} patients, {rate}; {would} at this rate")
    return f"{context}: {', and '.join(parts)}"


def _stopping(sequence: Sequence[RiskTest]) -> RiskTest:
    """Return the test that a sequence which passes nowhere must pass first, with as many patients
    as this takes."""
    stopping = next(
        (test for test in sequence if test.tested()), max(sequence, key=lambda test: test.told)
    )
    for stricter in sequence[: sequence.index(stopping)][::-1]:
        if stricter.tested(stopping.enough):
            stopping = stricter
    return stopping


def promised_thresholds(promise: Mapping[str, Any]) -> pl.Expr:
    """Return the threshold of each record as the column ``threshold``."""
    thresholds = {context: chosen["threshold"] for context, chosen in promise["contexts"].items()}
    return pl.col("context").replace_strict(thresholds, return_dtype=pl.Float64).alias("threshold")
