"""Labelling of the sample by a language model, or from recorded answers.

Answers are keyed by the hash of their request (model, prompt, report, settings), without the
rule-based candidate. So an answer is reused as long as its question is the same, and after an
interruption only the remaining requests are sent.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import polars as pl
from pydantic import BaseModel

from pacer.config import Labelling
from pacer.core.errors import DataError, PacerError
from pacer.core.io import hash_bytes, numbered_jsonl, write_jsonl
from pacer.core.progress import Ticker
from pacer.labels.answers import (
    Reply,
    StoredAnswer,
    is_answer,
    read_answer,
    read_answers,
    read_completion,
    validated_lines,
)
from pacer.labels.questions import (
    Question,
    build_questions,
    earlier_keys,
    system_prompt,
)

_log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from pacer.labels.endpoint import Endpoint, Outcome


#: Number of consecutive requests without a readable answer after which the run stops.
MAX_IN_A_ROW = 20


def label_sample(
    sample: pl.DataFrame,
    records: pl.DataFrame,
    config: Labelling,
    out: Path,
    rules: str = "careful",
) -> dict[str, Any]:
    """Write ``out/llm_cache.jsonl`` with the answers for the sampled records.

    Args:
        sample: the table that :func:`pacer.labels.sampling.sample_records` returns.
        records: the corpus.
        config: provider ``none`` (no answers), ``recorded`` (answers from a file, by record id) or
            ``openai``.
        out: folder of the cache; answers already in the cache are not requested again.
        rules: ``anchors.rules``, the rule set of the candidate in the request.

    Returns:
        The audit: counts of answers by status and model, of tokens, and of requests without an
            answer by reason.

    Raises:
        ConfigError: report text would leave the machine without the user's consent, or the prompt
            cannot be read; nothing was sent.
        DataError: a sampled record is unknown, or a file of answers is malformed.
        PacerError: some requests got no answer; the other answers are stored.
    """
    path = out / "llm_cache.jsonl"
    prompt = system_prompt(config.prompt_file)
    questions: list[Question] = []
    if config.provider != "none":
        questions = build_questions(sample, records, config, prompt, rules)
    # recorded answers are always read from their own file
    bought = [answer for answer in read_answers(path) if answer.provider == "openai"]
    paid = {answer.key: answer for answer in bought if is_answer(answer)}
    num_other = len(bought) - len(paid)
    if num_other:
        _log.warning(
            f"labelling: lines of {path} that are not answers from a model: {num_other}; their "
            "requests will be sent again"
        )
    reused = 0
    troubles = Counter[str]()
    if config.provider == "recorded":
        current = _recorded(questions, Path(str(config.recorded)), config)
    else:
        _find_earlier(questions, paid)
        missing = [question for question in questions if question.question_hash not in paid]
        reused = len(questions) - len(missing)
        if missing:
            troubles = _ask_all(missing, reused, paid, config, path)
        current = [
            paid[question.question_hash] for question in questions if question.question_hash in paid
        ]
    used = {answer.key for answer in current if answer.provider == "openai"}
    older = [answer for key, answer in paid.items() if key not in used]
    _write(path, current, older)
    read = [read_answer(answer.raw, answer.record_id, answer.finish_reason) for answer in current]
    return {
        "provider": config.provider,
        "prompt": hash_bytes(prompt.encode()),
        "sampled": sample.height,
        "answered": len(current),
        "reused": reused,
        "statuses": dict(sorted(Counter(answer.status for answer in read).items())),
        "models": dict(sorted(Counter(answer.model or "unknown" for answer in current).items())),
        "prompt_tokens": sum(answer.prompt_tokens or 0 for answer in current),
        "completion_tokens": sum(answer.completion_tokens or 0 for answer in current),
        "troubles": dict(sorted(troubles.items())),
        "older_answers": len(older),
    }


def _find_earlier(questions: Iterable[Question], paid: dict[str, StoredAnswer]) -> None:
    """Give answers of version 0.4 and earlier the key of the question that they answer."""
    earlier = defaultdict[str, set[str]](set)
    for key, answer in paid.items():
        if answer.question_hash is None:
            earlier[answer.record_id].add(key)
    for question in questions:
        keys = earlier[question.record_id]
        if question.question_hash in paid or not keys:
            continue
        if found := next(filter(keys.__contains__, earlier_keys(question)), None):
            update = {"question_hash": question.question_hash}
            paid[question.question_hash] = paid.pop(found).model_copy(update=update)


def _ask_all(
    missing: Sequence[Question],
    reused: int,
    paid: dict[str, StoredAnswer],
    config: Labelling,
    path: Path,
) -> Counter[str]:
    """Send the unanswered questions from several threads, and add the answers to ``paid``. Return
    the number of requests without an answer, by reason. ``reused``: the number of questions that
    already have an answer."""
    from pacer.labels.endpoint import connect  # the client takes a second to import

    with connect(config) as endpoint:
        inputs = sum(
            len(message["content"])
            for question in missing
            for message in question.request["messages"]
        )
        estimate = f"about {inputs / 4e6:.2f} M input tokens (characters / 4)"
        at_most = f"at most {len(missing) * config.max_tokens / 1e6:.2f} M output tokens"
        _log.info(f"labelling: {len(missing)} requests to send: {estimate}, {at_most}")
        _write(path, (), paid.values())  # a new file: DVC may have linked the old one to its cache
        with path.open("a", encoding="utf-8") as file, Ticker("labelling", len(missing)) as ticker:
            requests = _Requests(endpoint, paid, config, file, ticker)
            with ThreadPoolExecutor(config.concurrency) as pool:
                list(pool.map(requests.send, missing))
    again = "Answers that arrived are saved; rerun the stage for the rest"
    refused = requests.troubles.total() - len(requests.failed)
    if requests.stopped or refused == len(missing) + reused:
        raise PacerError(
            f"{endpoint.address} gave no usable answer for {len(requests.unusable)} records in a "
            f"row, most recently {requests.unusable[-1]}; check the API key, the account, "
            "anchors.llm.model, anchors.llm.base_url and whether the endpoint supports the "
            f"request's settings. {again} (docs/commitments.md)"
        )
    if requests.failed and config.unanswered == "stop":
        record_id, reason = next(iter(requests.failed.items()))
        raise PacerError(
            f"{len(requests.failed)} of {len(missing)} requests got no answer from "
            f"{endpoint.address}, for example {record_id} ({reason}). {again}, or set "
            "anchors.llm.unanswered: rules"
        )
    return requests.troubles


@dataclass
class _Requests:
    """The requests of a run and their outcomes, shared by threads.

    Attributes:
        paid: the answers, before and in this run; ``file`` receives a line per new answer.
        stopped: whether no more requests are sent.
        failed: reasons of the requests that may succeed another time, by record id.
        troubles: number of requests without an answer, by reason.
        unusable: the latest consecutive requests without a readable answer.
    """

    endpoint: Endpoint
    paid: dict[str, StoredAnswer]
    config: Labelling
    file: TextIO
    ticker: Ticker
    stopped: bool = False
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
            os.fsync(self.file.fileno())  # the answer is on disk before the thread's next request
        except BaseException:  # a full disk, for example: further answers would be lost
            self.stopped = True
            raise

    def _count(self, question: Question, outcome: Outcome) -> None:
        result = outcome.reason
        if outcome.reply is None:
            self.troubles[result] += 1
        else:
            answer = _stored(question, outcome.reply, self.config)
            self.file.write(answer.model_dump_json() + "\n")
            self.file.flush()
            self.paid[question.question_hash] = answer
            result = answer.status
            self.ticker.advance()
        if outcome.status == "failed":
            self.failed[question.record_id] = result
        if result == "ok":
            self.unusable.clear()
        else:
            self.unusable.append(f"{question.record_id} ({result})")
            self.stopped |= len(self.unusable) >= MAX_IN_A_ROW


class _Recorded(BaseModel):
    """A line of a file of recorded answers."""

    record_id: str
    response: dict[str, Any]


def _recorded(questions: Sequence[Question], path: Path, config: Labelling) -> list[StoredAnswer]:
    """Return the recorded answers to the questions whose records are in the file."""
    lines = validated_lines(numbered_jsonl(path), path, _Recorded)
    responses = {line.record_id: line.response for line in lines}
    if len(responses) < len(lines):
        twice = Counter(line.record_id for line in lines).most_common(1)[0][0]
        raise DataError(f"{path}: record {twice} has two answers; keep one")
    return [
        _stored(question, read_completion(responses[question.record_id]) or Reply(raw=""), config)
        for question in questions
        if question.record_id in responses
    ]


def _stored(question: Question, reply: Reply, config: Labelling) -> StoredAnswer:
    answer = read_answer(reply.raw, question.record_id, reply.finish_reason)
    return StoredAnswer(
        **reply.model_dump(),
        record_id=question.record_id,
        request_hash=question.request_hash,
        question_hash=question.question_hash,
        provider=config.provider,
        current=True,
        status=answer.status,
        anchor=None if answer.anchor is None else answer.anchor.as_dict(),
    )


def _write(path: Path, current: Iterable[StoredAnswer], older: Iterable[StoredAnswer]) -> None:
    """Write a new ``llm_cache.jsonl`` with the current answers, followed by the older ones."""
    lines = [answer.model_dump() | {"current": True} for answer in current]
    lines += [answer.model_dump() | {"current": False} for answer in older]
    write_jsonl(
        path,
        sorted(lines, key=lambda line: (line["record_id"], line["request_hash"])),
        durable=True,
    )
