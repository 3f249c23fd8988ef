"""Recorded labelling answers in the format of the chat-completions API.

They are not from a language model: they contain the findings that each report states. A few have the blemishes of real
answers (a code fence, capital letters, a finding outside the vocabulary, a cut-off answer), so that they exercise the
same code as real answers.
"""

import json

import numpy as np

from pacer.phantom.language import PhantomReport

#: Creation time of all recorded answers, in seconds since 1970: nothing in a phantom depends on the clock.
_CREATED = 1_735_689_600
_FENCED, _CAPITALS, _FOREIGN, _CUT = 0.04, 0.03, 0.02, 0.005


def recorded_answer(report: PhantomReport, rng: np.random.Generator) -> dict:
    """Return a line of ``answers.jsonl``: ``{"record_id", "response"}``; the response is a chat.completion object."""
    record_id = f"{report.context}-{report.study.study_id}"
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
    total = prompt_tokens + completion_tokens
    message = {"role": "assistant", "content": content, "refusal": None}
    response = {
        "id": f"chatcmpl-{record_id}",
        "object": "chat.completion",
        "created": _CREATED,
        "model": "phantom-recorded",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens, "total_tokens": total},
    }
    return {"record_id": record_id, "response": response}
