"""The report in a generated text that repeats its prompt or shows the model's thoughts."""

import re

#: Everything before the answer of a chat model, and its thoughts.
_TURNS = re.compile(
    r"\A.*(?:\[/INST\]|</think(?:ing)?>|<\|assistant\|>|<\|im_start\|>\s*assistant)"
    r"|\A.{0,300}?\b(?:user|human):.*\bassistant:|<think(?:ing)?>.*",
    re.IGNORECASE | re.DOTALL,
)
#: Tags and marks, which do not count as words of a prompt.
_MARK = re.compile(r"<[^>]*>|\[/?\w+\]")
_TASK = re.compile(
    r"\byou are an? (?:\w+ ){0,4}(?:radiolog|assistant|model|expert)|\b(?:task|instructions?)\s*:"
    r"|(?:^|[.:,;!>\]] *|\b(?:please|to|can you|could you) )"
    r"(?:generate|write|provide|describe|produce|compose|draft|predict|summari[sz]e) "
    r"(?:\w+ ){0,8}?(?:reports?|findings|impressions?|radiographs?|x-rays?|images?|scan)\b",
    re.IGNORECASE,
)
#: Number of words at the beginning in which a task is searched for.
_WORDS = 40
_REPORT = re.compile(
    r"(?=\b(?:findings?|impressions?|conclusions?)\s*\**\s*:)"
    r"|(?:\b(?:report|response|answer|output|assistant)\s*\**\s*:|<report>)\s*",
    re.IGNORECASE,
)
#: An indication up to the next heading or, without one, to the end of its sentence.
_INDICATION = re.compile(
    r"\A\W*(?:clinical )?(?:indications?|history|reason for (?:the )?(?:exam\w*|study))\s*:"
    r"(?:.*?(?=\b(?:findings?|impressions?|conclusions?|comparisons?|techniques?)\s*:)"
    r"|[^.!?]*[.!?]?)",
    re.IGNORECASE | re.DOTALL,
)


def without_prompt(text: str) -> str:
    """Return the report in a generated text; unchanged if the text repeats no prompt, empty if it
    holds nothing else.

    Cut off are turns (all before ``[/INST]`` and similar marks, and thoughts); an indication up to
    the next heading, or to the end of its sentence; and a task within the first 40 words, up to a
    mark such as ``Findings:`` or ``Response:``. A task without such a mark leaves nothing, because
    nobody can tell where it ends.

    >>> without_prompt("<think>The left base is hazy.</think> Left basal opacity.")
    'Left basal opacity.'
    """
    answer = _TURNS.sub(
        lambda turns: "" if re.search(r"\w", _MARK.sub("", turns[0])) else turns[0], text
    )
    if _TASK.search(" ".join(answer.split(maxsplit=_WORDS)[:_WORDS])):
        begins = _REPORT.search(answer)
        return answer[begins.end() :].strip() if begins else ""
    answer = _INDICATION.sub("", answer)
    return answer if answer == text else answer.lstrip(" .;\n").strip()
