"""The labelling request of a record: system prompt, and report, rule-based candidate and sampling metadata as JSON.

Paper, appendix "Commitment supervision" and "Preserved Commitment-Labeling Prompt" (input format).
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from pacer.commitments.anchor import FINDINGS, POLARITIES
from pacer.commitments.rules.extract import extract_anchor
from pacer.config import Labelling
from pacer.core.errors import ConfigError, DataError
from pacer.core.io import hash_json

#: Characters of one token, for estimates alone; English text has between four and five.
CHARACTERS_PER_TOKEN = 4


class Question(NamedTuple):
    """One record's chat completion.

    Attributes:
        request: its arguments. request_hash: their SHA-256, the key of the answer.
        prompt_tokens: estimate of the input, system prompt included.
    """

    record_id: str
    request: dict[str, Any]
    request_hash: str
    prompt_tokens: int


def build_questions(sample: pl.DataFrame, records: pl.DataFrame, config: Labelling, prompt: str) -> list[Question]:
    """The question of every sampled record.

    Args:
        sample: the table that :func:`pacer.commitments.sampling.sample_records` returns.

    Raises:
        DataError: a sampled record is not in the corpus.
    """
    rows = sample.join(records.select("record_id", "report_raw"), on="record_id", how="left", maintain_order="left")
    unknown = rows.filter(pl.col("report_raw").is_null())
    if unknown.height:
        raise DataError(f"sampled record {unknown['record_id'][0]} is not in the corpus; draw the sample again")
    questions = []
    for row in rows.iter_rows(named=True):
        content = {
            "sample_uid": row["record_id"],
            "scenario": row["context"],
            "report": row["report_raw"],
            "regex_anchor": extract_anchor(row["report_raw"]).as_dict(),
            "risk_buckets": row["strata"],
        }
        text = json.dumps(content, ensure_ascii=False)
        request = {
            "model": config.model,
            "temperature": config.temperature,
            "max_tokens": config.max_tokens,
            "response_format": answer_schema() if config.structured else {"type": "json_object"},
            "messages": [{"role": "system", "content": prompt}, {"role": "user", "content": text}],
        }
        tokens = -(-(len(prompt) + len(text)) // CHARACTERS_PER_TOKEN)
        questions.append(Question(row["record_id"], request, hash_json(request), tokens))
    return questions


def system_prompt(prompt_file: str | None) -> str:
    """The labelling instructions: the built-in ones, or the text of a file.

    Raises:
        ConfigError: the file cannot be read, or never says JSON, without which endpoints refuse JSON output.
    """
    if prompt_file is None:
        return resources.files("pacer.commitments").joinpath("prompt.md").read_text(encoding="utf-8")
    name = f"anchors.llm.prompt_file: {prompt_file}"
    try:
        text = Path(prompt_file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name} cannot be read ({type(error).__name__})") from None
    if "json" not in text.lower():
        raise ConfigError(f"{name} must ask for a JSON object: the API refuses JSON output without that word")
    return text


def answer_schema() -> dict[str, Any]:
    """``response_format`` of the structured mode: the paper's schema in the API's strict form.

    Strict schemas know no open keys and no optional ones, so ``rationale`` names all findings, null where none applies.
    """
    names = {"type": "array", "items": {"type": "string", "enum": list(FINDINGS)}}
    phrases = {finding: {"type": ["string", "null"]} for finding in FINDINGS}
    properties = {"sample_uid": {"type": "string"}, **dict.fromkeys(POLARITIES, names), "rationale": _closed(phrases)}
    return {
        "type": "json_schema",
        "json_schema": {"name": "clinical_anchor", "strict": True, "schema": _closed(properties)},
    }


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
