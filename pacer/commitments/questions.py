"""The requests to the labelling model, one for each sampled record.

A request has the system prompt, and report, rule-based candidate and sampling metadata as JSON
(paper, appendices "Commitment supervision" and "Preserved Commitment-Labeling Prompt", input
format).
"""

import json
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from pacer.commitments.anchor import POLARITIES
from pacer.commitments.rules import EXTRACTORS
from pacer.config import Labelling
from pacer.core.errors import ConfigError, DataError
from pacer.core.io import hash_json
from pacer.data.findings import FINDINGS


class Question(NamedTuple):
    """The chat completion request of a record."""

    record_id: str
    #: The arguments as configured. If an endpoint refuses some of them, others are sent.
    request: dict[str, Any]
    #: SHA-256 of ``request``, the key of the answer.
    request_hash: str


def build_questions(
    sample: pl.DataFrame,
    records: pl.DataFrame,
    config: Labelling,
    prompt: str,
    rules: str = "careful",
) -> list[Question]:
    """Build the question of every sampled record. ``rules`` is the rule set (``anchors.rules``) of
    the candidate ``regex_anchor``. Raises a DataError if a sampled record is not in the corpus."""
    rows = sample.join(
        records.select("record_id", "report_raw"), on="record_id", how="left", maintain_order="left"
    )
    questions = []
    for row in rows.iter_rows(named=True):
        if row["report_raw"] is None:
            raise DataError(
                f"sampled record {row['record_id']} is not in the corpus; rerun the "
                "`anchor_sample` stage"
            )
        content = {
            "sample_uid": row["record_id"],
            "scenario": row["context"],
            "report": row["report_raw"],
            "regex_anchor": EXTRACTORS[rules](row["report_raw"]).as_dict(),
            "risk_buckets": row["strata"],
        }
        user = {"role": "user", "content": json.dumps(content, ensure_ascii=False)}
        optional = {"temperature": config.temperature, "reasoning_effort": config.reasoning_effort}
        request = {
            "model": config.model,
            **{name: value for name, value in optional.items() if value is not None},
            "max_tokens": config.max_tokens,
            **response_format(config.response_format),
            "messages": [{"role": "system", "content": prompt}, user],
        }
        questions.append(Question(row["record_id"], request, hash_json(request)))
    return questions


def response_format(name: str) -> dict[str, Any]:
    """Return the arguments that ``anchors.llm.response_format`` adds to a request, if any."""
    if name != "json_schema":
        return {} if name == "none" else {"response_format": {"type": name}}
    findings = {"type": "array", "items": {"type": "string", "enum": list(FINDINGS)}}
    rationale = _object({finding: {"type": "string"} for finding in FINDINGS})
    schema = _object(
        {
            "sample_uid": {"type": "string"},
            **{name: findings for name in POLARITIES},
            "rationale": rationale,
        }
    )
    return {
        "response_format": {
            "type": name,
            "json_schema": {"name": "findings_of_a_report", "strict": True, "schema": schema},
        }
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties, which strict schemas
    require."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def system_prompt(prompt_file: str | None) -> str:
    """Return the labelling instructions: the built-in ones, or the text of a file. Raises a
    ConfigError if the file cannot be read."""
    if prompt_file is None:
        return (
            resources.files("pacer.commitments").joinpath("prompt.md").read_text(encoding="utf-8")
        )
    try:
        return Path(prompt_file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"anchors.llm.prompt_file: {prompt_file} cannot be read ({error})"
        ) from None
