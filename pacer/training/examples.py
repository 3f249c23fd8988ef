"""Training examples: batches for the model, made from rows of the records. The route of a record
determines its prompt and its target."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from pacer.core.anchor import DESCRIBED, POLARITIES, Anchor, render_anchor
from pacer.core.errors import DataError
from pacer.core.schemas import read_columns, read_records
from pacer.model.batch import FeatureSource, RecordRow, TrainingBatch, read_sources
from pacer.model.checkpoint import ModelSpecification
from pacer.model.prompt import PromptIds, build_prompt
from pacer.training.trajectory import Trajectory, TrajectoryBuilder

#: Columns of the records that training does not use, or reads from ``emphasis.parquet`` instead.
_UNUSED = ("report_raw", "findings_original", "emphasis", "emphasis_text")
#: Sequences kept in memory: the sampler needs those of a window for their lengths, and its batches
#: need them again.
_SEQUENCES_KEPT = 2**13


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
        sides: bool = False,
    ) -> RecordTable:
        """Read rows of ``contexts`` from ``records.parquet``, ``emphasis.parquet`` and
        ``anchors.parquet`` (or None), which has the sides of findings if the commitments have
        ``sides``. Raises a DataError if a file is unreadable, or one of the other two does not have
        one row per record, in the records' order."""
        frame = _joined(read_records(records).drop(_UNUSED), emphasis, "emphasis", ["emphasis"])
        if anchors is not None:
            with open(anchors, "rb") as file:
                described = DESCRIBED.keys() <= pl.read_parquet_schema(file).keys()
            if sides and not described:
                raise DataError(
                    f"{anchors} lacks sides, which commit.attributes needs; rerun the `anchors` "
                    "stage"
                )
            columns = [*POLARITIES, *DESCRIBED] if sides else list(POLARITIES)
            frame = _joined(frame, anchors, "anchors", columns)
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


def _joined(records: pl.DataFrame, path: Path, stage: str, columns: Sequence[str]) -> pl.DataFrame:
    """Add output columns of a ``stage``, which must have one row per record, in the records'
    order."""
    other = read_columns(path, ["record_id", *columns])
    if not records["record_id"].equals(other["record_id"]):
        raise DataError(
            f"the output of the `{stage}` stage does not match the corpus; rerun that stage"
        )
    return records.hstack(other.drop("record_id"))


class MicroBatch(NamedTuple):
    """Row numbers of one micro-batch, and the route of each (True: commitment first)."""

    rows: np.ndarray
    commits: np.ndarray


class TokenSequence(NamedTuple):
    """The token ids of a sample."""

    #: The ids left of ``||``.
    prefix: list[int]
    #: The place of the first visual token among them.
    visual_start: int
    target: Trajectory


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
        self.table = table
        self.tokenizer = tokenizer
        self.features = features
        self.prompt = specification.prompt
        self.sides = specification.sides
        self.num_queries = specification.interface.num_queries
        self.builder = TrajectoryBuilder(tokenizer, specification.trajectory.report_tokens)
        self._built = lru_cache(_SEQUENCES_KEPT)(self._build)
        self._lengths = np.zeros((len(table), 2), dtype=np.int32)

    def lengths(self, rows: np.ndarray, commits: np.ndarray) -> np.ndarray:
        """Return the number of tokens of each row's sequence on its route, int32 [n]."""
        routes = commits.astype(int)
        unknown = self._lengths[rows, routes] == 0
        for row, route in zip(rows[unknown].tolist(), routes[unknown].tolist(), strict=True):
            sequence = self.sequence(row, bool(route))
            self._lengths[row, route] = len(sequence.prefix) + len(sequence.target.ids)
        return self._lengths[rows, routes]

    def training_batch(self, micro: MicroBatch, lambda_q: float) -> TrainingBatch:
        """Build the batch of a micro-batch of training."""
        return self.batch(micro.rows, micro.commits.tolist(), lambda_q)

    def batch(
        self, rows: Sequence[int] | np.ndarray, commits: Sequence[bool], lambda_q: float
    ) -> TrainingBatch:
        """Build the batch of these rows; ``commits`` gives the route of each (True: commitment
        first)."""
        numbers = [int(row) for row in rows]
        sequences = [
            self.sequence(number, commit) for number, commit in zip(numbers, commits, strict=True)
        ]
        records = [self.table.row(number) for number in numbers]
        return collate(sequences, records, self.features, lambda_q)

    def sequence(self, row: int, commit: bool) -> TokenSequence:
        """Return the sequence of a row on one of its routes. Do not modify it: it is kept for later
        calls."""
        return self._built(row, commit)

    def _build(self, row: int, commit: bool) -> TokenSequence:
        record = self.table.row(row)
        prompt = self._prompt(record, commit)
        commitment = render_anchor(Anchor.of_lists(record, self.sides)) if commit else None
        return TokenSequence(
            prompt.prefix(self.tokenizer.bos_token_id, self.num_queries),
            prompt.visual_start,
            self.builder.build(record["report"], commitment, record["emphasis"]),
        )

    def _prompt(self, record: RecordRow, commit: bool) -> PromptIds:
        """Return the prompt ids of one record."""
        if self.prompt is None:
            return PromptIds([], [])
        return build_prompt(self.tokenizer, record, commit=commit, **self.prompt.model_dump())


def collate(
    sequences: Sequence[TokenSequence],
    records: Sequence[RecordRow],
    features: FeatureSource,
    lambda_q: float,
) -> TrainingBatch:
    """Build a batch of B samples: ``[BOS] before | Q places | after || target``, padded on the
    right with zeros. Raises a ValueError if a record lacks a source that its context requires."""
    targets = [sequence.target for sequence in sequences]
    prefix_lengths = [len(sequence.prefix) for sequence in sequences]
    samples = [torch.tensor([*sequence.prefix, *sequence.target.ids]) for sequence in sequences]
    ids = pad_sequence(samples, batch_first=True)
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
        visual_start=torch.tensor([sequence.visual_start for sequence in sequences]),
        prefix_length=torch.tensor(prefix_lengths),
        longest_prefix=max(prefix_lengths),
        length=torch.tensor([len(sample) for sample in samples]),
        **vars(read_sources(records, features)),
        at=torch.cat(places),
        omega=predicted(target.omega(lambda_q) for target in targets),
        s=predicted(target.s for target in targets),
        omega_cons=omega_cons,
        kappa=torch.tensor([target.kappa(lambda_q) for target in targets], dtype=torch.float32),
        consistent=int(omega_cons.sum()),
    )
