"""Labelling the sample with a language model, or with recorded answers; the result is one line per answer.

A line of ``llm_cache.jsonl`` is ``{record_id, request_hash, raw, anchor, status, dropped}``. The request hash covers
provider and request (model, prompt, report, rule-based candidate, settings), so an answer is used again exactly as long
as the question is the same. Each answer reaches the disk when it arrives: an interrupted run asks only for the rest.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Any

import polars as pl

from pacer.anchors.answers import content_of, read_answer
from pacer.anchors.rules import extract_anchor
from pacer.anchors.sampling import refuse_held_out
from pacer.core.config import Labelling
from pacer.core.errors import ConfigError, DataError
from pacer.core.io import hash_json, read_jsonl, scratch_directory, write_jsonl

CACHE_NAME = "llm_cache.jsonl"


def label_sample(sample: pl.DataFrame, records: pl.DataFrame, config: Labelling, out: Path) -> dict[str, Any]:
    """Make ``out/llm_cache.jsonl``: an answer for every sampled record that one could be had for.

    Args:
        sample: the table that :func:`pacer.anchors.sampling.sample_records` returns.
        records: the corpus.
        config: provider ``none`` (an empty cache), ``recorded`` (answers from a file, by record id) or ``openai``.
        out: folder of the cache; answers that lie there already, or in its scratch, are not asked for again.

    Returns:
        ``{provider, model, sampled, reused, asked, missing, statuses}``, counts of answers.

    Raises:
        ConfigError: report text would leave the machine without the user's consent, or the prompt cannot be read.
        DataError: a sampled record is unknown or held out, or the file of recorded answers is malformed.
        PacerError: the endpoint gave no answer to some requests; the others are kept.
    """
    refuse_held_out(records, sample["record_id"])
    target = out / CACHE_NAME
    requests = {} if config.provider == "none" else _requests(sample, records, config)
    hashes = {record_id: hash_json([config.provider, request]) for record_id, request in requests.items()}
    with scratch_directory(target, "answers") as scratch:
        fresh = scratch / "answers.jsonl"
        lines = {}
        _drop_cut_line(fresh)
        kept = [*_lines(target), *_lines(fresh)] if config.provider == "openai" else []
        for line in kept:
            if hashes.get(line["record_id"]) == line["request_hash"]:
                lines[line["record_id"]] = line
        reused = len(lines)
        wanted = {record_id: request for record_id, request in requests.items() if record_id not in lines}
        if config.provider == "recorded":
            lines |= _recorded(wanted, hashes, Path(str(config.recorded)))
        elif wanted:
            from pacer.anchors.client import ask

            with open(fresh, "a", encoding="utf-8") as file:
                for record_id, content in ask(wanted, config):
                    lines[record_id] = _line(record_id, hashes[record_id], content)
                    file.write(json.dumps(lines[record_id], ensure_ascii=False) + "\n")
                    file.flush()
        write_jsonl(target, [lines[record_id] for record_id in sorted(lines)])
        shutil.rmtree(scratch.parent)
    return {
        "provider": config.provider,
        "model": config.model if config.provider == "openai" else None,
        "sampled": sample.height,
        "reused": reused,
        "asked": len(lines) - reused,
        "missing": sample.height - len(lines),
        "statuses": dict(Counter(line["status"] for line in lines.values())),
    }


def system_prompt(prompt_file: str | None) -> str:
    """The labelling instructions: the built-in ones, or the text of a file.

    Raises:
        ConfigError: the file is missing or empty.
    """
    if prompt_file is None:
        return resources.files("pacer.anchors").joinpath("prompt.md").read_text(encoding="utf-8")
    try:
        text = Path(prompt_file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"anchors.llm.prompt_file: {prompt_file} cannot be read ({type(error).__name__})") from None
    if not text.strip():
        raise ConfigError(f"anchors.llm.prompt_file: {prompt_file} is empty")
    return text


def _requests(sample: pl.DataFrame, records: pl.DataFrame, config: Labelling) -> dict[str, dict[str, Any]]:
    """``{record id: request}``; the request of the paper: report, rule-based candidate, sampling metadata."""
    prompt = system_prompt(config.prompt_file)
    rows = sample.join(records.select("record_id", "report_raw"), on="record_id", how="left", maintain_order="left")
    unknown = rows.filter(pl.col("report_raw").is_null())
    if unknown.height:
        raise DataError(f"sampled record {unknown['record_id'][0]} is not in the corpus; draw the sample again")
    requests = {}
    for row in rows.iter_rows(named=True):
        content = {
            "sample_uid": row["record_id"],
            "scenario": row["context"],
            "report": row["report_raw"],
            "regex_anchor": extract_anchor(row["report_raw"]).as_dict(),
            "risk_buckets": row["strata"],
        }
        requests[row["record_id"]] = {
            "model": config.model,
            "temperature": config.temperature,
            "max_tokens": config.max_tokens,
            "messages": [
                {"role": "system", "content": prompt},
                {"role": "user", "content": json.dumps(content, ensure_ascii=False)},
            ],
        }
    return requests


def _lines(path: Path) -> list[dict[str, Any]]:
    return read_jsonl(path) if path.exists() else []


def _drop_cut_line(path: Path) -> None:
    """Remove a last line that an interrupted run did not finish."""
    if path.exists():
        content = path.read_bytes()
        with open(path, "rb+") as file:
            file.truncate(content.rfind(b"\n") + 1)


def _line(record_id: str, request_hash: str, content: str) -> dict[str, Any]:
    answer = read_answer(content, record_id)
    return {
        "record_id": record_id,
        "request_hash": request_hash,
        "raw": content,
        "anchor": answer.anchor.as_dict() if answer.anchor else None,
        "status": answer.status,
        "dropped": {"off_vocabulary": answer.off_vocabulary, "repeated": answer.repeated},
    }


def _recorded(wanted: dict[str, Any], hashes: dict[str, str], path: Path) -> dict[str, dict[str, Any]]:
    """Lines for the wanted records that the file of recorded answers holds."""
    lines = {}
    for number, recorded in enumerate(read_jsonl(path), start=1):
        if not isinstance(recorded, dict) or not {"record_id", "response"} <= recorded.keys():
            raise DataError(f"{path}, line {number} must be an object with record_id and response")
        record_id = recorded["record_id"]
        if record_id in wanted:
            lines[record_id] = _line(record_id, hashes[record_id], content_of(recorded["response"]))
    return lines
