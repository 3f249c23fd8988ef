"""SimMLM on the frozen parent: residual experts of the sources, mixed by a gate over those that are
available, trained on pairs of the same examination with more and with fewer sources.

Adapted from SimMLM (Li et al., 2025) as described in PACER's appendix "Incomplete-Multimodal
Baseline Adaptations"; ``docs/experiments.md`` lists our own interpretations.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pacer.config import Params
from pacer.config.baselines import SimMLM as SimMLMSettings
from pacer.core.contexts import WITH_SOURCE, availability
from pacer.core.errors import DataError
from pacer.extras.baselines.adapted import Adapted, train_adapted
from pacer.model.batch import Batch, RecordRow, RefinedSources, TrainingBatch
from pacer.model.interface import SourceTokens
from pacer.training.examples import Examples, MicroBatch, RecordTable, TokenSequence
from pacer.training.losses import EPSILON, LossWeights, Objective, objective
from pacer.training.run import Inputs, OpenLog

#: All equally likely draws of (more, fewer), in a fixed order.
#:
#: Published rule: draw two sets of dropped sources until one is a strict subset of the other and
#: the first is not empty; the smaller set is "more".
DRAWS = (
    ("sw", "sn"),
    ("mn", "sn"),
    ("mw", "sn"),
    ("sw", "sn"),
    ("mw", "sw"),
    ("mn", "sn"),
    ("mw", "mn"),
)


class PairTable(RecordTable):
    """Records, followed by pairs of train records with the same frontal image, numbered after the
    last record.

    Each pair has three parts. The first is the record with more sources. The second is the record
    with fewer, and the third is the second with the sources of the first. The ranking compares
    these two, which have the same target. ``parts_of`` gives the numbers of a pair's parts. Each
    draw of ``draws`` has separate numbers, so taking a micro-batch of each draw in turn keeps the
    published frequencies. Raises a DataError if there is no pair.
    """

    def __init__(self, records: RecordTable):
        super().__init__(records.frame)
        train = self.frame.with_row_index("row").filter(pl.col("split") == "train")
        train = train.unique(["context", "frontal"], keep="first", maintain_order=True)
        by_context = {
            str(name): rows.select("row", "frontal") for (name,), rows in train.group_by("context")
        }
        self.draws = [draw for draw in DRAWS if by_context.keys() >= set(draw)]
        joined = [
            by_context[more].join(
                by_context[fewer], on="frontal", suffix="_fewer", maintain_order="left"
            )
            for more, fewer in self.draws
        ]
        parts = [pairs.select("row", "row_fewer").to_numpy() for pairs in joined]
        self.pairs = np.concatenate([np.empty((0, 2), dtype=np.int64), *parts])
        if not len(self.pairs):
            raise DataError(
                "no frontal image has training records in two contexts, one with more sources than "
                "the other; SimMLM is trained on such pairs"
            )
        self.bounds = np.cumsum([len(self), *map(len, parts)])

    def parts_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the numbers of the first parts of these pairs, then of the second, then of the
        third."""
        return np.concatenate([rows + part * len(self.pairs) for part in range(3)])

    def record_of(self, number: int) -> int:
        """Return the number of the record that has the texts of a row."""
        if number < len(self):
            return number
        part, place = divmod(number - len(self), len(self.pairs))
        return int(self.pairs[place, 0 if part == 0 else 1])

    def row(self, number: int) -> RecordRow:
        """Return all columns of a record, or of a part of a pair."""
        record = super().row(self.record_of(number))
        if number < len(self):
            return record
        part, place = divmod(number - len(self), len(self.pairs))
        if part == 0:
            return record
        richer = super().row(int(self.pairs[place, 0]))
        context = (record if part == 1 else richer)["context"]
        lateral, prior = availability(context)
        sources = {
            "lateral": richer["lateral"] if lateral else None,
            "prior_report": richer["prior_report"] if prior else None,
        }
        return record | {"context": context} | sources

    def record_id(self, number: int) -> str:
        """Return the id of a record, or both ids of a pair."""
        if number < len(self):
            return super().record_id(number)
        richer, poorer = self.pairs[(number - len(self)) % len(self.pairs)]
        return f"{super().record_id(int(richer))}>{super().record_id(int(poorer))}"

    def rows(self, split: str, contexts: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the pairs of each draw for the train split, and the records of each context for
        another split."""
        if split != "train":
            return super().rows(split, contexts)
        rows = {}
        for place, (more, fewer) in enumerate(self.draws):
            if more in contexts and fewer in contexts:
                start, end = self.bounds[place : place + 2]
                rows[f"{more}>{fewer} {place}"] = np.arange(start, end, dtype=np.int32)
        return rows


@dataclass(kw_only=True)
class PairedBatch(TrainingBatch):
    """The first parts of pairs, then the second, then the third, which have no weight in the
    parent's objective."""

    #: [n], omega of the predicted tokens of the second and third parts, whose targets are the same.
    ranked: Tensor


class PairedExamples(Examples):
    """Examples whose train micro-batches hold the first parts of pairs, then the second, then the
    third."""

    def __init__(self, table: RecordTable, *rest: Any):
        self.pair_table = PairTable(table)
        super().__init__(self.pair_table, *rest)

    def sequence(self, row: int, commit: bool) -> TokenSequence:
        """Return the sequence of a record, which a part of a pair shares."""
        return super().sequence(self.pair_table.record_of(row), commit)

    def lengths(self, rows: np.ndarray, commits: np.ndarray) -> np.ndarray:
        """Return the lengths of records or of pairs; a pair is as long as its longest part."""
        if rows.min() < len(self.pair_table):
            return super().lengths(rows, commits)
        records = self.pair_table.pairs[rows - len(self.pair_table)]
        return super().lengths(records.ravel(), commits.repeat(2)).reshape(-1, 2).max(axis=1)

    def training_batch(self, micro: MicroBatch, lambda_q: float) -> PairedBatch:
        """Return all parts of each pair, on the pair's route; the third parts have no weight."""
        rows = self.pair_table.parts_of(micro.rows)
        batch = self.batch(rows, micro.commits.tolist() * 3, lambda_q)
        part = torch.arange(len(batch.ids)) // len(micro.rows)
        part_of_token = part[batch.at // batch.ids.shape[1]]
        trained = part_of_token < 2
        omega_cons = batch.omega_cons & trained
        weighted = replace(
            batch,
            omega=batch.omega * trained,
            s=batch.s * trained,
            omega_cons=omega_cons,
            kappa=batch.kappa * (part < 2),
            consistent=int(omega_cons.sum()),
        )
        return PairedBatch(**vars(weighted), ranked=batch.omega * (part_of_token > 0))


class ResidualExperts(nn.Module):
    r"""One expert for each source and a gate over the observed ones.

        R_s(Z) = W_up,s GELU(W_down,s LN_s(Z))        position-wise, rank r
        u      = [mean Z_f; a_l mean Z_l; a_p mean Z_p]        zeros included, as published
        w      = softmax over observed s of (W_o GELU(W_i LN(u) + b_i) + b_o)_s

    An absent source has the logit minus infinity, so its w is 0. W_up starts at zero, so at first
    nothing is added.

    Args:
        d_model: d.
        rank: r.
        d_gate: hidden width of the gate.
    """

    def __init__(self, d_model: int, *, rank: int, d_gate: int):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3))
        self.down = nn.ModuleList(nn.Linear(d_model, rank, bias=False) for _ in range(3))
        self.up = nn.ModuleList(nn.Linear(rank, d_model, bias=False) for _ in range(3))
        for up in self.up.parameters():
            nn.init.zeros_(up)
        self.gate_norm = nn.LayerNorm(3 * d_model)
        self.gate_in = nn.Linear(3 * d_model, d_gate)
        self.gate_out = nn.Linear(d_gate, 3)

    def mixture(self, tokens: Tensor, availability: Tensor) -> Tensor:
        """Return w [B, 3] for source tokens [B, 3, Q, d] (zeros if absent) and availability [B, 2]
        bool."""
        # [B, 3]: the frontal is always available
        observed = F.pad(availability, (1, 0), value=True)
        means = torch.where(observed.unsqueeze(-1), tokens.mean(2), 0)
        logits = self.gate_out(F.gelu(self.gate_in(self.gate_norm(means.flatten(1)))))
        return logits.float().masked_fill(~observed, -torch.inf).softmax(-1)

    def forward(self, tokens: Tensor, sources: RefinedSources) -> Tensor:
        """Return w_s R_s(Z_s) [B, 3, Q, d], zero for an absent source. sources: those of ``tokens``
        [B, 3, Q, d]."""
        everywhere = torch.arange(len(tokens), device=tokens.device)
        answers = torch.zeros_like(tokens)
        for s, rows in enumerate((everywhere, sources.lateral_rows, sources.prior_rows)):
            if rows is not None:
                low = self.down[s](self.norms[s](tokens[:, s].index_select(0, rows)))
                answers[:, s] = answers[:, s].index_copy(
                    0, rows, self.up[s](F.gelu(low)).to(answers.dtype)
                )
        return self.mixture(tokens, sources.availability)[:, :, None, None] * answers


class SimMLM(Adapted):
    """The parent with experts: w_s R_s(Z_s) is added to Z_s before the fusion. At first it computes
    as the parent."""

    name = "simmlm"
    settings_type = SimMLMSettings
    only_in: ClassVar = {
        f"added.{part}.{source}.": WITH_SOURCE[source]
        for part in ("norms", "down", "up")
        for source in (1, 2)
    }

    def blocks(self, name: str, values: Tensor) -> list[tuple[Tensor, tuple[str, ...]]]:
        """Divide as :meth:`Pacer.blocks`; the gate's output has a row for each source."""
        if name.startswith("added.gate_out."):
            return list(zip(values.chunk(3), WITH_SOURCE, strict=True))
        return super().blocks(name, values)

    def new_modules(self, settings: SimMLMSettings) -> ResidualExperts:
        """Return the experts and their gate."""
        return ResidualExperts(
            self.language.config.hidden_size, rank=settings.rank, d_gate=settings.d_gate
        )

    def source_tokens(self, refined: RefinedSources, batch: Batch) -> SourceTokens:
        """Return the source tokens and the visual tokens, including what the experts add."""
        return self.interface(refined, mix=lambda tokens: tokens + self.added(tokens, refined))


def paired_objective(
    model: SimMLM,
    batch: PairedBatch,
    losses: LossWeights,
    *,
    settings: SimMLMSettings,
    **named: Any,
) -> Objective:
    """Return the parent's objective over the first two parts of pairs, plus ``alpha * mean
    relu(n_more - n_fewer)``.

    n is the weighted mean of a sample's negative log-likelihoods, ``sum(omega l) / sum(omega)``.
    Nothing is detached: if more evidence explains the target worse, the gradient also raises the
    loss with less evidence.

    Args:
        batch: the first parts of pairs (:class:`PairTable`), then the second, then the third,
            which the ranking compares with the second.
        settings: ``alpha``, and ``batch_size``, which is twice the number of pairs in a micro-batch
            of all processes. named: as for :func:`~pacer.training.losses.objective`.
    """
    result = objective(model, batch, losses, **named)
    sample = batch.at // batch.ids.shape[1]
    nothing = result.nll.new_zeros(len(batch.ids))
    weight = nothing.index_add(0, sample, batch.ranked)
    per_sample = nothing.index_add(0, sample, batch.ranked * result.nll) / weight.clamp(min=EPSILON)
    _, fewer, more = per_sample.chunk(3)
    pairs = settings.batch_size // 2
    ranking = F.relu(more - fewer).sum() / pairs
    logged = {"ranking": ranking.detach(), "violated": (more > fewer).sum() / pairs}
    return result._replace(
        total=result.total + settings.alpha * ranking, parts=result.parts | logged
    )


def train_simmlm(
    settings: SimMLMSettings, params: Params, inputs: Inputs, out: Path, open_log: OpenLog
) -> None:
    """Train SimMLM; see :func:`~pacer.extras.baselines.adapted.train_adapted`."""
    in_pairs = settings.model_copy(update={"batch_size": settings.batch_size // 2})
    loss = partial(paired_objective, settings=settings)
    train_adapted(
        SimMLM,
        settings,
        params,
        inputs,
        out,
        open_log,
        PairedExamples,
        schedule=in_pairs,
        objective=loss,
    )
