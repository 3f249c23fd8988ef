"""Training examples: from record rows to model batches, with the route drawn before prompt and target are built."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from transformers import PreTrainedTokenizerBase

from pacer.commitments.anchor import Anchor, render_anchor
from pacer.model.collate import FeatureSource, Sources, Target, collate
from pacer.model.pacer import Batch
from pacer.model.prompt.instruction import PromptIds, build_prompt
from pacer.model.specification import ModelSpecification
from pacer.training.batches import MicroBatch
from pacer.training.record_table import RecordTable
from pacer.training.trajectory import Span, Trajectory, TrajectoryBuilder, draw


class Draw(NamedTuple):
    """What routes are drawn from: ``train.seed`` and the name of the phase."""

    seed: int
    phase: str


class Survey(NamedTuple):
    """What :meth:`Examples.survey` found.

    ``counts`` of train reports: ``cut`` are longer than the token limit; ``emphasised`` have tokens that L_TLW counts;
    ``commitment_tokens_mean``, ``..._most``: of the written commitments.

    ``lengths`` int32 [rows, 2]: tokens of each record's sequence on the direct and on the commitment-first route (equal
    where there are no commitments).
    """

    counts: dict[str, float]
    lengths: np.ndarray


class Examples:
    """The records of one corpus as a source of batches.

    Args:
        table: the records, with commitments unless all reports are direct (warm-up).
        specification: of the model; without a group ``prompt`` nothing surrounds the visual tokens (warm-up).
    """

    def __init__(
        self,
        table: RecordTable,
        tokenizer: PreTrainedTokenizerBase,
        features: FeatureSource,
        specification: ModelSpecification,
    ):
        self.table, self.tokenizer, self.features, self.prompt = table, tokenizer, features, specification.prompt
        self.num_queries = specification.interface.num_queries
        self.builder = TrajectoryBuilder(tokenizer, specification.trajectory.report_tokens)

    @cached_property
    def lengths(self) -> np.ndarray:
        """:attr:`Survey.lengths`; may be set where a survey was made before."""
        return self.survey().lengths

    def survey(self) -> Survey:
        """Measure every record's sequence and count what the train targets lose on their way into tokens."""
        counts = dict.fromkeys(("reports", "cut", "emphasised"), 0)
        lengths = np.empty((len(self.table), 2), dtype=np.int32)
        labelled, written = self.table.labelled, []
        for first, rows in self.table.in_blocks():
            for number, row in enumerate(rows, first):
                for commit in (False, True)[: 1 + labelled]:
                    prompt, target = self._sample(row, commit)
                    left = 1 + len(prompt.before) + self.num_queries + len(prompt.after)
                    lengths[number, int(commit) :] = left + len(target.ids)
                if row["split"] == "train":
                    counts["reports"] += 1
                    counts["cut"] += target.cut
                    counts["emphasised"] += any((row["emphasis"] or ())[1:])
                    if labelled:
                        written.append(int((target.spans == Span.ANCHOR).sum()))
        found = {name: float(count) for name, count in counts.items()}
        if written:
            found |= {"commitment_tokens_mean": float(np.mean(written)), "commitment_tokens_most": float(max(written))}
        return Survey({f"targets/{name}": value for name, value in found.items()}, lengths)

    def _sample(self, record: dict, commit: bool) -> tuple[PromptIds, Trajectory]:
        """Text of the prefix and target of one record on a route."""
        anchor = render_anchor(_anchor(record)) if commit else None
        return self.prompt_ids(record, commit), self.builder.build(record["report"], anchor, record["emphasis"])

    def uniform(self, rows: np.ndarray, visits: np.ndarray, draws: Draw) -> np.ndarray:
        """The number in [0, 1) that each visit draws."""
        return np.array(
            [draw(*draws, int(visit), self.table.record_id(int(row))) for row, visit in zip(rows, visits, strict=True)]
        )

    def routes(self, rows: np.ndarray, visits: np.ndarray, rho: float, draws: Draw) -> list[bool]:
        """True where the commitment-first route is drawn (probability 1 - rho)."""
        return (self.uniform(rows, visits, draws) >= rho).tolist()

    def drawn(self, micro: MicroBatch, rho: float, draws: Draw, lambda_q: float) -> Batch:
        """The batch of a micro-batch, each record on the route that its visit draws."""
        return self.batch(micro.rows, self.routes(micro.rows, micro.visits, rho, draws), lambda_q)

    def batch(self, rows: Sequence[int] | np.ndarray, commits: Sequence[bool], lambda_q: float) -> Batch:
        """The batch of these rows; ``commits`` gives the route of each (True: commitment first)."""
        records = [self.table.row(int(number)) for number in rows]
        prompts, targets = [], []
        for record, commit in zip(records, commits, strict=True):
            prompt, trajectory = self._sample(record, commit)
            prompts.append(prompt)
            targets.append(
                Target(
                    trajectory.ids,
                    trajectory.weights(lambda_q),
                    trajectory.emphasis,
                    trajectory.consistency(),
                    trajectory.kappa(lambda_q),
                )
            )
        return collate(
            prompts,
            targets,
            [Sources.of(record) for record in records],
            self.features,
            bos=self.builder.tokenizer.bos_token_id,
            num_queries=self.num_queries,
        )

    def prompt_ids(self, record: dict, commit: bool) -> PromptIds:
        """Text of the prefix of one record."""
        if self.prompt is None:
            return PromptIds([], [])
        return build_prompt(self.tokenizer, record, commit=commit, **self.prompt.model_dump())


def _anchor(record: dict) -> Anchor:
    return Anchor(*(tuple(record[key]) for key in ("positive", "negative", "uncertain")))
