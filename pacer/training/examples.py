"""Training examples: from record rows to model batches, with the route drawn before prompt and target are built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from transformers import PreTrainedTokenizerBase

from pacer.anchors.render import render_anchor
from pacer.anchors.rules import Anchor
from pacer.core.errors import DataError
from pacer.model.collate import Features, Sources, Target, collate
from pacer.model.pacer import Batch
from pacer.model.prompt import PromptIds, build_prompt
from pacer.training.trajectory import TrajectoryBuilder, draw

COLUMNS = ("record_id", "context", "split", "view", "frontal", "lateral", "report", "sections", "prior_report",
           "indication", "history", "emphasis")


@dataclass
class Examples:
    """The records of one corpus as a source of batches.

    Args:
        records: ``records.parquet``. anchors: ``anchors.parquet`` or None (warm-up: direct reports alone).
        prompt: settings of the instruction (group ``prompt``), or None: nothing but the visual tokens (warm-up).
    """

    records: pl.DataFrame
    anchors: pl.DataFrame | None
    tokenizer: PreTrainedTokenizerBase
    features: Features
    num_queries: int
    report_tokens: int
    prompt: dict[str, Any] | None

    def __post_init__(self) -> None:
        self.records = self.records.select(COLUMNS)
        if self.anchors is not None:
            anchors = self.anchors.select("record_id", "positive", "negative", "uncertain")
            self.records = self.records.join(anchors, on="record_id", how="left", maintain_order="left")
            unlabelled = self.records.filter(pl.col("positive").is_null())
            if len(unlabelled):
                raise DataError(
                    f"{len(unlabelled)} records have no anchor, the first is {unlabelled['record_id'][0]}; "
                    "run the anchors stage on these records"
                )
        self.builder = TrajectoryBuilder(self.tokenizer, self.report_tokens)

    @property
    def lengths(self) -> np.ndarray:
        """A number per record that grows with its tokens: characters of report and clinical context."""
        text = pl.concat_str([pl.col(c).fill_null("") for c in ("report", "indication", "history")])
        return self.records.select(text.str.len_bytes()).to_series().to_numpy()

    def rows(self, split: str, contexts: Sequence[str]) -> dict[str, np.ndarray]:
        """Row numbers of a split per context, in the order of ``contexts``."""
        numbered = self.records.with_row_index("row").filter(pl.col("split") == split)
        return {c: numbered.filter(pl.col("context") == c)["row"].to_numpy() for c in contexts}

    def batch(self, rows: Sequence[int] | np.ndarray, commits: Sequence[bool], lambda_q: float) -> Batch:
        """The batch of these rows; ``commits`` gives the route of each (True: commitment first)."""
        prompts, targets, sources = [], [], []
        for record, commit in zip(self.records[list(map(int, rows))].iter_rows(named=True), commits, strict=True):
            anchor = render_anchor(_anchor(record)) if commit else None
            trajectory = self.builder.build(record["report"], anchor, record["emphasis"])
            targets.append(Target(trajectory.ids, trajectory.weights(lambda_q), trajectory.emphasis,
                                  trajectory.consistency(), trajectory.kappa(lambda_q)))
            prompts.append(self._prompt(record, commit))
            sources.append(Sources(record["context"], record["frontal"], record["lateral"], record["prior_report"]))
        return collate(prompts, targets, sources, self.features, bos=self.builder.tokenizer.bos_token_id,
                       num_queries=self.num_queries)

    def _prompt(self, record: dict, commit: bool) -> PromptIds:
        if self.prompt is None:
            return PromptIds([], [])
        return build_prompt(self.tokenizer, view=record["view"], sections=record["sections"],
                            indication=record["indication"], history=record["history"], commit=commit, **self.prompt)

    def routes(self, rows: np.ndarray, visits: np.ndarray, rho: float, seed: int, phase: str) -> list[bool]:
        """True where the commitment-first route is drawn (probability 1 - rho)."""
        ids = self.records["record_id"]
        return [draw(seed, phase, int(v), ids[int(r)]) >= rho for r, v in zip(rows, visits, strict=True)]


def _anchor(record: dict) -> Anchor:
    return Anchor(*(tuple(record[key]) for key in ("positive", "negative", "uncertain")))
