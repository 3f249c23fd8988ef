"""Labelling the sample with a language model, or with recorded answers; the result is one line per answer.

Answers are keyed by the hash of their request (model, prompt, report, rule-based candidate, settings), so an answer is
used again exactly as long as the question is the same, and an interrupted run asks only for the rest.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from pacer.anchors.anchor import Anchor
from pacer.core.errors import DataError, PacerError
from pacer.core.io import read_jsonl, scratch_directory
from pacer.labelling.answers.evidence import count_missing
from pacer.labelling.answers.reading import Reply, read_answer, read_completion
from pacer.labelling.client.cache import AnswerCache, answer_line
from pacer.labelling.client.request import Question, RequestForm, ask_about
from pacer.labelling.sample.draw import refuse_held_out
from pacer.params import Labelling
from pacer.rules.extract import extract_anchor

CACHE_NAME = "llm_cache.jsonl"

_Lines = list[dict[str, Any]]


def label_sample(
    sample: pl.DataFrame,
    records: pl.DataFrame,
    config: Labelling,
    out: Path,
    candidate: Callable[[str], Anchor] = extract_anchor,
) -> dict[str, Any]:
    """Make ``out/llm_cache.jsonl``: an answer for every sampled record that one could be had for.

    Args:
        sample: the table that :func:`pacer.labelling.sample.draw.sample_records` returns.
        records: the corpus.
        config: provider ``none`` (no answers), ``recorded`` (answers from a file, by record id) or ``openai``.
        out: folder of the cache; answers that lie there already, or in its scratch, are not asked for again.
        candidate: report -> the anchor that the request proposes to the model.

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
    form = RequestForm.of(config)
    questions = [] if config.provider == "none" else list(ask_about(sample, records, form, candidate))
    with scratch_directory(target, "answers") as scratch, AnswerCache(target, scratch / "answers.jsonl") as cache:
        reused, batches = 0, scratch / "batches"
        if config.provider == "recorded":
            current = _recorded(questions, form, Path(str(config.recorded)))
        else:
            reused = len(_answers_to(questions, cache))
            if reused < len(questions) or (questions and any(batches.glob("*.json"))):
                _ask(questions, form, config, cache, batches)
            current = _answers_to(questions, cache)
        open_keys = {question.request_hash for question in questions} - {line["request_hash"] for line in current}
        audit = {
            "provider": config.provider,
            "prompt": form.prompt_hash,
            "sampled": sample.height,
            "answered": len(current),
            "unanswered": sample.height - len(current),
            "reused": reused,
            **_summary(current, records, sum(cache.lost(key) for key in open_keys)),
            "troubles": dict(sorted(cache.troubles.items())),
            "older_answers": len(cache.unused(current)),
        }
        cache.write(current, {question.request_hash: question.record_id for question in questions})
        if not any(batches.glob("*.json")):  # else a batch that nobody waits for is still under way
            shutil.rmtree(scratch.parent)
    return audit


def _answers_to(questions: Sequence[Question], cache: AnswerCache) -> _Lines:
    return [cache.lines[question.request_hash] for question in questions if question.request_hash in cache.lines]


def _ask(
    questions: Sequence[Question], form: RequestForm, config: Labelling, cache: AnswerCache, batches: Path
) -> None:
    """Ask for the answers that the cache lacks."""
    # Slow to import, and needed by nothing else.
    from pacer.labelling.client.asking import Asker
    from pacer.labelling.client.batch_api import BatchAsker
    from pacer.labelling.client.budget import Budget
    from pacer.labelling.client.client import connect, name_of

    known = _answers_to(questions, cache)
    batch = config.mode == "batch"
    budget = Budget(config, len(known), sum(line["dollars"] for line in known))
    for question in questions:
        line = cache.lines.get(question.request_hash)
        lost = line["lost"] if line else cache.lost(question.request_hash)
        budget.change(lost * budget.expected(question, batch=False), lost)
    with connect(config) as client:
        endpoint = name_of(client)
        in_batches = BatchAsker(client, config, cache, budget, batches, len(known))
        in_batches.resume({question.request_hash for question in questions})
        open_questions = [question for question in questions if question.request_hash not in cache.lines]
        if not open_questions:
            return
        print(f"labelling: {budget.announce(open_questions, batch)}", file=sys.stderr, flush=True)
        if batch:
            failed = in_batches.ask(open_questions, form)
        else:
            answered = len(_answers_to(questions, cache))
            failed = Asker(client, form, config, cache, budget, answered).ask(open_questions)
    if failed and config.unanswered == "stop":
        record_id, trouble = next(iter(failed.items()))
        raise PacerError(
            f"{len(failed)} of {len(open_questions)} requests got no answer from {endpoint}, such as that of "
            f"{record_id} ({trouble}); the other answers are kept, run the stage again for the rest, or set "
            "anchors.llm.unanswered: rules"
        )


def _recorded(questions: Sequence[Question], form: RequestForm, path: Path) -> _Lines:
    """Lines for the questions whose records the file of recorded answers holds."""
    hashes = {question.record_id: question.request_hash for question in questions}
    lines, seen = [], set()
    for number, recorded in enumerate(read_jsonl(path), start=1):
        if not isinstance(recorded, dict) or not {"record_id", "response"} <= recorded.keys():
            raise DataError(f"{path}, line {number} must be an object with record_id and response")
        if recorded["record_id"] in seen:
            raise DataError(f"{path}, line {number}: record {recorded['record_id']} has two answers; leave one")
        seen.add(recorded["record_id"])
        key = hashes.get(recorded["record_id"])
        if key is not None:
            reply = read_completion(recorded["response"]) or Reply("")
            lines.append(answer_line(recorded["record_id"], key, form.prompt_hash, "recorded", reply, 0.0))
    return lines


def _summary(lines: Collection[dict[str, Any]], records: pl.DataFrame, lost: int) -> dict[str, Any]:
    """What the answers in use are like; phrases of reports are counted, never named.

    ``lost``: attempts that may have been paid, at questions without any answer.
    """
    reports = dict(records.select("record_id", "report_raw").iter_rows())
    statuses: Counter[str] = Counter()
    dropped = repeated = phrases = missing = 0
    for line in lines:
        answer = read_answer(line["raw"], line["record_id"], line["finish_reason"])
        statuses[answer.status] += 1
        dropped += len(answer.off_vocabulary)
        repeated += answer.repeated
        phrases += len(answer.phrases)
        missing += count_missing(answer.phrases, reports[line["record_id"]])
    return {
        "statuses": dict(sorted(statuses.items())),
        "models": dict(sorted(Counter(line["model"] or "unknown" for line in lines).items())),
        "names_off_vocabulary": dropped,
        "findings_repeated": repeated,
        "evidence": {"phrases": phrases, "not_in_report": missing, "share": missing / phrases if phrases else None},
        "prompt_tokens": sum(line["prompt_tokens"] or 0 for line in lines),
        "completion_tokens": sum(line["completion_tokens"] or 0 for line in lines),
        "without_usage": sum(line["completion_tokens"] is None for line in lines),
        "dollars": round(sum(line["dollars"] for line in lines), 6),
        "lost_and_perhaps_paid": lost + sum(line["lost"] for line in lines),
    }
