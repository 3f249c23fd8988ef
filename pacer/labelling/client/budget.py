"""What labelling costs: the estimate before, and the limits in requests and dollars during the work.

Tokens are estimated as characters / 4 for the input and as ``max_tokens`` for the output, which is an upper bound.
What was really used comes from the answers' ``usage``. An answer that was lost on the way may have been paid, and
counts with its estimate, as does one without ``usage``. Discounts for cached input are not counted.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from pacer.core.errors import ConfigError, PacerError
from pacer.labelling.answers.reading import Reply
from pacer.labelling.client.request import CHARACTERS_PER_TOKEN, Question
from pacer.params import Labelling

_MILLION = 1e6


class Budget:
    """Requests and dollars of one labelling; what runs ahead of an answer is reserved. Safe to share among threads.

    Args:
        config: prices and limits.
        requests, dollars: what the answers that exist already have cost.
    """

    def __init__(self, config: Labelling, requests: int = 0, dollars: float = 0.0):
        self._config = config
        self._lock = threading.Lock()
        self.requests, self.dollars = requests, dollars

    def price(self, prompt_tokens: int, completion_tokens: int, batch: bool) -> float:
        """Dollars for so many tokens."""
        share = 1.0 - self._config.batch_discount if batch else 1.0
        tokens = prompt_tokens * self._config.input_price + completion_tokens * self._config.output_price
        return share * tokens / _MILLION

    def expected(self, question: Question, batch: bool) -> float:
        """What a question may cost at most, by estimate."""
        return self.price(question.prompt_tokens, self._config.max_tokens, batch)

    def paid(self, reply: Reply, expected: float, batch: bool) -> float:
        """What an answer has cost by its ``usage``; ``expected`` where the endpoint gives none."""
        if reply.prompt_tokens is None or reply.completion_tokens is None:
            return expected
        return self.price(reply.prompt_tokens, reply.completion_tokens, batch)

    def announce(self, questions: Iterable[Question], batch: bool) -> str:
        """The estimate in words, for a reader who may still stop the work.

        Raises:
            ConfigError: the questions are more than the budget allows; nothing was sent.
        """
        questions = list(questions)
        inputs = sum(question.prompt_tokens for question in questions)
        outputs = len(questions) * self._config.max_tokens
        dollars = self.price(inputs, outputs, batch)
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

    def take(self, dollars: float, requests: int = 1) -> None:
        """Reserve what requests that are about to be sent may cost.

        Raises:
            PacerError: the limit would be passed.
        """
        with self._lock:
            over = self._over(requests, dollars)
            if over:
                raise PacerError(
                    f"{over} is spent: {self.requests} requests, ${self.dollars:.2f}. The answers are kept; raise the "
                    "limit and run the stage again for the rest"
                )
            self.requests += requests
            self.dollars += dollars

    def change(self, dollars: float, requests: int = 0) -> None:
        """Correct what was reserved: by what was paid, or back to nothing (negative) when it cost nothing."""
        with self._lock:
            self.requests += requests
            self.dollars += dollars

    def _over(self, requests: int, dollars: float) -> str | None:
        """The limit that would be passed, by name."""
        config = self._config
        if config.max_requests is not None and self.requests + requests > config.max_requests:
            return f"anchors.llm.max_requests: {config.max_requests}"
        if config.max_dollars is not None and self.dollars + dollars > config.max_dollars * (1 + 1e-9):
            return f"anchors.llm.max_dollars: {config.max_dollars}"
        return None
