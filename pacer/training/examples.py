"""Training examples: from record rows to model batches, with the route drawn before prompt and target are built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from pacer.anchors.render import render_anchor
from pacer.anchors.rules import Anchor
from pacer.core.contexts import CONTEXTS
from pacer.model.collate import Features, Sources, Target, collate
from pacer.model.pacer import Batch
from pacer.model.prompt import PromptIds, build_prompt
from pacer.training.record_table import RecordTable
from pacer.training.trajectory import TrajectoryBuilder, draw

#: Reports tokenised at a time.
_BLOCK = 1024


@dataclass
class Examples:
    """The records of one corpus as a source of batches.

    Args:
        table: the records, with commitments unless all reports are direct (warm-up).
        prompt: settings of the instruction (group ``prompt``), or None: nothing but the visual tokens (warm-up).
    """

    table: RecordTable
    tokenizer: PreTrainedTokenizerBase
    features: Features
    num_queries: int
    report_tokens: int
    prompt: dict[str, Any] | None

    def __post_init__(self) -> None:
        self.builder = TrajectoryBuilder(self.tokenizer, self.report_tokens)

    def survey(self) -> dict[str, float]:
        """What the train targets lose on their way into tokens, as counts of reports.

        ``cut``: longer than the token limit. ``emphasis_shortened``: emphasis of findings and impression cut to a
        target of findings; ``emphasis_dropped``: the same, but the findings' tokens do not begin the longer text's.
        ``emphasis_not_binary``: with values outside {0, 1}.
        """
        counts = dict.fromkeys(("reports", "cut", "emphasis_shortened", "emphasis_dropped", "emphasis_not_binary"), 0)
        train = np.concatenate([np.empty(0, dtype=np.int64), *self.table.rows("train", CONTEXTS).values()])
        for start in range(0, len(train), _BLOCK):
            rows = [self.table.row(int(row)) for row in train[start : start + _BLOCK]]
            ids = self.tokenizer([row["report"] for row in rows], add_special_tokens=False)["input_ids"]
            for row, own in zip(rows, ids, strict=True):
                counts["reports"] += 1
                counts["cut"] += self.builder.is_cut(own)
                if row["emphasis"] is None:
                    continue
                counts["emphasis_not_binary"] += any(value not in (0, 1) for value in row["emphasis"])
                if row["emphasis_text"] is not None:
                    kept = self.builder.emphasis_of(own, row["emphasis"], row["emphasis_text"]) is not None
                    counts["emphasis_shortened" if kept else "emphasis_dropped"] += 1
        return {f"targets/{name}": float(count) for name, count in counts.items()}

    def batch(self, rows: Sequence[int] | np.ndarray, commits: Sequence[bool], lambda_q: float) -> Batch:
        """The batch of these rows; ``commits`` gives the route of each (True: commitment first)."""
        prompts, targets, sources = [], [], []
        for number, commit in zip(rows, commits, strict=True):
            record = self.table.row(int(number))
            anchor = render_anchor(_anchor(record)) if commit else None
            trajectory = self.builder.build(record["report"], anchor, record["emphasis"], record["emphasis_text"])
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
        ids = [self.table.row(int(row))["record_id"] for row in rows]
        return [draw(seed, phase, int(visit), own) >= rho for own, visit in zip(ids, visits, strict=True)]


def _anchor(record: dict) -> Anchor:
    return Anchor(*(tuple(record[key]) for key in ("positive", "negative", "uncertain")))
