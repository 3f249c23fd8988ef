"""Training examples: model batches from rows of the records. The route is drawn first; prompt and
target follow it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from pacer.commitments.anchor import DESCRIBED, POLARITIES, Anchor, render_anchor
from pacer.core.errors import DataError
from pacer.data.schemas import read_records, readable
from pacer.model.batch import FeatureSource, RecordRow, TrainingBatch, read_sources
from pacer.model.checkpoint import ModelSpecification
from pacer.model.prompt import PromptIds, build_prompt
from pacer.training.trajectory import RouteSeed, Trajectory, TrajectoryBuilder

#: Columns of the records that training does not use, or reads from ``emphasis.parquet`` instead.
_UNUSED = ("report_raw", "findings_original", "emphasis", "emphasis_text")
_TEXTS_KEPT = 2**13


class RecordTable:
    """The records of a phase, accessed by row number: rows of ``records.parquet`` with columns for
    their emphasis and, unless all reports are direct, their commitments."""

    def __init__(self, frame: pl.DataFrame):
        self.frame = frame

    @classmethod
    def read(
        cls,
        records: Path,
        emphasis: Path,
        anchors: Path | None,
        contexts: Sequence[str],
        kinds: Collection[str] = (),
    ) -> RecordTable:
        """Read rows of ``contexts`` from ``records.parquet``, ``emphasis.parquet`` and
        ``anchors.parquet`` (or None), which has the attributes of findings if the commitments have
        any ``kinds`` of them. Raises a DataError if a file is unreadable, or one of the other two
        does not have one row per record, in the records' order."""
        frame = _joined(read_records(records).drop(_UNUSED), emphasis, "emphasis", "emphasis")
        if anchors is not None:
            with open(anchors, "rb") as file:
                described = DESCRIBED.keys() <= pl.read_parquet_schema(file).keys()
            if kinds and not described:
                raise DataError(
                    f"{anchors} lacks attributes, which commit.attributes needs; rerun the "
                    "`anchors` stage"
                )
            frame = _joined(frame, anchors, "anchors", *POLARITIES, *(DESCRIBED if kinds else ()))
        return cls(frame.filter(pl.col("context").is_in(list(contexts))))

    def __len__(self) -> int:
        return self.frame.height

    @property
    def labelled(self) -> bool:
        """Whether the rows have commitments."""
        return POLARITIES[0] in self.frame.columns

    def row(self, number: int) -> RecordRow:
        """Return all columns of one record."""
        return self.frame.row(number, named=True)

    def record_id(self, number: int) -> str:
        """Return the id of one record."""
        return self.frame["record_id"][number]

    def rows(self, split: str, contexts: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the row numbers of a split by context, int32, in the order of ``contexts``."""
        numbered = self.frame.select(
            "context", "split", row=pl.int_range(pl.len(), dtype=pl.Int32)
        ).filter(split=split)
        return {context: numbered.filter(context=context)["row"].to_numpy() for context in contexts}


def _joined(records: pl.DataFrame, path: Path, stage: str, *columns: str) -> pl.DataFrame:
    """Add output columns of a ``stage``, which must have one row per record, in the records'
    order."""
    with readable(path):
        other = pl.DataFrame(pq.read_table(path, columns=["record_id", *columns]))
    if not records["record_id"].equals(other["record_id"]):
        raise DataError(
            f"the output of the `{stage}` stage does not match the corpus; rerun that stage"
        )
    return records.hstack(other.drop("record_id"))


class CachedTokenizer:
    """A tokenizer that keeps the ids of recent texts: batches need again what their window's
    lengths needed."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase):
        self.bos_token_id, self.eos_token_id = tokenizer.bos_token_id, tokenizer.eos_token_id
        self._ids = lru_cache(_TEXTS_KEPT)(
            lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]
        )

    def __call__(self, text: str, *, add_special_tokens: Literal[False]) -> dict[str, list[int]]:
        """Return ``input_ids`` without special tokens; they must not be modified."""
        return {"input_ids": self._ids(text)}


class MicroBatch(NamedTuple):
    """RecordRow numbers of one micro-batch, and how often this phase has already used each row."""

    rows: np.ndarray
    visits: np.ndarray


class Examples:
    """Batches from the records of one corpus.

    Args:
        table: the records, with commitments unless all reports are direct (warm-up).
        specification: of the model; without a group ``prompt`` there is no text around the visual
            tokens (warm-up).
    """

    def __init__(
        self,
        table: RecordTable,
        tokenizer: PreTrainedTokenizerBase,
        features: FeatureSource,
        specification: ModelSpecification,
    ):
        self.table, self.features, self.prompt = table, features, specification.prompt
        self.tokenizer: Any = CachedTokenizer(tokenizer)
        self.num_queries, self.kinds = specification.interface.num_queries, specification.attributes
        self.builder = TrajectoryBuilder(self.tokenizer, specification.trajectory.report_tokens)
        self._lengths = np.zeros((len(table), 2), dtype=np.int32)

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        """Return the tokens of each row's sequence on the direct and on the commitment-first route
        (0 without commitments), int32 [n, 2]. A row is measured when it is first asked for."""
        unknown = np.unique(rows[self._lengths[rows, 0] == 0])
        for number, record in zip(
            unknown, self.table.frame[unknown].iter_rows(named=True), strict=True
        ):
            for commit in (False, True)[: 1 + self.table.labelled]:
                prefix, _, target = self._sequence(record, commit)
                self._lengths[number, int(commit)] = len(prefix) + len(target.ids)
        return self._lengths[rows]

    def routes(
        self, rows: np.ndarray, visits: np.ndarray, rho: float, seed: RouteSeed
    ) -> list[bool]:
        """Draw the route of each row: True is commitment-first (probability 1 - rho)."""
        ids = [self.table.record_id(int(row)) for row in rows]
        return [
            seed.uniform(int(visit), name) >= rho for name, visit in zip(ids, visits, strict=True)
        ]

    def drawn(
        self, micro: MicroBatch, rho: float, seed: RouteSeed, lambda_q: float
    ) -> TrainingBatch:
        """Build the batch of a micro-batch, with each record on the route that its visit draws."""
        return self.batch(micro.rows, self.routes(micro.rows, micro.visits, rho, seed), lambda_q)

    def batch(
        self, rows: Sequence[int] | np.ndarray, commits: Sequence[bool], lambda_q: float
    ) -> TrainingBatch:
        """Build the batch of these rows; ``commits`` gives the route of each (True: commitment
        first)."""
        records = [self.table.row(int(number)) for number in rows]
        sequences = [
            self._sequence(record, commit) for record, commit in zip(records, commits, strict=True)
        ]
        prefixes, starts, targets = zip(*sequences, strict=True)
        return collate(prefixes, starts, targets, records, self.features, lambda_q)

    def _sequence(self, record: RecordRow, commit: bool) -> tuple[list[int], int, Trajectory]:
        """Return the ids left of ``||``, the place of the first visual token among them, and the
        target."""
        prompt = self._prompt(record, commit)
        commitment = render_anchor(Anchor.of_lists(record, self.kinds)) if commit else None
        target = self.builder.build(record["report"], commitment, record["emphasis"])
        return (
            prompt.prefix(self.tokenizer.bos_token_id, self.num_queries),
            prompt.visual_start,
            target,
        )

    def _prompt(self, record: RecordRow, commit: bool) -> PromptIds:
        """Return the prompt ids of one record."""
        if self.prompt is None:
            return PromptIds([], [])
        return build_prompt(self.tokenizer, record, commit=commit, **self.prompt.model_dump())


def collate(
    prefixes: Sequence[list[int]],
    visual_starts: Sequence[int],
    targets: Sequence[Trajectory],
    records: Sequence[RecordRow],
    features: FeatureSource,
    lambda_q: float,
) -> TrainingBatch:
    """Build a batch of B samples: ``[BOS] before | Q places | after || target``, padded on the
    right with zeros. Raises a ValueError if a record lacks a source that its context requires.

    Args:
        prefixes: ids left of ``||`` (:meth:`PromptIds.prefix`). visual_starts: index of the first
            visual token in each.
    """
    sequences = [
        torch.tensor([*prefix, *target.ids])
        for prefix, target in zip(prefixes, targets, strict=True)
    ]
    ids, prefix_lengths = (
        pad_sequence(sequences, batch_first=True),
        [len(prefix) for prefix in prefixes],
    )
    starts = [row * ids.shape[1] + length for row, length in enumerate(prefix_lengths)]
    places = [
        torch.arange(1, len(target.ids)) + start
        for start, target in zip(starts, targets, strict=True)
    ]

    def predicted(values: Iterable[np.ndarray]) -> torch.Tensor:
        """Return the values of all targets' tokens but BOS, [n]."""
        return torch.cat([torch.from_numpy(tokens[1:]) for tokens in values])

    omega_cons = predicted(target.omega_cons for target in targets)
    return TrainingBatch(
        ids=ids,
        visual_start=torch.tensor(visual_starts),
        prefix_length=torch.tensor(prefix_lengths),
        longest_prefix=max(prefix_lengths),
        length=torch.tensor([len(sequence) for sequence in sequences]),
        **vars(read_sources(records, features)),
        at=torch.cat(places),
        omega=predicted(target.omega(lambda_q) for target in targets),
        s=predicted(target.s for target in targets),
        omega_cons=omega_cons,
        kappa=torch.tensor([target.kappa(lambda_q) for target in targets], dtype=torch.float32),
        consistent=int(omega_cons.sum()),
    )
