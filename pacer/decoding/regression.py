"""Linear maps on summaries, fitted with cross-validation over folds of patients; shared by what the stage `findings`
reads.

A map for each fold, fitted on the other folds, and the one on all records, which is kept, are fitted together:
full-batch L-BFGS on the standardised summaries, or on their coordinates in an orthonormal basis where the records are
fewer than the numbers: the same maps. Summaries stay in float16 on the CPU; the fit widens them chunk by
chunk. Shapes: n records, D numbers of a summary, C outputs.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

#: Folds of the cross-validation.
FOLDS = 3
#: Records of a step of the fit; it does not change a map beyond rounding.
_CHUNK = 4096
_ITERATIONS = 40

#: Called with logits [m, FOLDS + 1, C], the place of the m records among all, and the share [m, FOLDS + 1] of each in
#: the mean loss of each map; returns the sum of the losses times their shares.
Missed = Callable[[Tensor, slice, Tensor], Tensor]


class Fit(NamedTuple):
    """The map on all records, ``weight`` [D, C] and ``bias`` [C], and the logits of each record [n, C] by the map that
    was fitted without it."""

    weight: Tensor
    bias: Tensor
    held: Tensor


def shares_of(folds: Tensor) -> Tensor:
    """Return the share of each record in the mean loss of each fold's map, the last of which has all records."""
    outside = torch.stack([folds != fold for fold in range(FOLDS + 1)], 1).float()
    return outside / outside.sum(0)


def fits(values: Tensor, folds: Tensor, bias: Tensor, missed: Missed, penalties: tuple[float, ...]) -> Iterator[Fit]:
    """Yield the fit with each L2 penalty of the weights, from the strongest: each starts from the one before.

    Args:
        values: summaries [n, D]. folds: of each record [n], from 0, on the device of the fit. bias: to start from
            [FOLDS + 1, C].
    """
    device, count = folds.device, len(values)
    places = [slice(start, start + _CHUNK) for start in range(0, count, _CHUNK)]
    shares = shares_of(folds)
    mean = torch.stack([part.double().sum(0) for part in values.split(_CHUNK)]).sum(0) / count
    squares = torch.stack([part.double().square().sum(0) for part in values.split(_CHUNK)]).sum(0) / count
    spread = (squares - mean.square()).clamp(min=1e-12).sqrt().float().to(device)
    mean = mean.float().to(device)

    def standardised(place: slice) -> Tensor:
        return (values[place].to(device).float() - mean) / spread

    only = standardised(places[0]) if len(places) == 1 else None
    basis: Tensor | None = None
    if only is not None and count < len(mean):
        basis, triangle = torch.linalg.qr(only.T)
        only = triangle.T
    weight = torch.zeros(len(mean) if basis is None else count, *bias.shape, device=device, requires_grad=True)
    bias = bias.clone().requires_grad_()

    def logits(place: slice) -> Tensor:
        scaled = standardised(place) if only is None else only
        return (scaled @ weight.flatten(1)).view(-1, *bias.shape) + bias

    def loss(penalty: float) -> Tensor:
        total = penalty * weight.square().sum()
        total.backward()
        total = total.detach()
        for place in places:
            of_chunk = missed(logits(place), place, shares[place])
            of_chunk.backward()
            total += of_chunk.detach()
        return total

    for penalty in penalties:
        minimise([weight, bias], partial(loss, penalty))
        with torch.no_grad():
            held = torch.cat([logits(place)[torch.arange(len(folds[place])), folds[place]] for place in places])
            scaled = (weight[:, -1] if basis is None else basis @ weight[:, -1]) / spread[:, None]
            yield Fit(scaled, bias[-1] - mean @ scaled, held)


def minimise(parameters: list[Tensor], loss: Callable[[], Tensor]) -> None:
    """Minimise ``loss``, which also computes the gradients."""
    optimizer = torch.optim.LBFGS(parameters, max_iter=_ITERATIONS, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimizer.zero_grad()
        return loss().item()

    optimizer.step(closure)
