"""Labelling the sample with a language model, or with recorded answers; the result is one line per answer.

Answers are keyed by the hash of their request (model, prompt, report, rule-based candidate, settings), so an answer is
used again exactly as long as the question is the same, and an interrupted run asks only for the rest.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from pacer.commitments.labelling.budget import Budget
from pacer.commitments.labelling.cache import AnswerCache, CachedAnswer
from pacer.commitments.labelling.draw import refuse_held_out
from pacer.commitments.labelling.evidence import count_missing
from pacer.commitments.labelling.reading import Reply, read_answer, read_completion
from pacer.commitments.labelling.request import Question, build_questions, system_prompt
from pacer.config import Labelling
from pacer.core.errors import DataError, PacerError
from pacer.core.io import hash_bytes, numbered_jsonl, scratch_directory

CACHE_NAME = "llm_cache.jsonl"


def label_sample(sample: pl.DataFrame, records: pl.DataFrame, config: Labelling, out: Path) -> dict[str, Any]:
    """Make ``out/llm_cache.jsonl``: an answer for every sampled record that got one.

    Args:
        sample: the table that :func:`pacer.commitments.labelling.draw.sample_records` returns.
        records: the corpus.
        config: provider ``none`` (no answers), ``recorded`` (answers from a file, by record id) or ``openai``.
        out: folder of the cache; answers that lie there already, or in its scratch, are not asked for again.

    Returns:
        The audit: counts of answers by what became of them, tokens, dollars, troubles, and evidence phrases.

    Raises:
        ConfigError: report text would leave the machine without the user's consent, the prompt cannot be read, or the
            budget does not cover what is to be asked; nothing was sent.
        DataError: a sampled record is unknown or held out, or a file of answers is malformed.
        PacerError: some requests got no answer; the others are kept.
    """
    refuse_held_out(records, sample["record_id"])
    target = out / CACHE_NAME
    prompt = system_prompt(config.prompt_file)
    questions = [] if config.provider == "none" else build_questions(sample, records, config, prompt)
    with scratch_directory(target, "answers") as scratch, AnswerCache(target, scratch / "answers.jsonl") as cache:
        reused, lost, troubles = 0, 0, Counter[str]()
        if config.provider == "recorded":
            current = _recorded(questions, Path(str(config.recorded)))
        else:
            reused = len(_answers_to(questions, cache))
            if reused < len(questions):
                lost, troubles = _ask(questions, config, cache)
            current = _answers_to(questions, cache)
        audit = {
            "provider": config.provider,
            "prompt": hash_bytes(prompt.encode()),
            "sampled": sample.height,
            "answered": len(current),
            "unanswered": sample.height - len(current),
            "reused": reused,
            **_summary(current, records, lost),
            "troubles": dict(sorted(troubles.items())),
            "older_answers": len(cache.unused(current)),
        }
        cache.write(current)
        shutil.rmtree(scratch.parent)
    return audit


def _answers_to(questions: Sequence[Question], cache: AnswerCache) -> list[CachedAnswer]:
    return [cache.answers[question.request_hash] for question in questions if question.request_hash in cache.answers]


def _ask(questions: Sequence[Question], config: Labelling, cache: AnswerCache) -> tuple[int, Counter[str]]:
    """Ask for the answers that the cache lacks; returns what :class:`Dispatcher` has lost, and its troubles."""
    # Slow to import, and needed by nothing else.
    from pacer.commitments.labelling.dispatch import Dispatcher
    from pacer.commitments.labelling.endpoint import Endpoint

    budget, missing = Budget(config), []
    for question in questions:
        answer = cache.answers.get(question.request_hash)
        if answer is None:
            missing.append(question)
        else:
            budget.count(question, answer.dollars, answer.lost)
    with Endpoint(config) as endpoint:
        print(f"labelling: {budget.announce(missing)}", file=sys.stderr, flush=True)
        answered = len(missing) < len(questions)
        dispatcher = Dispatcher(endpoint, cache, budget, config.concurrency, answered)
        failed = dispatcher.run(missing)
    if failed and config.unanswered == "stop":
        record_id, reason = next(iter(failed.items()))
        raise PacerError(
            f"{len(failed)} of {len(missing)} requests got no answer from {endpoint.name}, such as that of "
            f"{record_id} ({reason}); the other answers are saved: run the stage again for the rest, or set "
            "anchors.llm.unanswered: rules"
        )
    return dispatcher.lost, dispatcher.troubles


def _recorded(questions: Sequence[Question], path: Path) -> list[CachedAnswer]:
    """Answers to the questions whose records the file of recorded answers holds."""
    asked = {question.record_id: question for question in questions}
    answers, seen = [], set()
    for number, line in numbered_jsonl(path):
        if not isinstance(line, dict) or not {"record_id", "response"} <= line.keys():
            raise DataError(f"{path}, line {number} must be an object with record_id and response")
        record_id = line["record_id"]
        if record_id in seen:
            raise DataError(f"{path}, line {number}: record {record_id} has two answers; leave one")
        seen.add(record_id)
        if record_id in asked:
            reply = read_completion(line["response"]) or Reply("")
            answers.append(CachedAnswer.of(asked[record_id], reply, "recorded"))
    return answers


def _summary(answers: Sequence[CachedAnswer], records: pl.DataFrame, lost: int) -> dict[str, Any]:
    """What the answers in use are like; phrases of reports are counted, never named.

    ``lost``: tries that may have been paid, at questions without any answer.
    """
    reports = dict(records.select("record_id", "report_raw").iter_rows())
    read = [(answer, read_answer(answer.raw, answer.record_id, answer.finish_reason)) for answer in answers]
    phrases = sum(len(found.phrases) for _, found in read)
    missing = sum(count_missing(found.phrases, reports[answer.record_id]) for answer, found in read)
    return {
        "statuses": dict(sorted(Counter(found.status for _, found in read).items())),
        "models": dict(sorted(Counter(answer.model or "unknown" for answer in answers).items())),
        "names_off_vocabulary": sum(len(found.off_vocabulary) for _, found in read),
        "findings_repeated": sum(found.repeated for _, found in read),
        "evidence": {"phrases": phrases, "not_in_report": missing, "share": missing / phrases if phrases else None},
        "prompt_tokens": sum(answer.prompt_tokens or 0 for answer in answers),
        "completion_tokens": sum(answer.completion_tokens or 0 for answer in answers),
        "without_usage": sum(answer.completion_tokens is None for answer in answers),
        "dollars": round(sum(answer.dollars for answer in answers), 6),
        "lost_and_perhaps_paid": lost + sum(answer.lost for answer in answers),
    }
