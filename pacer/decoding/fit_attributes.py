"""Fitting of the reading of attributes: one multinomial map for each finding and kind of attribute.

A map is fitted on the train records whose report names the kind of the finding, if at least half of those that state
the finding do (for the course: of those with a previous report). Penalty, temperature and threshold come from the
held-out records of the folds. A map that does not beat the majority class by a standard error over patients is left
out: a report that omits a side that the model does not know is better than one that guesses it. A report whose list
omits an attribute may still guess it. So the threshold maximises right minus wrong statements, where an omitted one
counts as a guess by chance in as many reports as name the attribute.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from pacer.commitments.anchor import Anchor
from pacer.commitments.description import Attributes
from pacer.data.findings import FINDINGS
from pacer.decoding.attributes import CLASSES, class_of
from pacer.decoding.regression import FOLDS, Fit, fits, minimise

#: Weight [D, C] and bias [C] by finding and kind.
Maps = dict[tuple[str, str], tuple[Tensor, Tensor]]
#: L2 penalties, from the strongest.
PENALTIES = (30.0, 3.0, 0.3, 0.03)
#: Share of the reports with a finding that name a kind of it, and records that name it, from which a map is fitted.
NAMED, ENOUGH = 0.5, 40
#: Thresholds that are compared.
THRESHOLDS = tuple(round(0.3 + 0.05 * step, 2) for step in range(14))


def attribute_classes(anchors: Sequence[Anchor], prior: np.ndarray, kind: str) -> tuple[np.ndarray, dict[str, float]]:
    """Return the class of each finding in each commitment [n, 13], -1 without one; and the findings to be read, each
    with the share of its reports that name the kind.

    Args:
        prior: whether each record has a previous report [n].
    """
    classes, stated = np.full((len(anchors), len(FINDINGS)), -1), np.zeros((len(anchors), len(FINDINGS)), bool)
    for row, anchor in enumerate(anchors):
        for finding in (*anchor.positive, *anchor.uncertain):
            column = FINDINGS.index(finding)
            stated[row, column] = kind != "course" or prior[row]
            classes[row, column] = class_of(anchor.attributes.get(finding, Attributes()), kind)
    classes[~stated] = -1
    named = (classes >= 0).sum(0)
    shares = named / stated.sum(0).clip(1)
    read = (named >= ENOUGH) & (shares >= NAMED)
    return classes, {finding: float(shares[place]) for place, finding in enumerate(FINDINGS) if read[place]}


def fit_attributes(
    values: Mapping[str, Tensor],
    anchors: Sequence[Anchor],
    rows: np.ndarray,
    prior: np.ndarray,
    patients: np.ndarray,
    folds: Tensor,
) -> tuple[Maps, dict[str, float], dict[str, Any]]:
    """Fit all maps.

    Args:
        values: by kind the numbers that it is read from, of the m records ``rows`` [m, D].
        anchors, prior, patients, folds: of all n records: the commitment, whether there is a previous report, the
            patient's number, and the fold, which is on the device of the fit.

    Returns:
        maps and thresholds of an :class:`pacer.decoding.attributes.AttributeReader`; by kind, for its record: the
        threshold, and by finding what is known of the held-out records.
    """
    maps: Maps = {}
    thresholds, about = {}, {}
    for kind, of_kind in values.items():
        classes, shares = attribute_classes(anchors, prior, kind)
        held, known = [], {}
        for finding, share in shares.items():
            wanted = classes[rows, FINDINGS.index(finding)]
            places = np.flatnonzero(wanted >= 0)
            expected, chosen = wanted[places], rows[places]
            of_rows, fold = torch.from_numpy(expected).to(folds.device), folds[torch.from_numpy(chosen)]
            fitted = of_kind[torch.from_numpy(places)]
            weight, bias, chances, penalty = _fit(fitted, of_rows, fold, len(CLASSES[kind]))
            right, margin, error = _margin(chances.argmax(1).cpu().numpy(), expected, patients[chosen])
            stated = margin > error
            known[finding] = {"records": len(chosen), "right": right, "above_majority": margin, "error": error}
            known[finding] |= {"penalty": penalty, "stated": bool(stated)}
            if stated:
                maps[finding, kind] = weight.cpu(), bias.cpu()
                guess = share * float(2 * np.square(np.bincount(expected) / len(expected)).sum() - 1)
                held.append((chances.amax(1), 2.0 * (chances.argmax(1) == of_rows) - 1 - guess))
        if held:
            thresholds[kind] = _threshold(*(torch.cat(parts) for parts in zip(*held, strict=True)))
        about[kind] = {"threshold": thresholds.get(kind), "findings": known}
    return maps, thresholds, about


def _fit(values: Tensor, classes: Tensor, folds: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor, float]:
    """Return weight [D, C], bias [C] and the held-out probabilities [n, C] of the best penalty, and this penalty."""

    def missed(logits: Tensor, place: slice, shares: Tensor) -> Tensor:
        expected = classes[place, None].expand(logits.shape[:2])
        return (cross_entropy(logits.flatten(0, 1), expected.flatten(), reduction="none") * shares.flatten()).sum()

    start = torch.zeros(FOLDS + 1, count, device=folds.device)
    candidates: list[tuple[float, float, Fit]] = []
    for penalty, fit in zip(PENALTIES, fits(values, folds, start, missed, PENALTIES), strict=True):
        candidates.append((float(cross_entropy(fit.held, classes)), penalty, fit))
    _, penalty, fit = min(candidates, key=lambda candidate: candidate[0])
    slope = torch.zeros(1, device=folds.device, requires_grad=True)

    def loss() -> Tensor:
        value = cross_entropy(fit.held * slope.exp(), classes)
        value.backward()
        return value.detach()

    minimise([slope], loss)
    sharpness = slope.detach().exp()
    return fit.weight * sharpness, fit.bias * sharpness, (fit.held * sharpness).softmax(-1), penalty


def _margin(predicted: np.ndarray, expected: np.ndarray, patients: np.ndarray) -> tuple[float, float, float]:
    """Return the share that is right, by how much it is above the majority's, and the standard error of the difference
    over patients."""
    majority = np.bincount(expected).argmax()
    better = (predicted == expected).astype(float) - (majority == expected)
    sums = np.bincount(patients, better - better.mean())
    error = float(np.sqrt(np.square(sums).sum())) / len(better)
    return round(float((predicted == expected).mean()), 4), round(float(better.mean()), 4), round(error, 4)


def _threshold(chances: Tensor, gain: Tensor) -> float:
    """Return the threshold with the largest gain of the statements that reach it; the lowest of equals."""
    return max(THRESHOLDS, key=lambda at: (float(gain[chances >= at].sum()), -at))
