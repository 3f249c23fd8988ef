"""Pairs of the same examination with more and with fewer sources, drawn as in SimMLM."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from pacer.core.contexts import availability
from pacer.core.errors import DataError
from pacer.model.batch import TrainingBatch
from pacer.training.examples import Examples, MicroBatch, RecordTable, Row
from pacer.training.trajectory import RouteSeed

#: All equally likely draws of (more, fewer), in a fixed order.
#:
#: Published rule: draw two sets of dropped sources until one is a strict subset of the other and the first is not
#: empty; the smaller set is "more".
DRAWS = (("sw", "sn"), ("mn", "sn"), ("mw", "sn"), ("sw", "sn"), ("mw", "sw"), ("mn", "sn"), ("mw", "mn"))


class PairTable(RecordTable):
    """Records, followed by pairs of train records with the same frontal image, numbered after the last record.

    Each pair has three parts. The first is the record with more sources. The second is the record with fewer, and the
    third is the second with the sources of the first. The ranking compares these two, which have the same target.
    ``parts_of`` gives the numbers of a pair's parts. Each draw of ``draws`` has separate numbers, so taking a
    micro-batch of each draw in turn keeps the published frequencies.

    Args:
        records: the table of records.

    Raises:
        DataError: there is no pair.
    """

    def __init__(self, records: RecordTable):
        super().__init__(records.frame)
        train = self.frame.with_row_index("row").filter(pl.col("split") == "train")
        train = train.unique(["context", "frontal"], keep="first", maintain_order=True)
        by_context = {str(name): rows.select("row", "frontal") for (name,), rows in train.group_by("context")}
        self.draws = [draw for draw in DRAWS if by_context.keys() >= {*draw}]
        joined = [
            by_context[more].join(by_context[fewer], on="frontal", suffix="_fewer", maintain_order="left")
            for more, fewer in self.draws
        ]
        parts = [pairs.select("row", "row_fewer").to_numpy() for pairs in joined]
        self.pairs = np.concatenate([np.empty((0, 2), dtype=np.int64), *parts])
        if not len(self.pairs):
            raise DataError(
                "no frontal image has training records in two contexts, one with more sources than the "
                "other; SimMLM is trained on such pairs"
            )
        self.bounds = np.cumsum([len(self), *map(len, parts)])

    def parts_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the numbers of the first parts of these pairs, then of the second, then of the third."""
        return np.concatenate([rows + part * len(self.pairs) for part in range(3)])

    def row(self, number: int) -> Row:
        """Return all columns of a record, or of a part of a pair."""
        if number < len(self):
            return super().row(number)
        part, place = divmod(number - len(self), len(self.pairs))
        richer, poorer = (RecordTable.row(self, int(row)) for row in self.pairs[place])
        if part == 0:
            return richer
        context = (poorer if part == 1 else richer)["context"]
        lateral, prior = availability(context)
        sources = {
            "lateral": richer["lateral"] if lateral else None,
            "prior_report": richer["prior_report"] if prior else None,
        }
        return poorer | {"context": context} | sources

    def record_id(self, number: int) -> str:
        """Return the id of a record, or both ids of a pair."""
        if number < len(self):
            return super().record_id(number)
        richer, poorer = self.pairs[(number - len(self)) % len(self.pairs)]
        return f"{super().record_id(int(richer))}>{super().record_id(int(poorer))}"

    def rows(self, split: str, contexts: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the pairs of each draw for the train split, and the records of each context for another split."""
        if split != "train":
            return super().rows(split, contexts)
        return {
            f"{more}>{fewer} {place}": np.arange(*self.bounds[place : place + 2], dtype=np.int32)
            for place, (more, fewer) in enumerate(self.draws)
            if {more, fewer} <= set(contexts)
        }


@dataclass(kw_only=True)
class PairedBatch(TrainingBatch):
    """The first parts of pairs, then the second, then the third, which have no weight in the parent's objective.

    Attributes:
        ranked: [n] omega of the predicted tokens of the second and third parts, which have the same targets.
    """

    ranked: Tensor


class PairedExamples(Examples):
    """Examples whose train micro-batches hold the first parts of pairs, then the second, then the third.

    Args:
        table: of the records. rest: as for the base class.
    """

    def __init__(self, table: RecordTable, *rest: Any):
        self.pair_table = PairTable(table)
        super().__init__(self.pair_table, *rest)

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        """Return the lengths of records or of pairs; a pair is as long as its longest part."""
        if rows.min() < len(self.pair_table):
            return super().lengths(rows)
        parts = super().lengths(self.pair_table.pairs[rows - len(self.pair_table)].ravel())
        return parts.reshape(len(rows), 2, 2).max(axis=1)

    def drawn(self, micro: MicroBatch, rho: float, seed: RouteSeed, lambda_q: float) -> PairedBatch:
        """Return all parts of each pair, on the route drawn for the pair's visit; the third parts have no weight."""
        routes = self.routes(micro.rows, micro.visits, rho, seed)
        batch = self.batch(self.pair_table.parts_of(micro.rows), routes * 3, lambda_q)
        part = torch.arange(len(batch.ids)) // len(micro.rows)
        part_of_token = part[batch.at // batch.ids.shape[1]]
        trained = part_of_token < 2
        weights = {name: getattr(batch, name) * trained for name in ("omega", "s", "omega_cons")}
        weights |= {"kappa": batch.kappa * (part < 2), "consistent": int(weights["omega_cons"].sum())}
        return PairedBatch(**vars(batch) | weights, ranked=batch.omega * (part_of_token > 0))
