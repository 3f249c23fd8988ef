"""Labelling of the sample by a language model or from recorded answers; the result has one line per answer.

Answers are keyed by the hash of their request (model, prompt, report, rule-based candidate, settings). So an answer is
reused exactly as long as its request is unchanged, and an interrupted run sends only the remaining requests.
"""

from __future__ import annotations

import codecs
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import polars as pl
from pydantic import BaseModel

from pacer.commitments.answers import (
    Reply,
    StoredAnswer,
    read_answer,
    read_answers,
    read_completion,
    read_lines,
    restored,
)
from pacer.commitments.request import Question, build_questions, system_prompt
from pacer.commitments.sampling import refuse_held_out
from pacer.config import Labelling
from pacer.core.audits import Check, number
from pacer.core.errors import ConfigError, DataError, PacerError
from pacer.core.io import hash_bytes, write_jsonl
from pacer.core.progress import Ticker

if TYPE_CHECKING:
    from pacer.commitments.endpoint import Endpoint, Outcome

#: Number of consecutive requests without a readable answer after which the run stops.
MAX_IN_A_ROW = 20


def label_sample(
    sample: pl.DataFrame, records: pl.DataFrame, config: Labelling, out: Path, rules: str = "careful"
) -> dict[str, Any]:
    """Write ``out/llm_cache.jsonl`` with the answers for the sampled records.

    Args:
        sample: the table that :func:`pacer.commitments.sampling.sample_records` returns. records: the corpus.
        config: provider ``none`` (no answers), ``recorded`` (answers from a file, by record id) or ``openai``.
        out: folder of the cache; answers already in the cache are not requested again.
        rules: ``anchors.rules``, the rule set of the candidate in the request.

    Returns:
        The audit: counts of answers by status, tokens, dollars and troubles, and its ``checks``.

    Raises:
        ConfigError: report text would leave the machine without the user's consent, the prompt cannot be read, or the
            budget does not cover the requests; nothing was sent.
        DataError: a sampled record is unknown or held out, or a file of answers is malformed.
        PacerError: some requests got no answer; the other answers are stored.
    """
    refuse_held_out(records, sample["record_id"])
    path, prompt = out / "llm_cache.jsonl", system_prompt(config.prompt_file)
    questions = [] if config.provider == "none" else build_questions(sample, records, config, prompt, rules)
    # recorded answers are always read from their own file
    bought = [answer for answer in read_answers(path) if answer.provider == "openai"]
    paid = {answer.request_hash: answer for answer in map(restored, bought) if answer is not None}
    if len(paid) < len(bought):
        lost = len(bought) - len(paid)
        print(
            f"labelling: {lost} lines of {path} are not answers of a model; their requests are sent again",
            file=sys.stderr,
        )
    reused, troubles = 0, Counter[str]()
    if config.provider == "recorded":
        current = _recorded(questions, Path(str(config.recorded)), config)
    else:
        reused = sum(question.request_hash in paid for question in questions)
        if reused < len(questions):
            troubles = _ask_all(questions, paid, config, path)
        current = [paid[question.request_hash] for question in questions if question.request_hash in paid]
    used = {answer.request_hash for answer in current if answer.provider == "openai"}
    older = [answer for key, answer in paid.items() if key not in used]
    _write(path, current, older)
    read = [read_answer(answer.raw, answer.record_id, answer.finish_reason) for answer in current]
    dollars, checks = sum(answer.dollars for answer in current), list[Check]()
    lost = troubles["timeout"] + troubles["disconnected"]
    if config.provider == "openai" and current:
        maybe = f"; {number(lost)} lost answers may have been paid too" if lost else ""
        checks.append(Check("Cost of the labels", f"${dollars:.2f}{maybe}", not lost))
    return {
        "provider": config.provider,
        "prompt": hash_bytes(prompt.encode()),
        "sampled": sample.height,
        "answered": len(current),
        "unanswered": sample.height - len(current),
        "reused": reused,
        "statuses": dict(sorted(Counter(answer.status for answer in read).items())),
        "models": dict(sorted(Counter(answer.model or "unknown" for answer in current).items())),
        "prompt_tokens": sum(answer.prompt_tokens or 0 for answer in current),
        "completion_tokens": sum(answer.completion_tokens or 0 for answer in current),
        "dollars": round(dollars, 6),
        "lost_and_perhaps_paid": lost,
        "troubles": dict(sorted(troubles.items())),
        "older_answers": len(older),
        "checks": [check._asdict() for check in checks],
    }


def _ask_all(
    questions: Sequence[Question], paid: dict[str, StoredAnswer], config: Labelling, path: Path
) -> Counter[str]:
    """Send the unanswered questions from several threads, and add the answers to ``paid``; return the number of
    requests without an answer, by reason."""
    from pacer.commitments.endpoint import connect  # the client takes a second to import

    missing = [question for question in questions if question.request_hash not in paid]
    spent = [paid[question.request_hash].dollars for question in questions if question.request_hash in paid]
    with connect(config) as endpoint:
        _check_budget(missing, spent, config)
        _write(path, (), paid.values())  # a new file: DVC may have linked the old one to its cache
        with path.open("a", encoding="utf-8") as file, Ticker("labelling", len(missing)) as ticker:
            requests = _Requests(endpoint, len(questions), paid, spent, config, file, ticker)
            with ThreadPoolExecutor(config.concurrency) as pool:
                list(pool.map(requests.send, missing))
    again = "The other answers are saved; run the stage again for the rest"
    if requests.stopped:
        raise PacerError(f"{requests.stopped[0]}. {again} (docs/commitments.md)")
    if requests.failed and config.unanswered == "stop":
        record_id, reason = next(iter(requests.failed.items()))
        raise PacerError(
            f"{len(requests.failed)} of {len(missing)} requests got no answer from {endpoint.address}, such as that of "
            f"{record_id} ({reason}). {again}, or set anchors.llm.unanswered: rules"
        )
    return requests.troubles


@dataclass
class _Requests:
    """The requests of a run and their outcomes, shared by threads.

    Attributes:
        number: of all questions, answered or not.
        paid, spent: the answers and their dollars, before and in this run; ``file`` receives a line per new answer.
        stopped: why the run stopped; empty while requests are sent.
        failed: reasons of the requests that may succeed another time, by record id.
        troubles: number of requests without an answer, by reason.
        unusable: the latest consecutive requests without a readable answer.
    """

    endpoint: Endpoint
    number: int
    paid: dict[str, StoredAnswer]
    spent: list[float]
    config: Labelling
    file: TextIO
    ticker: Ticker
    stopped: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    troubles: Counter[str] = field(default_factory=Counter)
    unusable: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def send(self, question: Question) -> None:
        """Send a question and store the outcome, unless the run has stopped."""
        if self.stopped:
            return
        try:
            outcome = self.endpoint.ask(question)
            with self.lock:
                self._count(question, outcome)
                self._check()
            os.fsync(self.file.fileno())  # the answer is on disk before the thread's next request
        except BaseException as error:  # a full disk, for example: further answers would be lost
            self.stopped.append(str(error))
            raise

    def _count(self, question: Question, outcome: Outcome) -> None:
        result = outcome.reason
        if outcome.reply is None:
            self.troubles[result] += 1
        else:
            answer = _stored(question, outcome.reply, self.config)
            self.file.write(answer.model_dump_json() + "\n")
            self.file.flush()
            self.paid[question.request_hash], result = answer, answer.status
            self.ticker.advance()
            self.spent.append(answer.dollars)
        if outcome.status == "failed":
            self.failed[question.record_id] = result
        if result == "ok":
            self.unusable.clear()
        else:
            self.unusable.append(f"{question.record_id} ({result})")

    def _check(self) -> None:
        """Stop the run if no usable answers arrive, or if the answers cost more than the limit."""
        refused = self.troubles.total() - len(self.failed)
        if len(self.unusable) == MAX_IN_A_ROW or refused == self.number:
            self.stopped.append(
                f"{self.endpoint.address} gave no usable answer for {len(self.unusable)} records in a row, such as "
                f"{self.unusable[-1]}; check the API key, the account, anchors.llm.model, anchors.llm.base_url and "
                "whether the endpoint supports the request's settings"
            )
        limit = self.config.max_dollars
        if limit is not None and sum(self.spent) > limit and len(self.spent) < self.number:
            self.stopped.append(f"anchors.llm.max_dollars: {limit} is spent: the answers cost more than their estimate")


def _check_budget(missing: Sequence[Question], earlier: Sequence[float], config: Labelling) -> None:
    """Print the estimated maximum cost; refuse it, before anything is sent, if it is beyond the limits."""
    inputs, outputs = sum(question.prompt_tokens for question in missing), len(missing) * config.max_tokens
    dollars, spent = _dollars(inputs, outputs, config), sum(earlier)
    estimate = (
        f"{len(missing)} requests to send ({len(earlier)} paid before): about {inputs / 1e6:.2f} M input tokens "
        f"(characters / 4) and at most {outputs / 1e6:.2f} M output tokens, at most about ${dollars:.2f} "
        f"(${spent:.2f} paid before)"
    )
    for name, total in (("max_requests", len(missing) + len(earlier)), ("max_dollars", dollars + spent)):
        limit = getattr(config, name)
        if limit is not None and total > limit:
            raise ConfigError(
                f"anchors.llm.{name}: {limit} does not cover {estimate}; raise it, or lower "
                "anchors.sample_per_context. Nothing was sent"
            )
    print(f"labelling: {estimate}", file=sys.stderr, flush=True)


def _dollars(prompt_tokens: int, completion_tokens: int, config: Labelling) -> float:
    """Return the price of the tokens, without discounts for cached input."""
    return (prompt_tokens * config.input_price + completion_tokens * config.output_price) / 1e6


class _Recorded(BaseModel):
    """A line of a file of recorded answers."""

    record_id: str
    response: dict[str, Any]


def _recorded(questions: Sequence[Question], path: Path, config: Labelling) -> list[StoredAnswer]:
    """Return the recorded answers to the questions whose records are in the file."""
    lines = read_lines(path.read_bytes().removeprefix(codecs.BOM_UTF8), path, _Recorded)
    responses = {line.record_id: line.response for line in lines}
    if len(responses) < len(lines):
        twice = Counter(line.record_id for line in lines).most_common(1)[0][0]
        raise DataError(f"{path}: record {twice} has two answers; leave one")
    return [
        _stored(question, read_completion(responses[question.record_id]) or Reply(raw=""), config)
        for question in questions
        if question.record_id in responses
    ]


def _stored(question: Question, reply: Reply, config: Labelling) -> StoredAnswer:
    """Create the stored answer. Recorded answers cost nothing; an answer without usage costs its estimate."""
    answer = read_answer(reply.raw, question.record_id, reply.finish_reason)
    inputs, outputs = reply.prompt_tokens, reply.completion_tokens
    if inputs is None or outputs is None:
        inputs, outputs = question.prompt_tokens, config.max_tokens
    return StoredAnswer(
        **reply.model_dump(),
        record_id=question.record_id,
        request_hash=question.request_hash,
        provider=config.provider,
        current=True,
        dollars=_dollars(inputs, outputs, config) if config.provider == "openai" else 0.0,
        status=answer.status,
        anchor=answer.listed,
    )


def _write(path: Path, current: Iterable[StoredAnswer], older: Iterable[StoredAnswer]) -> None:
    """Write a new ``llm_cache.jsonl`` with the current answers, and other answers that were paid for."""
    lines = [answer.model_dump() | {"current": True} for answer in current]
    lines += [answer.model_dump() | {"current": False} for answer in older]
    write_jsonl(path, sorted(lines, key=lambda line: (line["record_id"], line["request_hash"])), durable=True)
