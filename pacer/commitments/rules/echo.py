"""Generated text that repeats its prompt, or that thinks before it reports: the report in it."""

import re

from pacer.commitments.rules.table import GROUPS

_TURNS, _TASK, _INDICATION, _ASIDE, _REPORT = (
    re.compile(GROUPS[name], re.IGNORECASE if name != "aside_section" else 0)
    for name in ("turns", "task", "indication", "aside_section", "report_begins")
)
#: A tag or a mark, which is no word of a prompt.
_MARK = re.compile(r"<[^>]*>|\[/?\w+\]")
#: Words of a beginning among which a task is sought.
_WORDS = 40


def without_prompt(text: str) -> str:
    """Return the report in a generated text; unchanged if the text repeats no prompt, empty if it holds nothing else.

    Cut off are turns (all before ``[/INST]`` and similar marks, and thoughts); an indication up to the next heading, or
    to the end of its sentence; and a task within the first 40 words, up to a mark such as ``Findings:`` or
    ``Response:``. A task without such a mark leaves nothing, because nobody can tell where it ends.
    """
    answer = _TURNS.sub(lambda turns: "" if re.search(r"\w", _MARK.sub("", turns[0])) else turns[0], text)
    if _TASK.search(" ".join(answer.split(maxsplit=_WORDS)[:_WORDS])):
        begins = _REPORT.search(answer)
        return answer[begins.end() :].strip() if begins else ""
    if _INDICATION.match(answer):
        answer = _ASIDE.sub("", answer).lstrip(" .;\n")
    return answer if answer == text else answer.strip()
