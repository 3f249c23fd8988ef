"""What labelling costs: the estimate before, and the limits in requests and dollars during the work.

Tokens are estimated as characters / 4 for the input and as ``max_tokens`` for the output, which is an upper bound.
What was really used comes from the answers' ``usage``. A try that was lost on the way may have been paid, and counts
with its estimate, as does an answer without ``usage``. Discounts for cached input are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from pacer.core.errors import ConfigError, PacerError
from pacer.labelling.answers.reading import Reply
from pacer.labelling.client.request import CHARACTERS_PER_TOKEN, Question
from pacer.params import Labelling

_MILLION = 1e6


class Budget:
    """Requests and dollars of one labelling: what earlier runs have cost, and what is on its way by its estimate."""

    def __init__(self, config: Labelling):
        self._config = config
        self.requests, self.dollars = 0, 0.0

    def price(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Dollars for so many tokens."""
        tokens = prompt_tokens * self._config.input_price + completion_tokens * self._config.output_price
        return tokens / _MILLION

    def expected(self, question: Question) -> float:
        """What a question may cost at most, by estimate."""
        return self.price(question.prompt_tokens, self._config.max_tokens)

    def paid(self, reply: Reply, question: Question) -> float:
        """What an answer has cost by its ``usage``; the estimate where the endpoint gives none."""
        if reply.prompt_tokens is None or reply.completion_tokens is None:
            return self.expected(question)
        return self.price(reply.prompt_tokens, reply.completion_tokens)

    def count(self, question: Question, paid: float | None, lost: int) -> None:
        """Count an answer (None: there is none), and the tries that may have been paid without one."""
        self.requests += lost + (paid is not None)
        self.dollars += lost * self.expected(question) + (paid or 0.0)

    def reserve(self, question: Question) -> None:
        """Set aside what a request that is about to be sent may cost, until it is released.

        Raises:
            PacerError: the limit would be passed.
        """
        over = self._over(1, self.expected(question))
        if over:
            raise PacerError(
                f"{over} is spent: {self.requests} requests, ${self.dollars:.2f}. The answers are kept; raise the "
                "limit and run the stage again for the rest"
            )
        self.count(question, self.expected(question), 0)

    def release(self, question: Question) -> None:
        """Undo :meth:`reserve`: what the request has cost is known."""
        self.requests -= 1
        self.dollars -= self.expected(question)

    def announce(self, questions: Sequence[Question]) -> str:
        """The estimate in words, for a reader who may still stop the work.

        Raises:
            ConfigError: the questions are more than the budget allows; nothing was sent.
        """
        inputs = sum(question.prompt_tokens for question in questions)
        outputs = len(questions) * self._config.max_tokens
        dollars = self.price(inputs, outputs)
        estimate = (
            f"{len(questions)} requests to send ({self.requests} paid before): about {inputs / _MILLION:.2f} M input "
            f"tokens (characters / {CHARACTERS_PER_TOKEN}) and at most {outputs / _MILLION:.2f} M output tokens, "
            f"at most about ${dollars:.2f} (${self.dollars:.2f} paid before)"
        )
        over = self._over(len(questions), dollars)
        if over:
            raise ConfigError(
                f"{over} does not cover {estimate}; raise it, or lower anchors.sample_per_context. Nothing was sent"
            )
        return estimate

    def _over(self, requests: int, dollars: float) -> str | None:
        """The limit that would be passed, by name."""
        config = self._config
        if config.max_requests is not None and self.requests + requests > config.max_requests:
            return f"anchors.llm.max_requests: {config.max_requests}"
        if config.max_dollars is not None and self.dollars + dollars > config.max_dollars * (1 + 1e-9):
            return f"anchors.llm.max_dollars: {config.max_dollars}"
        return None
