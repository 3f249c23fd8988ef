"""Sends all questions, a few at a time; an answer is on disk before its slot sends the next one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice

from pacer.commitments.labelling.budget import Budget
from pacer.commitments.labelling.cache import AnswerCache, CachedAnswer
from pacer.commitments.labelling.endpoint import MAY_BE_PAID, Endpoint, Outcome
from pacer.commitments.labelling.reading import REFUSAL, Reply
from pacer.commitments.labelling.request import Question
from pacer.core.errors import PacerError
from pacer.core.progress import Ticker

#: Requests in a row without an answer that can be read, after which the rest is not tried.
MAX_IN_A_ROW = 20


class Dispatcher:
    """Sends questions from a few threads; cache and budget are this thread's alone.

    Args:
        answered: whether there is an answer already, so that a refusal cannot be meant for all requests.

    Attributes:
        troubles: why tries failed. lost: tries of requests without an answer that may have been paid.
    """

    def __init__(self, endpoint: Endpoint, cache: AnswerCache, budget: Budget, slots: int, answered: bool):
        self._endpoint, self._cache, self._budget = endpoint, cache, budget
        self._slots, self._answered = slots, answered
        self.troubles: Counter[str] = Counter()
        self.lost = self._in_a_row = 0
        self._refused: list[Question] = []
        self._failed: dict[str, str] = {}

    def run(self, questions: Sequence[Question]) -> dict[str, str]:
        """Ask all questions; returns why those that got no answer failed, by record id.

        A request that the endpoint refuses as such has an answer, ``refused``, if another one is answered.

        Raises:
            PacerError: the endpoint refuses everything, gives no answer that can be read, or the budget is spent. What
                was answered is in the cache.
        """
        remaining = iter(questions)
        waiting: dict[Future[Outcome], Question] = {}
        with Ticker("labelling", len(questions)) as ticker, ThreadPoolExecutor(self._slots) as pool:
            try:
                while True:
                    for question in islice(remaining, self._slots - len(waiting)):
                        self._budget.check([*waiting.values(), question])
                        waiting[pool.submit(self._endpoint.ask, question.request)] = question
                    if not waiting:
                        break
                    for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                        question = waiting.pop(future)
                        self._keep(question, future.result())
                        self._judge(question, future.result())
                        without = len(self._failed) + len(self._refused)
                        note = f"{without} without an answer" if without else ""
                        ticker.advance(future.result().reply is not None, note)
            finally:
                for future, question in waiting.items():  # what is in flight may be paid already
                    self._keep(question, future.result())
            if self._refused and not self._answered:
                raise self._endpoint.refusal(self._refused[0].record_id, "as all others")
            for question in self._refused:
                self._cache.add(CachedAnswer.of(question, Reply("", REFUSAL)))
            ticker.advance(len(self._refused))
        return self._failed

    def _keep(self, question: Question, outcome: Outcome) -> None:
        """Put an answer on disk, and count what the question has cost."""
        lost = sum(reason in MAY_BE_PAID for reason in outcome.failed)
        self.troubles.update(outcome.failed)
        dollars = None
        if outcome.reply is not None:
            dollars = self._budget.paid(outcome.reply, question)
            self._cache.add(CachedAnswer.of(question, outcome.reply, dollars=dollars, lost=lost))
        else:
            self.lost += lost
        self._budget.count(question, dollars, lost)

    def _judge(self, question: Question, outcome: Outcome) -> None:
        """Classify the outcome; stop where continuing would be pointless."""
        if outcome.refuses == "all":
            raise self._endpoint.refusal(question.record_id, outcome.failed[-1])
        if outcome.reply is not None:
            self._answered = True
            result = self._cache.answers[question.request_hash].status.replace("_", " ")
        else:
            result = outcome.failed[-1]
            if outcome.refuses == "this":
                self._refused.append(question)
            else:
                self._failed[question.record_id] = result
        self._in_a_row = 0 if result == "ok" else self._in_a_row + 1
        if self._in_a_row == MAX_IN_A_ROW:
            raise PacerError(
                f"{MAX_IN_A_ROW} requests in a row got no answer from {self._endpoint.name} that can be read, the last "
                f"for {question.record_id} ({result}); check that anchors.llm.base_url and anchors.llm.model name a "
                "model that answers in JSON, and run the stage again. All answers are saved, unreadable ones too: "
                "delete their lines to ask again (docs/commitments.md)"
            )
