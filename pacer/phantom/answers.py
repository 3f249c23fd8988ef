"""Recorded labelling answers in the shape in which the chat-completions API returns them.

They were not given by a language model: they hold what each report states. A few have the blemishes that real
answers have (a code fence, capital letters, a finding outside the vocabulary, a cut-off answer), so that reading them
takes the same path as reading real ones.
"""

from __future__ import annotations

import json

import numpy as np

from pacer.phantom.language import PhantomReport

#: Named as the model of every recorded answer.
ANSWER_MODEL = "phantom-recorded"
_FENCED, _CAPITALS, _FOREIGN, _CUT = 0.04, 0.03, 0.02, 0.005


def recorded_answer(record_id: str, report: PhantomReport, created: int, rng: np.random.Generator) -> dict:
    """One line of ``answers.jsonl``: ``{"record_id", "response"}``, the response a chat.completion object."""
    lists = {status: list(report.listed(status)) for status in ("positive", "negative", "uncertain")}
    rationale = {
        finding: " ".join(text.rstrip(".").split()[:8])
        for text, findings in reversed(report.sentences)
        for finding in sorted(findings)
    }
    blemish = rng.random()
    if blemish < _CAPITALS:
        lists = {status: [name.title() for name in names] for status, names in lists.items()}
    elif blemish < _CAPITALS + _FOREIGN:
        lists["negative"].append("hernia")
    content = json.dumps({"sample_uid": record_id, **lists, "rationale": rationale}, ensure_ascii=False)
    finish = "stop"
    if blemish > 1.0 - _FENCED:
        content = f"```json\n{content}\n```"
    elif blemish > 1.0 - _FENCED - _CUT:
        content, finish = content[: len(content) // 2], "length"
    prompt_tokens, completion_tokens = 640 + 2 * len(report.text.split()), len(content) // 4
    return {
        "record_id": record_id,
        "response": {
            "id": f"chatcmpl-{record_id}",
            "object": "chat.completion",
            "created": created,
            "model": ANSWER_MODEL,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": content, "refusal": None},
                    "logprobs": None,
                    "finish_reason": finish,
                }
            ],
            "usage": {
                "prompt_tokens": prompt_tokens,
                "completion_tokens": completion_tokens,
                "total_tokens": prompt_tokens + completion_tokens,
            },
        },
    }
