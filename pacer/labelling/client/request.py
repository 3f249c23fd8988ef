"""The labelling request of a record: system prompt, and report, rule-based candidate and sampling metadata as JSON.

Paper, appendix "Commitment supervision" and "Preserved Commitment-Labeling Prompt" (input format).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import polars as pl

from pacer.anchors.anchor import Anchor
from pacer.anchors.vocabulary import FINDINGS, POLARITIES
from pacer.core.errors import ConfigError, DataError
from pacer.core.io import hash_bytes, hash_json
from pacer.params import Labelling

#: Characters of one token, for estimates alone; English text has between four and five.
CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True)
class Question:
    """One record's part of a request.

    Attributes:
        content: the user message.
        request_hash: SHA-256 of the whole request; the key of its answer.
        prompt_tokens: estimate of the input tokens, system prompt included.
    """

    record_id: str
    content: str
    request_hash: str
    prompt_tokens: int


@dataclass(frozen=True)
class RequestForm:
    """What all requests of one labelling share."""

    model: str
    temperature: float
    max_tokens: int
    structured: bool
    prompt: str

    @classmethod
    def of(cls, config: Labelling) -> RequestForm:
        """Raises ConfigError: the prompt cannot be read, is empty, or does not ask for JSON."""
        prompt = system_prompt(config.prompt_file)
        return cls(config.model, config.temperature, config.max_tokens, config.structured, prompt)

    @cached_property
    def prompt_hash(self) -> str:
        """SHA-256 of the system prompt."""
        return hash_bytes(self.prompt.encode())

    def request(self, content: str) -> dict[str, Any]:
        """The arguments of one chat completion."""
        return {
            "model": self.model,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "response_format": answer_schema() if self.structured else {"type": "json_object"},
            "messages": [{"role": "system", "content": self.prompt}, {"role": "user", "content": content}],
        }


def ask_about(
    sample: pl.DataFrame, records: pl.DataFrame, form: RequestForm, candidate: Callable[[str], Anchor]
) -> Iterator[Question]:
    """The question of every sampled record.

    Args:
        sample: the table that :func:`pacer.labelling.sample.draw.sample_records` returns.
        candidate: report -> the anchor that the rules propose.

    Raises:
        DataError: a sampled record is not in the corpus.
    """
    rows = sample.join(records.select("record_id", "report_raw"), on="record_id", how="left", maintain_order="left")
    unknown = rows.filter(pl.col("report_raw").is_null())
    if unknown.height:
        raise DataError(f"sampled record {unknown['record_id'][0]} is not in the corpus; draw the sample again")
    for row in rows.iter_rows(named=True):
        content = {
            "sample_uid": row["record_id"],
            "scenario": row["context"],
            "report": row["report_raw"],
            "regex_anchor": candidate(row["report_raw"]).as_dict(),
            "risk_buckets": row["strata"],
        }
        text = json.dumps(content, ensure_ascii=False)
        tokens = -(-(len(form.prompt) + len(text)) // CHARACTERS_PER_TOKEN)
        yield Question(row["record_id"], text, hash_json(form.request(text)), tokens)


def system_prompt(prompt_file: str | None) -> str:
    """The labelling instructions: the built-in ones, or the text of a file.

    Raises:
        ConfigError: the file is missing or empty, or never says JSON, without which endpoints refuse JSON output.
    """
    if prompt_file is None:
        return resources.files("pacer.labelling.client").joinpath("prompt.md").read_text(encoding="utf-8")
    try:
        text = Path(prompt_file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"anchors.llm.prompt_file: {prompt_file} cannot be read ({type(error).__name__})") from None
    if not text.strip():
        raise ConfigError(f"anchors.llm.prompt_file: {prompt_file} is empty")
    if "json" not in text.lower():
        raise ConfigError(
            f"anchors.llm.prompt_file: {prompt_file} must ask for a JSON object: the API refuses JSON output without "
            "that word"
        )
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
