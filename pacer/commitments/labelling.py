"""Labelling the sample with a language model, or with recorded answers; the result is one line per answer.

Answers are keyed by the hash of their request (model, prompt, report, rule-based candidate, settings), so an answer is
used again exactly as long as the question is the same, and an interrupted run asks only for the rest.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from pacer.commitments.answers import Reply, StoredAnswer, count_missing, read_answer, read_answers, read_completion
from pacer.commitments.request import CHARACTERS_PER_TOKEN, Question, build_questions, system_prompt
from pacer.commitments.sampling import refuse_held_out
from pacer.config import Labelling
from pacer.core.errors import ConfigError, DataError, PacerError
from pacer.core.io import hash_bytes, numbered_jsonl, write_jsonl
from pacer.core.journal import Journal
from pacer.core.progress import Ticker

if TYPE_CHECKING:
    from pacer.commitments.endpoint import Outcome

#: Answers by the hash of their request.
Answers = dict[str, StoredAnswer]

#: Requests in a row without an answer that can be read, after which the rest is not tried.
MAX_IN_A_ROW = 20


def label_sample(sample: pl.DataFrame, records: pl.DataFrame, config: Labelling, out: Path) -> dict[str, Any]:
    """Make ``out/llm_cache.jsonl``: an answer for every sampled record that got one.

    Args:
        sample: the table that :func:`pacer.commitments.sampling.sample_records` returns.
        records: the corpus.
        config: provider ``none`` (no answers), ``recorded`` (answers from a file, by record id) or ``openai``.
        out: folder of the cache; answers that it holds already are not asked for again.

    Returns:
        The audit: counts of answers by what became of them, tokens, dollars, troubles, and evidence phrases.

    Raises:
        ConfigError: report text would leave the machine without the user's consent, the prompt cannot be read, or the
            budget does not cover what is to be asked; nothing was sent.
        DataError: a sampled record is unknown or held out, or a file of answers is malformed.
        PacerError: some requests got no answer; the others are kept.
    """
    refuse_held_out(records, sample["record_id"])
    path, prompt = out / "llm_cache.jsonl", system_prompt(config.prompt_file)
    questions = [] if config.provider == "none" else build_questions(sample, records, config, prompt)
    # recorded answers are read from their own file every time
    paid = {answer.request_hash: answer for answer in read_answers(path) if answer.provider == "openai"}
    reused, troubles = 0, Counter[str]()
    if config.provider == "recorded":
        current = _recorded(questions, Path(str(config.recorded)))
    else:
        reused = sum(question.request_hash in paid for question in questions)
        if reused < len(questions):
            troubles = _ask(questions, paid, config, path)
        current = [paid[question.request_hash] for question in questions if question.request_hash in paid]
    used = {answer.request_hash for answer in current if answer.provider == "openai"}
    older = [answer for key, answer in paid.items() if key not in used]
    _write(path, current, older)
    return {
        "provider": config.provider,
        "prompt": hash_bytes(prompt.encode()),
        "sampled": sample.height,
        "answered": len(current),
        "unanswered": sample.height - len(current),
        "reused": reused,
        **_summary(current, records),
        "lost_and_perhaps_paid": troubles["timeout"] + troubles["disconnected"],
        "troubles": dict(sorted(troubles.items())),
        "older_answers": len(older),
    }


def _ask(questions: Sequence[Question], answers: Answers, config: Labelling, path: Path) -> Counter[str]:
    """Ask the questions that have no answer yet, and add the answers; returns why requests got none.

    An answer is on disk before its thread sends the next request.
    """
    from pacer.commitments.endpoint import Endpoint  # the client takes a second to import

    earlier = [answers[question.request_hash] for question in questions if question.request_hash in answers]
    missing = [question for question in questions if question.request_hash not in answers]
    troubles, failed = Counter[str](), dict[str, str]()
    spent, in_a_row = sum(answer.dollars for answer in earlier), 0
    with Endpoint(config) as endpoint:
        _check_budget(missing, earlier, config)
        _write(path, (), answers.values())  # a new file: DVC may have linked the old one to its cache

        def ask(question: Question) -> Outcome:
            outcome = endpoint.ask(question)
            if outcome.reply is not None:
                answer = _stored(question, outcome.reply, "openai", _dollars(question, outcome.reply, config))
                journal.append(answer.model_dump(), durable=True)
                answers[question.request_hash] = answer
            return outcome

        with (
            Journal(path) as journal,
            Ticker("labelling", len(missing)) as ticker,
            closing(_outcomes(ask, missing, config.concurrency)) as outcomes,
        ):
            for question, outcome in outcomes:
                result = outcome.reason
                if outcome.status == "answered":
                    result = answers[question.request_hash].status
                    spent += answers[question.request_hash].dollars
                    ticker.advance()
                else:
                    troubles[result] += 1
                if outcome.status == "failed":
                    failed[question.record_id] = result
                in_a_row = 0 if result == "ok" else in_a_row + 1
                all_refused = troubles.total() - len(failed) == len(missing) and not earlier
                if outcome.for_all or in_a_row == MAX_IN_A_ROW or all_refused:
                    raise PacerError(
                        f"{endpoint.name} gave no usable answer for {question.record_id} ({result}, {in_a_row} in a "
                        "row); check the API key, the account, anchors.llm.model, anchors.llm.base_url and whether "
                        "the endpoint supports the request's settings. All answers are saved; run the stage again for "
                        "the rest (docs/commitments.md)"
                    )
                if config.max_dollars is not None and spent > config.max_dollars:
                    raise PacerError(
                        f"anchors.llm.max_dollars: {config.max_dollars} is spent: ${spent:.2f}. The answers are saved; "
                        "raise it and run the stage again for the rest"
                    )
        if failed and config.unanswered == "stop":
            record_id, reason = next(iter(failed.items()))
            raise PacerError(
                f"{len(failed)} of {len(missing)} requests got no answer from {endpoint.name}, such as that of "
                f"{record_id} ({reason}); the other answers are saved: run the stage again for the rest, or set "
                "anchors.llm.unanswered: rules"
            )
    return troubles


def _outcomes(
    ask: Callable[[Question], Outcome], questions: Sequence[Question], slots: int
) -> Generator[tuple[Question, Outcome]]:
    """Ask from ``slots`` threads; questions and outcomes as they come. Closing it waits for what is under way."""
    remaining, waiting = iter(questions), dict[Future, Question]()
    with ThreadPoolExecutor(slots) as pool:
        while True:
            for question in islice(remaining, slots - len(waiting)):
                waiting[pool.submit(ask, question)] = question
            if not waiting:
                return
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                yield waiting.pop(future), future.result()


def _check_budget(missing: Sequence[Question], earlier: Sequence[StoredAnswer], config: Labelling) -> None:
    """Print what the requests cost at most: characters / 4 as input tokens, ``max_tokens`` as output of each.

    Raises:
        ConfigError: the limits do not cover them and earlier runs; nothing was sent.
    """
    inputs, outputs = sum(question.prompt_tokens for question in missing), len(missing) * config.max_tokens
    dollars, spent = _price(inputs, outputs, config), sum(answer.dollars for answer in earlier)
    estimate = (
        f"{len(missing)} requests to send ({len(earlier)} paid before): about {inputs / 1e6:.2f} M input tokens "
        f"(characters / {CHARACTERS_PER_TOKEN}) and at most {outputs / 1e6:.2f} M output tokens, at most about "
        f"${dollars:.2f} (${spent:.2f} paid before)"
    )
    requests = len(missing) + len(earlier)
    for name, limit, total in (
        ("max_requests", config.max_requests, requests),
        ("max_dollars", config.max_dollars, dollars + spent),
    ):
        if limit is not None and total > limit:
            raise ConfigError(
                f"anchors.llm.{name}: {limit} does not cover {estimate}; raise it, or lower "
                "anchors.sample_per_context. Nothing was sent"
            )
    print(f"labelling: {estimate}", file=sys.stderr, flush=True)


def _dollars(question: Question, reply: Reply, config: Labelling) -> float:
    """What an answer has cost by its usage; the estimate where the endpoint gives none."""
    if reply.prompt_tokens is None or reply.completion_tokens is None:
        return _price(question.prompt_tokens, config.max_tokens, config)
    return _price(reply.prompt_tokens, reply.completion_tokens, config)


def _price(prompt_tokens: int, completion_tokens: int, config: Labelling) -> float:
    """Dollars for so many tokens; discounts for cached input are not counted."""
    return (prompt_tokens * config.input_price + completion_tokens * config.output_price) / 1e6


def _recorded(questions: Sequence[Question], path: Path) -> list[StoredAnswer]:
    """Answers to the questions whose records the file of recorded answers holds."""
    responses: dict[str, Any] = {}
    for number, line in numbered_jsonl(path):
        if not isinstance(line, dict) or not {"record_id", "response"} <= line.keys():
            raise DataError(f"{path}, line {number} must be an object with record_id and response")
        if line["record_id"] in responses:
            raise DataError(f"{path}, line {number}: record {line['record_id']} has two answers; leave one")
        responses[line["record_id"]] = line["response"]
    return [
        _stored(question, read_completion(responses[question.record_id]) or Reply(raw=""), "recorded", 0.0)
        for question in questions
        if question.record_id in responses
    ]


def _stored(question: Question, reply: Reply, provider: str, dollars: float) -> StoredAnswer:
    """The line of an answer."""
    answer = read_answer(reply.raw, question.record_id, reply.finish_reason)
    return StoredAnswer(
        **reply.model_dump(),
        record_id=question.record_id,
        request_hash=question.request_hash,
        provider=provider,
        current=True,
        dollars=dollars,
        status=answer.status,
        anchor=answer.anchor.as_dict() if answer.anchor else None,
    )


def _write(path: Path, current: Iterable[StoredAnswer], older: Iterable[StoredAnswer]) -> None:
    """Write a new ``llm_cache.jsonl``: the answers in use, and the others that were paid for."""
    answers = [answer.model_copy(update={"current": True}) for answer in current]
    answers += [answer.model_copy(update={"current": False}) for answer in older]
    answers.sort(key=lambda answer: (answer.record_id, answer.request_hash))
    write_jsonl(path, [answer.model_dump() for answer in answers], durable=True)


def _summary(answers: Sequence[StoredAnswer], records: pl.DataFrame) -> dict[str, Any]:
    """What the answers in use are like; phrases of reports are counted, never named."""
    reports = dict(records.select("record_id", "report_raw").iter_rows())
    read = [read_answer(answer.raw, answer.record_id, answer.finish_reason) for answer in answers]
    phrases = sum(len(answer.phrases) for answer in read)
    missing = sum(
        count_missing(answer.phrases, reports[stored.record_id]) for stored, answer in zip(answers, read, strict=True)
    )
    return {
        "statuses": dict(sorted(Counter(answer.status for answer in read).items())),
        "models": dict(sorted(Counter(answer.model or "unknown" for answer in answers).items())),
        "names_off_vocabulary": sum(answer.off_vocabulary for answer in read),
        "findings_repeated": sum(answer.repeated for answer in read),
        "evidence": {"phrases": phrases, "not_in_report": missing, "share": missing / phrases if phrases else None},
        "prompt_tokens": sum(answer.prompt_tokens or 0 for answer in answers),
        "completion_tokens": sum(answer.completion_tokens or 0 for answer in answers),
        "without_usage": sum(answer.completion_tokens is None for answer in answers),
        "dollars": round(sum(answer.dollars for answer in answers), 6),
    }
