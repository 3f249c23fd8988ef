"""Asking one request at a time in each of a few slots; every answer is on disk before its slot asks the next one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

import openai

from pacer.core.errors import PacerError
from pacer.core.progress import Ticker
from pacer.labelling.answers.reading import REFUSAL, Reply, read_answer, read_body, read_json_text
from pacer.labelling.client.budget import Budget
from pacer.labelling.client.cache import MAY_BE_PAID, AnswerCache, answer_line
from pacer.labelling.client.client import (
    MAX_IN_A_ROW,
    MAX_LOST,
    Patience,
    Trouble,
    diagnose,
    name_of,
    refusal,
    trouble_in,
)
from pacer.labelling.client.request import Question, RequestForm
from pacer.params import Labelling


class Asker:
    """Asks an endpoint in ``config.concurrency`` threads.

    Answers go to the cache. An HTTP 200 whose body arrived is an answer, whatever the body holds (but for an error in
    place of the choices): it is never asked for again. A request that the endpoint refuses as such (a content filter,
    for example) is an answer as well.

    Args:
        answered: answers to requests of this form that there are already.
    """

    def __init__(
        self,
        client: openai.OpenAI,
        form: RequestForm,
        config: Labelling,
        cache: AnswerCache,
        budget: Budget,
        answered: int,
    ):
        self._client, self._form, self._config, self._cache, self._budget = client, form, config, cache, budget
        self._stop = threading.Event()
        self._endpoint = name_of(client)
        self._patience = Patience(self._endpoint, config, self._stop)
        self._lock = threading.Lock()
        self._answered = answered
        self._in_a_row = self._unreadable = 0
        self._refused: list[Question] = []

    def ask(self, questions: Sequence[Question]) -> dict[str, Trouble]:
        """Ask all questions; returns those that got no answer, by record id.

        Raises:
            PacerError: the endpoint answers nothing, or nothing that can be read, asks for a long wait, or the budget
                is spent. What was answered is in the cache.
        """
        self._left = iter(questions)
        self._failed: dict[str, Trouble] = {}
        with (
            Ticker("labelling", len(questions)) as self._ticker,
            ThreadPoolExecutor(min(self._config.concurrency, len(questions))) as pool,
        ):
            slots = [pool.submit(self._work) for _ in range(min(self._config.concurrency, len(questions)))]
            try:
                wait(slots, return_when=FIRST_EXCEPTION)
            finally:
                self._stop.set()  # what is in flight is still waited for: it may be paid already
        for slot in slots:
            slot.result()
        if self._refused and not self._answered:
            raise self._refusal(self._refused[0], Trouble("refused"))
        self._believe(self._refused)
        return self._failed

    def _work(self) -> None:
        while not self._stop.is_set():
            with self._lock:
                question = next(self._left, None)
            if question is None:
                return
            self._settle(question, self._answer(question))

    def _answer(self, question: Question) -> Trouble | None:
        """Try until there is an answer; returns the last trouble when there is none."""
        trouble, lost = None, 0
        expected = self._budget.expected(question, batch=False)
        for attempt in range(self._config.attempts):
            if trouble is not None:
                self._patience.after(trouble, attempt - 1)
            self._patience.clear()
            if self._stop.is_set():
                return trouble or Trouble("not_asked")
            self._budget.take(expected)
            self._cache.sent(question.request_hash)
            reply, trouble = self._post(question)
            if trouble is None:
                dollars = self._budget.paid(reply, expected, batch=False)
                self._budget.change(dollars - expected)
                self._add(question, reply, dollars)
                self._heed(question, reply)
                return None
            self._cache.no_answer(question.request_hash, trouble.reason)
            if trouble.reason not in MAY_BE_PAID:
                self._budget.change(-expected, -1)
            lost += trouble.reason in MAY_BE_PAID
            if trouble.advice == "stop":
                raise self._refusal(question, trouble)
            if trouble.advice == "refuse" or lost == MAX_LOST:
                break
        return trouble

    def _post(self, question: Question) -> tuple[Reply, Trouble | None]:
        request = self._form.request(question.content)
        try:
            content = self._client.chat.completions.with_raw_response.create(**request).content
        except openai.APIError as error:
            trouble = diagnose(error)
            return Reply(""), None if trouble.reason == "undecodable" else trouble
        body = content.decode("utf-8", "replace")
        return read_body(body), trouble_in(read_json_text(body))

    def _heed(self, question: Question, reply: Reply) -> None:
        """Count answers that cannot be read: a page of a proxy comes for every request."""
        answer = read_answer(reply.content, question.record_id, reply.finish_reason)
        with self._lock:
            self._unreadable = 0 if answer.status == "ok" else self._unreadable + 1
            if self._unreadable == MAX_IN_A_ROW:
                raise PacerError(
                    f"{MAX_IN_A_ROW} answers of {self._endpoint} in a row cannot be read, the last that of "
                    f"{question.record_id} ({answer.status.replace('_', ' ')}); check that anchors.llm.base_url and "
                    "anchors.llm.model name a model that answers in JSON. The answers are kept: to ask for them anew, "
                    "delete their lines (docs/labelling.md)"
                )

    def _settle(self, question: Question, trouble: Trouble | None) -> None:
        """Count what became of a question.

        Refusals are believed once another request is answered after them: until then they may be meant for all.
        """
        believed: list[Question] = []
        with self._lock:
            if trouble is None:
                believed, self._refused = self._refused, []
                self._answered += 1
                self._in_a_row = 0
            elif trouble.advice == "refuse":
                self._refused.append(question)
            else:
                self._failed[question.record_id] = trouble
                self._in_a_row += 1
            without = len(self._failed) + len(self._refused)
            self._ticker.advance(len(believed) + (trouble is None), f"{without} without an answer" if without else "")
            if trouble and len(self._refused) == MAX_IN_A_ROW:
                raise self._refusal(question, trouble)
            if trouble and self._in_a_row == MAX_IN_A_ROW:
                raise PacerError(
                    f"{MAX_IN_A_ROW} requests in a row got no answer from {self._endpoint}, the last that of "
                    f"{question.record_id} ({trouble}); the answers so far are kept, run the stage again when the "
                    "endpoint is well"
                )
        self._believe(believed)

    def _believe(self, refused: Sequence[Question]) -> None:
        for question in refused:
            self._add(question, Reply("", REFUSAL), 0.0)

    def _refusal(self, question: Question, trouble: Trouble) -> PacerError:
        return refusal(self._endpoint, f"the request of {question.record_id}", trouble)

    def _add(self, question: Question, reply: Reply, dollars: float) -> None:
        lost = self._cache.lost(question.request_hash)
        form = self._form
        self._cache.add(
            answer_line(question.record_id, question.request_hash, form.prompt_hash, "openai", reply, dollars, lost)
        )
