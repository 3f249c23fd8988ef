"""The requests to the labelling model, one for each sampled record.

A request has the system prompt, and report, rule-based candidate and sampling metadata as JSON
(paper, appendices "Commitment supervision" and "Preserved Commitment-Labeling Prompt", input
format).

The key of an answer is the hash of its request without the candidate: an answer is not bought again
because the rules read the report differently. Version 0.4 and earlier keyed answers by the whole
request. Their keys are recomputed with today's candidate and with those that are similar to it.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from importlib import resources
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from pacer.config import Labelling
from pacer.core.anchor import POLARITIES, Anchor
from pacer.core.errors import ConfigError, DataError
from pacer.core.findings import FINDINGS
from pacer.core.io import canonical_json, hash_json
from pacer.text.rules import EXTRACTORS

#: An answer of version 0.4 is found if the rules now give at most this many findings of its report
#: another state. Each further finding makes the search about ten times as long.
MAX_CHANGED = 3
_STATES = (None, *POLARITIES)


class Question(NamedTuple):
    """The chat completion request of a record."""

    record_id: str
    #: The arguments as configured. If an endpoint refuses some of them, others are sent.
    request: dict[str, Any]
    #: SHA-256 of ``request``, the key of the answer in version 0.4 and earlier.
    request_hash: str
    #: SHA-256 of ``request`` without the candidate, the key of the answer.
    question_hash: str
    candidate: Anchor


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
        candidate = EXTRACTORS[rules](row["report_raw"])
        content = {
            "sample_uid": row["record_id"],
            "scenario": row["context"],
            "report": row["report_raw"],
            "regex_anchor": candidate.as_dict(),
            "risk_buckets": row["strata"],
        }
        request = _request(content, config, prompt)
        del content["regex_anchor"]
        key = hash_json(_request(content, config, prompt))
        questions.append(Question(row["record_id"], request, hash_json(request), key, candidate))
    return questions


def _request(content: dict[str, Any], config: Labelling, prompt: str) -> dict[str, Any]:
    user = {"role": "user", "content": json.dumps(content, ensure_ascii=False)}
    optional = {"temperature": config.temperature, "reasoning_effort": config.reasoning_effort}
    return {
        "model": config.model,
        **{name: value for name, value in optional.items() if value is not None},
        "max_tokens": config.max_tokens,
        **response_format(config.response_format),
        "messages": [{"role": "system", "content": prompt}, user],
    }


def earlier_keys(question: Question) -> Iterator[str]:
    """Yield the ``request_hash`` of a question with its candidate, and with each candidate in which
    at most :data:`MAX_CHANGED` findings have another state, the most similar ones first."""
    today = {finding: question.candidate.polarity(finding) for finding in FINDINGS}
    # the last match is in the record's data: the prompt, which is before it, shows an example, and
    # quotes in the report are escaped twice
    before, _, after = canonical_json(question.request).rpartition(_candidate_text(today))
    begun = hashlib.sha256(before.encode())
    for count in range(MAX_CHANGED + 1):
        for findings in combinations(FINDINGS, count):
            others = ([state for state in _STATES if state != today[one]] for one in findings)
            for states in product(*others):
                changed = today | dict(zip(findings, states, strict=True))
                key = begun.copy()
                key.update((_candidate_text(changed) + after).encode())
                yield key.hexdigest()


def _candidate_text(states: Mapping[str, str | None]) -> str:
    """Return a candidate as :func:`canonical_json` writes it in a request."""
    lists = {name: [one for one in FINDINGS if states[one] == name] for name in POLARITIES}
    return json.dumps(json.dumps({"regex_anchor": lists})[1:-1])[1:-1]


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
        return resources.files("pacer.labels").joinpath("prompt.md").read_text(encoding="utf-8")
    try:
        return Path(prompt_file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"anchors.llm.prompt_file: {prompt_file} cannot be read ({error})"
        ) from None
