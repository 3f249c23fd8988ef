"""Linear maps on summaries, fitted with cross-validation over folds of patients: shared functions
for the maps of findings and of sides, and the fitting of the latter.

The maps of the folds, each fitted on the other folds, and the final map on all records are fitted
together: full-batch L-BFGS on the standardised summaries or, if there are fewer records than
numbers in a summary, on their coordinates in an orthonormal basis, which gives the same maps.
Summaries stay in float16 on the CPU; the fit widens them chunk by chunk. Shapes: n records, D
numbers of a summary, C outputs.

There is one multinomial map of sides for each finding, fitted on the train records whose report
names the side of the finding, if at least half of those that state the finding do. Penalty,
temperature and threshold come from the held-out records of the folds. A map that does not beat the
majority class by a standard error over patients is left out: a report that omits a side that the
model does not know is better than one that guesses it. A report whose list omits a side may still
guess it. So the threshold maximises right minus wrong statements, where an omitted one counts as a
guess by chance in as many reports as name the side.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from pacer.core.anchor import SIDES, Anchor
from pacer.core.findings import FINDINGS

#: Folds of the cross-validation.
FOLDS = 3
#: Records in a chunk of the fit; it changes maps only by rounding.
_CHUNK = 4096
_ITERATIONS = 40

#: A function of the logits [m, FOLDS + 1, C] of m records, their place among all records, and the
#: share [m, FOLDS + 1] of each in the mean loss of each map. It returns the sum of the losses times
#: their shares.
SharedLoss = Callable[[Tensor, slice, Tensor], Tensor]
#: The class of each side.
_CLASS = {side: number for number, side in enumerate(SIDES.values())}
#: L2 penalties, from the strongest.
PENALTIES = (30.0, 3.0, 0.3, 0.03)
#: A map is fitted if at least this share of the reports with a finding name its side.
MIN_NAMED_SHARE = 0.5
#: A map is fitted if at least this many records name the side.
MIN_RECORDS = 40
#: Candidates for the threshold.
THRESHOLDS = tuple(round(0.3 + 0.05 * step, 2) for step in range(14))


class Fit(NamedTuple):
    """The map on all records, and the results of cross-validation."""

    #: [D, C].
    weight: Tensor
    #: [C].
    bias: Tensor
    #: [n, C], the logits of each record by the map that was fitted without it.
    held_out: Tensor


def shares_of(folds: Tensor) -> Tensor:
    """Return the share of each record in the mean loss of each fold's map, the last of which has
    all records."""
    outside = torch.stack([folds != fold for fold in range(FOLDS + 1)], 1).float()
    return outside / outside.sum(0)


def fits(
    values: Tensor, folds: Tensor, bias: Tensor, loss: SharedLoss, penalties: tuple[float, ...]
) -> Iterator[Fit]:
    """Yield the fit with each L2 penalty of the weights, from the strongest: each starts from the
    one before.

    Args:
        values: summaries [n, D].
        folds: of each record [n], from 0, on the device of the fit.
        bias: to start from [FOLDS + 1, C].
    """
    device = folds.device
    count = len(values)
    places = [slice(start, start + _CHUNK) for start in range(0, count, _CHUNK)]
    shares = shares_of(folds)
    mean = torch.stack([part.double().sum(0) for part in values.split(_CHUNK)]).sum(0) / count
    squares = (
        torch.stack([part.double().square().sum(0) for part in values.split(_CHUNK)]).sum(0) / count
    )
    spread = (squares - mean.square()).clamp(min=1e-12).sqrt().float().to(device)
    mean = mean.float().to(device)

    def standardised(place: slice) -> Tensor:
        return (values[place].to(device).float() - mean) / spread

    only = standardised(places[0]) if len(places) == 1 else None
    basis: Tensor | None = None
    if only is not None and count < len(mean):
        basis, triangle = torch.linalg.qr(only.T)
        only = triangle.T
    weight = torch.zeros(
        len(mean) if basis is None else count, *bias.shape, device=device, requires_grad=True
    )
    bias = bias.clone().requires_grad_()

    def logits(place: slice) -> Tensor:
        scaled = standardised(place) if only is None else only
        return (scaled @ weight.flatten(1)).view(-1, *bias.shape) + bias

    def terms(penalty: float) -> Iterator[Tensor]:
        yield penalty * weight.square().sum()
        for place in places:
            yield loss(logits(place), place, shares[place])

    for penalty in penalties:
        minimise([weight, bias], partial(terms, penalty))
        with torch.no_grad():
            held_out = torch.cat(
                [logits(place)[torch.arange(len(folds[place])), folds[place]] for place in places]
            )
            scaled = (weight[:, -1] if basis is None else basis @ weight[:, -1]) / spread[:, None]
            yield Fit(scaled, bias[-1] - mean @ scaled, held_out)


def minimise(parameters: list[Tensor], terms: Callable[[], Iterable[Tensor]]) -> None:
    """Minimise the sum of ``terms``; the graph of one term at a time is in memory."""
    optimizer = torch.optim.LBFGS(parameters, max_iter=_ITERATIONS, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimizer.zero_grad()
        total = torch.zeros((), device=parameters[0].device)
        for term in terms():
            term.backward()
            total += term.detach()
        return total.item()

    optimizer.step(closure)


def side_classes(anchors: Sequence[Anchor]) -> tuple[np.ndarray, dict[str, float]]:
    """Return the class of the side of each finding in each commitment [n, 13], -1 without one; and
    the findings whose side is to be predicted, each with the share of its reports that name it."""
    classes = np.full((len(anchors), len(FINDINGS)), -1)
    stated = np.zeros(len(FINDINGS), int)
    for row, anchor in enumerate(anchors):
        for finding in (*anchor.positive, *anchor.uncertain):
            column = FINDINGS.index(finding)
            stated[column] += 1
            classes[row, column] = _CLASS.get(anchor.side(finding), -1)
    named = (classes >= 0).sum(0)
    shares = named / stated.clip(1)
    read = (named >= MIN_RECORDS) & (shares >= MIN_NAMED_SHARE)
    return classes, {
        finding: float(shares[place]) for place, finding in enumerate(FINDINGS) if read[place]
    }


def fit_sides(
    values: Tensor,
    anchors: Sequence[Anchor],
    rows: np.ndarray,
    patients: np.ndarray,
    folds: Tensor,
) -> tuple[dict[str, tuple[Tensor, Tensor]], float | None, dict[str, Any]]:
    """Fit all maps.

    Args:
        values: the numbers [m, D] that sides are predicted from, of the m records ``rows``.
        anchors: the commitments of all n records.
        patients: the number of each record's patient, [n].
        folds: of each record, [n], on the device of the fit.

    Returns:
        The maps of a :class:`pacer.decoding.lists.maps.SidePredictor` by finding; its threshold,
        None without maps; and, for its record, the threshold and, by finding, the results on the
        held-out records.
    """
    classes, shares = side_classes(anchors)
    maps = {}
    held_out = []
    by_finding = {}
    for finding, share in shares.items():
        all_classes = classes[rows, FINDINGS.index(finding)]
        places = np.flatnonzero(all_classes >= 0)
        expected = all_classes[places]
        records = rows[places]
        targets = torch.from_numpy(expected).to(folds.device)
        weight, bias, chances, penalty = _fit(
            values[torch.from_numpy(places)], targets, folds[torch.from_numpy(records)]
        )
        predicted = chances.argmax(1)
        right, margin, error = _margin(predicted.cpu().numpy(), expected, patients[records])
        stated = margin > error
        by_finding[finding] = {
            "records": len(records),
            "right": right,
            "above_majority": margin,
            "error": error,
            "penalty": penalty,
            "stated": bool(stated),
        }
        if stated:
            maps[finding] = weight.cpu(), bias.cpu()
            class_shares = np.bincount(expected) / len(expected)
            guess = share * float(2 * np.square(class_shares).sum() - 1)
            held_out.append((chances.amax(1), 2.0 * (predicted == targets) - 1 - guess))
    threshold = None
    if held_out:
        chances = torch.cat([chances for chances, _ in held_out])
        gains = torch.cat([gains for _, gains in held_out])
        threshold = _best_threshold(chances, gains)
    return maps, threshold, {"threshold": threshold, "findings": by_finding}


def _best_threshold(chances: Tensor, gains: Tensor) -> float:
    """Return the threshold for which the statements that reach it have the largest total gain; the
    lowest of several."""
    return max(
        THRESHOLDS,
        key=lambda threshold: (float(gains[chances >= threshold].sum()), -threshold),
    )


def _fit(values: Tensor, classes: Tensor, folds: Tensor) -> tuple[Tensor, Tensor, Tensor, float]:
    """Return weight [D, C], bias [C] and the held-out probabilities [n, C] of the best penalty, and
    this penalty."""

    def loss(logits: Tensor, place: slice, shares: Tensor) -> Tensor:
        expected = classes[place, None].expand(logits.shape[:2]).flatten()
        losses = cross_entropy(logits.flatten(0, 1), expected, reduction="none")
        return (losses * shares.flatten()).sum()

    start = torch.zeros(FOLDS + 1, len(SIDES), device=folds.device)
    candidates = zip(PENALTIES, fits(values, folds, start, loss, PENALTIES), strict=True)
    penalty, fit = min(
        candidates, key=lambda candidate: float(cross_entropy(candidate[1].held_out, classes))
    )
    slope = torch.zeros(1, device=folds.device, requires_grad=True)
    minimise([slope], lambda: [cross_entropy(fit.held_out * slope.exp(), classes)])
    sharpness = slope.detach().exp()
    chances = (fit.held_out * sharpness).softmax(-1)
    return fit.weight * sharpness, fit.bias * sharpness, chances, penalty


def _margin(
    predicted: np.ndarray, expected: np.ndarray, patients: np.ndarray
) -> tuple[float, float, float]:
    """Return the share of right predictions, its difference from the share of the majority class,
    and the standard error of that difference over patients."""
    majority = np.bincount(expected).argmax()
    better = (predicted == expected).astype(float) - (majority == expected)
    sums = np.bincount(patients, better - better.mean())
    error = float(np.sqrt(np.square(sums).sum())) / len(better)
    return (
        round(float((predicted == expected).mean()), 4),
        round(float(better.mean()), 4),
        round(error, 4),
    )
