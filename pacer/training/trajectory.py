"""Supervised trajectories: token ids, spans and weights of the two routes (paper, section "Commit",
equation (commitment-route)).

A trajectory consists of pieces that are tokenised separately and joined as ids. So the spans are
exact, and the report ids are always those of the cleaned report, whatever comes before it:

    commitment first:  [BOS] <ANCHOR> … </ANCHOR> · \\n<REPORT>\\n · report · \\n</REPORT> · EOS
    direct:            [BOS] report · EOS

``Span`` gives the piece of each predicted token: COMMITMENT and OPENING form Omega_Q; REPORT,
CLOSING and END form Omega_Y; Omega_cons is everything after ``</ANCHOR>``.
"""

import hashlib
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from transformers import PreTrainedTokenizerBase

from pacer.backbones.tokenizer import CLOSING_TEXT, OPENING_TEXT, continuation_ids


class Span(IntEnum):
    """The piece of the trajectory that a target token belongs to."""

    BOS = 0
    COMMITMENT = 1
    OPENING = 2
    REPORT = 3
    CLOSING = 4
    END = 5


class RouteSeed(NamedTuple):
    """The seed of the route draws."""

    #: ``train.seed``.
    seed: int
    #: The name of the phase.
    phase: str

    def uniform(self, visit: int, record_id: str) -> float:
        """Return a number in [0, 1) that depends only on seed, phase, visit and record.

        The route is direct (xi = 0) if and only if the number is below rho. ``visit`` is how often
        the phase has already used the record.
        """
        text = f"{self.seed}|{self.phase}|{visit}|{record_id}"
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64


class Trajectory(NamedTuple):
    """One target sequence tau. Arrays have one entry per token, BOS first."""

    #: int64.
    ids: np.ndarray
    #: int8, the :class:`Span` of each token.
    spans: np.ndarray
    #: float32, 1 for emphasised tokens; zero outside the report.
    s: np.ndarray
    #: Whether the sequence is commitment-first (xi = 1).
    commit: bool

    def omega(self, lambda_q: float) -> np.ndarray:
        """Return float32 weights: lambda_q on Omega_Q, 1 on Omega_Y, 0 on BOS (ignored by
        cross-entropy)."""
        weights = np.select(
            [self.spans == Span.BOS, self.spans <= Span.OPENING], [0.0, lambda_q], default=1.0
        )
        return weights.astype(np.float32)

    def kappa(self, lambda_q: float) -> float:
        """Return the weight that the ignored BOS keeps in the denominator."""
        return lambda_q if self.commit else 1.0

    @property
    def omega_cons(self) -> np.ndarray:
        """Omega_cons as booleans: all tokens predicted after ``</ANCHOR>``."""
        return self.spans >= Span.OPENING


class TrajectoryBuilder:
    """A builder of trajectories with one tokenizer.

    Args:
        tokenizer: of the language model; BOS and EOS must be set.
        report_tokens: maximum number of report tokens, BOS included; longer reports are cut, as
            upstream does. A cut report gets neither the closing delimiter nor EOS; the commitment
            is never cut.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, report_tokens: int):
        self.tokenizer = tokenizer
        self.report_tokens = report_tokens
        self.opening = continuation_ids(tokenizer, OPENING_TEXT)
        self.closing = continuation_ids(tokenizer, CLOSING_TEXT)

    def is_cut(self, report_ids: Sequence[int]) -> bool:
        """Whether a report is too long: upstream tokenises BOS + report + EOS and cuts the whole at
        the limit."""
        return len(report_ids) + 2 > self.report_tokens

    def build(
        self, report: str, commitment: str | None, emphasis: list[float] | None
    ) -> Trajectory:
        """Build one trajectory: commitment-first if ``commitment`` (its rendered text) is given,
        else direct.

        Args:
            report: the cleaned report.
            emphasis: 0 or 1 for BOS, the report's tokens and EOS; missing values at the end are
                zeros. ``None``: all zeros.
        """
        report_ids = self.tokenizer(report, add_special_tokens=False)["input_ids"]
        cut = self.is_cut(report_ids)
        report_ids = report_ids[: self.report_tokens - 1]
        scores = np.asarray([] if emphasis is None else emphasis[1:], dtype=np.float32)

        pieces: list[tuple[Span, list[int]]] = [(Span.BOS, [self.tokenizer.bos_token_id])]
        if commitment is not None:
            commitment_ids = self.tokenizer(commitment, add_special_tokens=False)["input_ids"]
            pieces += [(Span.COMMITMENT, commitment_ids), (Span.OPENING, self.opening)]
        pieces.append((Span.REPORT, report_ids))
        if not cut:
            if commitment is not None:
                pieces.append((Span.CLOSING, self.closing))
            pieces.append((Span.END, [self.tokenizer.eos_token_id]))

        ids = np.concatenate([np.asarray(piece, dtype=np.int64) for _, piece in pieces])
        spans = np.concatenate([np.full(len(piece), span, dtype=np.int8) for span, piece in pieces])
        s = np.zeros(len(ids), dtype=np.float32)
        scored = np.flatnonzero((spans == Span.REPORT) | (spans == Span.END))[: len(scores)]
        s[scored] = scores[: len(scored)]
        return Trajectory(ids, spans, s, commitment is not None)
