"""The report of each prefix, found by an engine that searches texts.

With ``decode.select: score``, it is that of the best text. With ``agreement``, a best text whose
report does not agree with its commitment gets rivals: the engine writes several reports for the
same commitment, which differ by noise, and the one that agrees best is taken.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

from torch import Tensor

from pacer.config import Decode
from pacer.decoding.agreement import text_distance
from pacer.decoding.extract import CLOSE_ANCHOR

Label = TypeVar("Label")
#: The label of a prefix, and the tokens of its texts.
Found = tuple[Label, list[list[int]]]

#: Batches in a group: the best report of each record of a group is searched first, then the
#: candidates of the records that need them.
_GROUPED = 2


class Prefix(NamedTuple):
    """The start of a search."""

    #: [P, d], embeddings on the model's device, the target's BOS last.
    inputs: Tensor
    #: Tokens that every text begins with, such as those of a given list. They count as generated.
    forced: Sequence[int] = ()


class Engine(Protocol):
    """A search for the best continuations of many prefixes. Each prefix has a label, which comes
    back with its result."""

    def __call__(
        self, prefixes: Iterable[tuple[Label, Prefix]], candidates: int = 1
    ) -> Iterator[Found[Label]]:
        """Yield the label of each prefix, and the tokens of its texts, forced ones and EOS
        included, when they are found.

        Args:
            prefixes: of any lengths; read when there is room for them.
            candidates: texts for each prefix. One is the best text. Several are found by separate
                searches, the first without noise and the others with different noise, and come in
                the order of their scores.
        """
        ...


def search_reports(
    engine: Engine,
    prefixes: Iterable[tuple[Label, Prefix]],
    decode: Decode,
    text: Callable[[Sequence[int]], str],
    sides: bool = False,
) -> Iterator[tuple[Label, list[int]]]:
    """Yield the label of each prefix and the tokens of its text: the best one or, with
    ``agreement``, the one with the least :func:`~pacer.decoding.agreement.text_distance` of its
    report from its commitment, before any sentence is dropped. Among equals the best text is
    preferred, then the one with the best score. A text that ends in its commitment, or before, is
    taken as it is.

    Args:
        text: returns the text of tokens.
        sides: whether the model's commitments have sides.
    """
    if decode.select == "score":
        for label, (best,) in engine(prefixes):
            yield label, best
        return
    waiting = iter(prefixes)
    while group := list(islice(waiting, _GROUPED * decode.batch_size)):
        best_texts = {}
        rivals = []
        for (label, prefix), (best,) in engine(
            ((label, prefix), prefix) for label, prefix in group
        ):
            forced = prefix.forced or _commitment(best, text)
            if not forced or not any(text_distance(text(best), sides)):
                yield label, best
            else:
                best_texts[len(rivals)] = label, best
                rivals.append((len(rivals), Prefix(prefix.inputs, forced)))
        for number, candidates in engine(rivals, decode.candidates):
            label, best = best_texts[number]
            yield label, min([best, *candidates], key=lambda one: text_distance(text(one), sides))


def _commitment(tokens: list[int], text: Callable[[Sequence[int]], str]) -> list[int]:
    """Return the tokens up to the end of the commitment; none if the commitment is incomplete, or
    nothing follows it."""
    end = bisect_left(
        range(len(tokens) + 1), True, key=lambda count: CLOSE_ANCHOR in text(tokens[:count])
    )
    return tokens[:end] if end < len(tokens) else []
