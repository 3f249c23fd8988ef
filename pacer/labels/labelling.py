"""Labelling of the sample by a language model, or from recorded answers.

Answers are keyed by the hash of their request (model, prompt, report, settings), without the
rule-based candidate. So an answer is reused as long as its question is the same, and after an
interruption only the remaining requests are sent.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
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
    from pacer.labels.endpoint import Endpoint, Trouble

#: Number of consecutive requests without a readable answer after which the run stops.
MAX_IN_A_ROW = 20
#: Advice by the status of an answer that cannot be used.
_ADVICE = {
    "cut_off": "raise anchors.llm.max_tokens, which a model that thinks uses up, or set "
    "anchors.llm.reasoning_effort: low",
    "unreadable": "set anchors.llm.response_format: json_schema, or choose another model",
    "refused": "choose another model",
}


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
    paid = {answer.key: answer for answer in read_answers(path) if answer.provider == "openai"}
    answers, missing, troubles = paid, [], Counter[str]()
    if config.provider == "recorded":
        answers = _recorded(questions, Path(str(config.recorded)), config)
    else:
        _find_earlier(questions, paid)
        missing = [question for question in questions if question.question_hash not in paid]
    if missing:
        troubles = _ask_all(missing, len(questions), paid, config, path)
    current = [
        answers[question.question_hash]
        for question in questions
        if question.question_hash in answers
    ]
    used = {answer.key for answer in current if answers is paid}
    older = [answer for key, answer in paid.items() if key not in used]
    _write(path, current, older)
    read = [read_answer(answer.raw, answer.record_id, answer.finish_reason) for answer in current]
    statuses = dict(sorted(Counter(answer.status for answer in read).items()))
    outside = sum(answer.outside for answer in read)
    unusable = Counter(statuses) + troubles
    del unusable["ok"]
    for kind, count in sorted(unusable.items()):
        advice = f"; {_ADVICE[kind]}" if kind in _ADVICE and answers is paid else ""
        _log.warning(
            f"labelling: {kind.replace('_', ' ')}: {count} of {sample.height} records, which the "
            f"rules label{advice}"
        )
    if outside:
        _log.warning(f"labelling: names outside the 13 findings that are left out: {outside}")
    return {
        "provider": config.provider,
        "prompt": hash_bytes(prompt.encode()),
        "sampled": sample.height,
        "answered": len(current),
        "reused": len(questions) - len(missing) if answers is paid else 0,
        "statuses": statuses,
        "names_outside": outside,
        "models": dict(sorted(Counter(answer.model or "unknown" for answer in current).items())),
        "prompt_tokens": sum(answer.prompt_tokens or 0 for answer in current),
        "completion_tokens": sum(answer.completion_tokens or 0 for answer in current),
        "troubles": dict(sorted(troubles.items())),
        "older_answers": len(older),
    }


def _find_earlier(questions: Iterable[Question], paid: dict[str, StoredAnswer]) -> None:
    """Give answers of version 0.4 and earlier the key of the question that they answer."""
    old = {answer.record_id for answer in paid.values() if answer.question_hash is None}
    for question in questions:
        key = question.question_hash
        if question.record_id in old and key not in paid:
            for found in filter(paid.__contains__, earlier_keys(question)):
                paid[key] = paid.pop(found).model_copy(update={"question_hash": key})
                break


def _ask_all(
    missing: Sequence[Question],
    total: int,
    paid: dict[str, StoredAnswer],
    config: Labelling,
    path: Path,
) -> Counter[str]:
    """Send the unanswered questions from several threads, and add the answers to ``paid``. Return
    the number of requests without an answer, by reason. ``total``: the number of all questions."""
    from pacer.labels.endpoint import connect  # the client takes a second to import

    with connect(config) as endpoint:
        endpoint.check()
        inputs = sum(len(part["content"]) for one in missing for part in one.request["messages"])
        estimate = f"about {inputs / 4e6:.2f} M input tokens (characters / 4)"
        at_most = f"at most {len(missing) * config.max_tokens / 1e6:.2f} M output tokens"
        _log.info(f"labelling: {len(missing)} requests to send: {estimate}, {at_most}")
        _write(path, (), paid.values())  # a new file: DVC may have linked the old one to its cache
        with path.open("a", encoding="utf-8") as file, Ticker("labelling", len(missing)) as ticker:
            run = _Run(endpoint, config, paid, file, ticker)
            with ThreadPoolExecutor(config.concurrency) as pool:
                list(pool.map(run.send, missing))
    again = "Answers that arrived are saved; rerun the stage for the rest"
    failed = [name for name, trouble in run.troubles.items() if not trouble.final]
    if run.stopped or len(run.troubles) - len(failed) == total:
        raise PacerError(
            f"{endpoint.address} gave no usable answer for {len(run.unusable)} records in a row, "
            f"most recently {run.unusable[-1]}. {again}"
        )
    if failed and config.unanswered == "stop":
        raise PacerError(
            f"{len(failed)} of {len(missing)} requests got no answer from {endpoint.address}, for "
            f"example {failed[0]}: {run.troubles[failed[0]].explained}. {again}, or set "
            "anchors.llm.unanswered: rules"
        )
    return Counter(trouble.kind for trouble in run.troubles.values())


@dataclass
class _Run:
    """The requests of a run, sent by several threads.

    Attributes:
        paid: the answers, before and in this run; ``file`` receives a line per new answer.
        stopped: whether no more requests are sent.
        troubles: why requests have no answer, by record id.
        unusable: the latest consecutive requests without a readable answer.
    """

    endpoint: Endpoint
    config: Labelling
    paid: dict[str, StoredAnswer]
    file: TextIO
    ticker: Ticker
    stopped: bool = False
    troubles: dict[str, Trouble] = field(default_factory=dict)
    unusable: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def send(self, question: Question) -> None:
        """Send a question and store the outcome, unless the run has stopped."""
        if self.stopped:
            return
        try:
            outcome = self.endpoint.ask(question)
            with self.lock:  # the answer is on disk before the thread's next request
                self._store(question, outcome)
        except BaseException:  # a full disk, for example: further answers would be lost
            self.stopped = True
            raise

    def _store(self, question: Question, outcome: Reply | Trouble) -> None:
        if isinstance(outcome, Reply):
            answer = _stored(question, outcome, self.config)
            self.file.write(answer.model_dump_json() + "\n")
            self.file.flush()
            os.fsync(self.file.fileno())
            self.paid[question.question_hash] = answer
            self.ticker.advance()
            if answer.status == "ok":
                self.unusable = self.unusable if self.stopped else []
                return
            explained = f"{answer.status.replace('_', ' ')}; {_ADVICE[answer.status]}"
        else:
            self.troubles[question.record_id] = outcome
            explained = outcome.explained
        self.unusable.append(f"{question.record_id}: {explained}")
        self.stopped |= len(self.unusable) >= MAX_IN_A_ROW


class _Recorded(BaseModel):
    """A line of a file of recorded answers."""

    record_id: str
    response: dict[str, Any]


def _recorded(
    questions: Sequence[Question], path: Path, config: Labelling
) -> dict[str, StoredAnswer]:
    """Return the recorded answers to the questions whose records are in the file, by question."""
    lines = validated_lines(numbered_jsonl(path), path, _Recorded)
    responses = {line.record_id: line.response for line in lines}
    if len(responses) < len(lines):
        twice = Counter(line.record_id for line in lines).most_common(1)[0][0]
        raise DataError(f"{path}: record {twice} has two answers; keep one")
    return {
        question.question_hash: _stored(
            question, read_completion(responses[question.record_id]) or Reply(raw=""), config
        )
        for question in questions
        if question.record_id in responses
    }


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
