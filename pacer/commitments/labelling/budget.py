"""What labelling costs: the estimate before, and the limits in requests and dollars during the work.

Tokens are estimated as characters / 4 for the input and as ``max_tokens`` for the output, which is an upper bound.
What was really used comes from the answers' ``usage``. A try that was lost on the way may have been paid, and counts
with its estimate, as does an answer without ``usage``. Discounts for cached input are not counted.
"""

from __future__ import annotations

from collections.abc import Collection

from pacer.commitments.labelling.reading import Reply
from pacer.commitments.labelling.request import CHARACTERS_PER_TOKEN, Question
from pacer.config import Labelling
from pacer.core.errors import ConfigError, PacerError

_MILLION = 1e6


class Budget:
    """Requests and dollars of one labelling, those of earlier runs included."""

    def __init__(self, config: Labelling):
        self._config = config
        self.requests, self.dollars = 0, 0.0

    def _price(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Dollars for so many tokens."""
        tokens = prompt_tokens * self._config.input_price + completion_tokens * self._config.output_price
        return tokens / _MILLION

    def _expected(self, question: Question) -> float:
        """What a question may cost at most, by estimate."""
        return self._price(question.prompt_tokens, self._config.max_tokens)

    def paid(self, reply: Reply, question: Question) -> float:
        """What an answer has cost by its ``usage``; the estimate where the endpoint gives none."""
        if reply.prompt_tokens is None or reply.completion_tokens is None:
            return self._expected(question)
        return self._price(reply.prompt_tokens, reply.completion_tokens)

    def count(self, question: Question, paid: float | None, lost: int) -> None:
        """Count an answer (None: there is none), and the tries that may have been paid without one."""
        self.requests += lost + (paid is not None)
        self.dollars += lost * self._expected(question) + (paid or 0.0)

    def check(self, in_flight: Collection[Question]) -> None:
        """Make sure that the limits cover these questions as well.

        Raises:
            PacerError: they do not.
        """
        over = self._over(in_flight)
        if over:
            raise PacerError(
                f"{over} is spent: {self.requests} requests, ${self.dollars:.2f}. The answers are saved; raise the "
                "limit and run the stage again for the rest"
            )

    def announce(self, questions: Collection[Question]) -> str:
        """The estimate in words, for a reader who may still stop the work.

        Raises:
            ConfigError: the questions are more than the budget allows; nothing was sent.
        """
        inputs = sum(question.prompt_tokens for question in questions)
        outputs = len(questions) * self._config.max_tokens
        dollars = self._price(inputs, outputs)
        estimate = (
            f"{len(questions)} requests to send ({self.requests} paid before): about {inputs / _MILLION:.2f} M input "
            f"tokens (characters / {CHARACTERS_PER_TOKEN}) and at most {outputs / _MILLION:.2f} M output tokens, "
            f"at most about ${dollars:.2f} (${self.dollars:.2f} paid before)"
        )
        over = self._over(questions)
        if over:
            raise ConfigError(
                f"{over} does not cover {estimate}; raise it, or lower anchors.sample_per_context. Nothing was sent"
            )
        return estimate

    def _over(self, questions: Collection[Question]) -> str | None:
        """The limit that these questions would pass, by name."""
        requests, dollars = self._config.max_requests, self._config.max_dollars
        if requests is not None and self.requests + len(questions) > requests:
            return f"anchors.llm.max_requests: {requests}"
        if dollars is not None and self.dollars + sum(map(self._expected, questions)) > dollars * (1 + 1e-9):
            return f"anchors.llm.max_dollars: {dollars}"
        return None
