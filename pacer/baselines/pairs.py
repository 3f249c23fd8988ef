"""Pairs of one examination with more and with fewer sources, drawn as SimMLM draws them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import polars as pl

from pacer.config.baselines import PairTarget
from pacer.core.contexts import CONTEXTS, availability
from pacer.core.errors import DataError
from pacer.data.schemas import SPLITS
from pacer.model.pacer import Batch
from pacer.training.examples import Examples, MicroBatch, RecordTable, SequenceStatistics
from pacer.training.trajectory import RouteSeed

#: Samples that a pair is made of.
PARTS: dict[PairTarget, int] = {"own_and_poorer": 3, "poorer": 2, "own": 2}
#: All equally likely draws of (more, fewer), in a fixed order.
#:
#: Published rule: draw two sets of dropped sources until one is a strict subset of the other and the first is not
#: empty; the smaller set is "more".
DRAWS = (("sw", "sn"), ("mn", "sn"), ("mw", "sn"), ("sw", "sn"), ("mw", "sw"), ("mn", "sn"), ("mw", "mn"))


def pair_draws(contexts: Collection[str]) -> list[tuple[str, str]]:
    """The draws that these contexts leave."""
    return [(more, fewer) for more, fewer in DRAWS if more in contexts and fewer in contexts]


class PairTable(RecordTable):
    """Records, and behind them pairs of train records of one frontal image, numbered on from the last record.

    A number from ``len(self)`` on is the "more" half of a pair, ``parts_of`` gives the numbers of its other parts. Each
    draw of :func:`pair_draws` has numbers of its own, so a micro-batch of each in turn keeps the published frequencies.

    Args:
        frame: as of a record table. target: see :data:`~pacer.config.baselines.PairTarget`; all parts but those of
            ``own`` have the richer record's sources, as far as their context goes.

    Raises:
        DataError: there is no pair.
    """

    def __init__(self, frame: pl.DataFrame, target: PairTarget):
        super().__init__(frame)
        self.target = target
        train = frame.select("frontal").with_columns(
            row=pl.int_range(pl.len(), dtype=pl.Int32), context=pl.Series(self.context)
        )
        train = train.filter(pl.Series(self.split == SPLITS.index("train")))
        train = train.unique(["context", "frontal"], keep="first", maintain_order=True)
        own: dict[str, pl.DataFrame] = {
            name: train.filter(pl.col("context") == place) for place, name in enumerate(CONTEXTS)
        }
        parts = []
        self.draws = pair_draws([name for name, rows in own.items() if len(rows)])
        for more, fewer in self.draws:
            joined = own[more].join(own[fewer], on="frontal", suffix="_fewer", maintain_order="left")
            parts.append(joined.select("row", "row_fewer").to_numpy())
        self.pairs = np.concatenate(parts) if parts else np.empty((0, 2), dtype=np.int32)
        if not len(self.pairs):
            raise DataError(
                "no frontal image has train records in two contexts of which one has more sources; "
                "SimMLM is trained on such pairs"
            )
        self.bounds = np.cumsum([len(self), *(len(part) for part in parts)])
        self.parts = PARTS[target]
        more, fewer = self.context[self.pairs.T]
        self.context = np.concatenate([self.context, *(more, fewer, more)[: self.parts]])
        train_split = np.full(self.parts * len(self.pairs), SPLITS.index("train"), np.uint8)
        self.split = np.concatenate([self.split, train_split])  # so that no other split has them

    def parts_of(self, rows: np.ndarray) -> np.ndarray:
        """Numbers of these "more" halves, then of those with fewer sources, then of the third parts, if any."""
        return np.concatenate([rows + part * len(self.pairs) for part in range(self.parts)])

    def row(self, number: int) -> dict[str, Any]:
        """All columns of a record, or of a part of a pair."""
        if number < len(self):
            return super().row(number)
        part, place = divmod(number - len(self), len(self.pairs))
        richer, poorer = (int(row) for row in self.pairs[place])
        if self.target == "own":
            return super().row((richer, poorer)[part])
        if self.target == "own_and_poorer" and part == 0:
            return super().row(richer)
        context = CONTEXTS[self.context[number]]
        lateral, prior = availability(context)
        rich = super().row(richer)
        return super().row(poorer) | {
            "context": context,
            "lateral": rich["lateral"] if lateral else None,
            "prior_report": rich["prior_report"] if prior else None,
        }

    def record_id(self, number: int) -> str:
        """The id of a record, or both of a pair."""
        if number < len(self):
            return super().record_id(number)
        richer, poorer = self.pairs[(number - len(self)) % len(self.pairs)]
        return f"{super().record_id(int(richer))}>{super().record_id(int(poorer))}"

    def rows(self, split: str, contexts: Sequence[str]) -> dict[str, np.ndarray]:
        """Of the train split the pairs of each draw, in turn; of another split its records per context."""
        if split != "train":
            return super().rows(split, contexts)
        return {
            f"{more}>{fewer} {place}": np.arange(*self.bounds[place : place + 2], dtype=np.int32)
            for place, (more, fewer) in enumerate(self.draws)
            if {more, fewer} <= set(contexts)
        }


class PairedExamples(Examples):
    """Examples whose train micro-batches hold the halves with more sources, those with fewer, then the third parts."""

    @property
    def pair_table(self) -> PairTable:
        """The table, which must have pairs."""
        assert isinstance(self.table, PairTable)
        return self.table

    def statistics(self) -> SequenceStatistics:
        """As of the records; a pair is as long as its longest part, and pairs are counted by draw."""
        counts, lengths = super().statistics()
        table = self.pair_table
        richer, poorer = lengths[table.pairs.T]
        own = poorer if table.target == "poorer" else np.maximum(richer, poorer)
        counts = dict(counts)
        for (more, fewer), size in zip(table.draws, np.diff(table.bounds), strict=True):
            counts[f"targets/pairs_{more}_{fewer}"] = float(size)
        return SequenceStatistics(counts, np.concatenate([lengths, own]))

    def drawn(self, micro: MicroBatch, rho: float, seed: RouteSeed, lambda_q: float) -> Batch:
        """All parts of each pair, on the route that the pair's visit draws; the third ones have no weight."""
        table, routes = self.pair_table, self.routes(micro.rows, micro.visits, rho, seed)
        batch = self.batch(table.parts_of(micro.rows), routes * table.parts, lambda_q)
        for weight in (batch.omega, batch.s, batch.kappa, batch.omega_cons):
            assert weight is not None
            weight[2 * len(micro.rows) :] = 0
        return batch
