"""The report in a generated text, and what generated texts hold beside a report.

The thoughts of a reasoning model are taken out. Nothing else is: other residue, such as the prompt,
is counted, and refused if it is common (:func:`check_residue`).
"""

import re
from collections.abc import Sequence

import polars as pl

from pacer.core.errors import DataError
from pacer.core.io import yaml_beside
from pacer.tables.hygiene import RESIDUE
from pacer.tables.ids import format_ids
from pacer.tables.values import quoted

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
#: Thoughts between tags, which are not closed if the model was cut off; MedGemma has tokens for
#: them.
_THOUGHTS = re.compile(
    r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)|<unused94>.*?(?:<unused95>|\Z)",
    re.IGNORECASE | re.DOTALL,
)
#: Thoughts whose opening tag belongs to the prompt.
_THOUGHTS_FROM_START = re.compile(
    r"\A.*(?:</(?:think|thinking|reasoning)>|<unused95>)", re.IGNORECASE | re.DOTALL
)
_ANSWER = re.compile(r"\A.*<answer>(.*?)(?:</answer>.*|\Z)", re.IGNORECASE | re.DOTALL)
#: Residue is refused if more than this share of the reports has it.
_MOST_RESIDUE = 0.05
_FROM_FILE = "remove it from the file"
#: How residue of other formats is removed, where one call does it.
_REMEDIES = {
    "entities": "html.unescape(text)",
    "special tokens of language models": "tokenizer.decode(ids, skip_special_tokens=True)",
    "a list, object or bytes as programs write them": "json.loads(text), ast.literal_eval(text) or "
    "text.decode(), before the file is written",
    "marks of a tokenizer's pieces": "tokenizer.decode(ids)",
    r"\n, \r or \t written out": r'text.replace("\\n", "\n")',
}
#: Each kind of residue: its pattern and its remedy.
_KINDS: dict[str, tuple[str, str]] = {
    kind["name"]: (kind["pattern"], kind["remedy"])
    for kind in yaml_beside(__file__, "generated.yaml")
} | {name: (pattern, _REMEDIES.get(name, _FROM_FILE)) for name, pattern in RESIDUE.items()}
_ANY = "|".join(pattern for pattern, _ in _KINDS.values())
#: Kinds whose mark can contain report text, so it is not shown.
_HIDDEN = {"fields of a template"}


def without_thoughts(text: str) -> str:
    """Return a generated text without the thoughts of a reasoning model and the tags around its
    answer; without tags, the text as it is. Thoughts that are not closed extend to the end.

    >>> without_thoughts("<think>The left base is hazy.</think> Left basal opacity.")
    'Left basal opacity.'
    >>> without_thoughts("<reasoning>Clear.</reasoning><answer>No effusion.</answer>")
    'No effusion.'
    """
    if "<" not in text:
        return text
    answer = _THOUGHTS_FROM_START.sub("", _THOUGHTS.sub("", text))
    answer = _ANSWER.sub(r"\1", answer)
    return text if answer == text else answer.strip()


def residue_of(ids: Sequence[str], texts: Sequence[str]) -> tuple[int, str]:
    """Return how many texts carry something beside a report, and a description of each kind: its
    number, the first ids, the mark by which it was found in the first of them, and the remedy. A
    text counts for the first kind that it has."""
    rows = pl.DataFrame([pl.Series("id", ids), pl.Series("text", texts, pl.String)])
    rows = rows.filter(pl.col("text").str.contains(_ANY))
    count = rows.height
    kinds = []
    for name, (pattern, remedy) in _KINDS.items():
        is_kind = rows["text"].str.contains(pattern)
        found, rows = rows.filter(is_kind), rows.filter(~is_kind)
        if found.height:
            mark = "" if name in _HIDDEN else f" (`{_mark(pattern, found['text'][0])}`)"
            of_ids = format_ids(found["id"].to_list())
            kinds.append(f"{name}{mark} in {found.height} ({of_ids}): {remedy}")
    return count, "; ".join(kinds)


def _mark(pattern: str, text: str) -> str:
    """Return the first match of a pattern, or its first group, for a message; a long one is
    hidden."""
    match = re.search(pattern, text)
    if match is None:  # polars and Python differ in a rare character
        return "a mark"
    return quoted(next(filter(None, match.groups()), match[0]).strip(), 24)


def check_residue(name: str, ids: Sequence[str], texts: Sequence[str], as_is: bool) -> str | None:
    """Return a description of what the reports ``texts`` of the file ``name`` carry beside a report
    (:func:`residue_of`); None if they carry nothing else. Raises a DataError if more than one in
    twenty do, unless ``as_is``."""
    count, kinds = residue_of(ids, texts)
    if not count:
        return None
    found = f"{count} of {len(texts)} reports contain more than a report: {kinds}"
    if count > _MOST_RESIDUE * len(texts) and not as_is:
        raise DataError(
            f"{name}: {found}; correct the texts, or use them as they are with --as-is, in Python "
            "as_is=True"
        )
    return found


def last_box(text: str) -> str:
    r"""Return the content of the last ``\boxed{...}``, without a ``\text{...}`` around all of it
    (paper, appendix "Additional Conventional-SN Baselines"). The text is empty if there is no box
    or the last one is not closed."""
    _, _, rest = text.rpartition("\\boxed{")
    content = _to_closing_brace(rest).strip() if len(rest) < len(text) else ""
    written = _to_closing_brace(content.removeprefix("\\text{"))
    return written.strip() if content == f"\\text{{{written}}}" else content


def _to_closing_brace(text: str) -> str:
    """Return the text before the brace that closes a group, found by counting braces; empty if it
    is not closed."""
    depth = 1
    for position, letter in enumerate(text):
        if letter == "{":
            depth += 1
        elif letter == "}":
            depth -= 1
        if depth == 0:
            return text[:position]
    return ""


def without_repeats(text: str) -> str:
    """Return the report with only the first occurrence of every sentence, which ends at a period,
    question or exclamation mark before white space. Case, white space and a space before the end
    mark make no difference."""
    sentences: dict[str, str] = {}
    for sentence in _SENTENCE_END.split(text.strip()):
        sentences.setdefault(" ".join(sentence.lower().rstrip(".!? ").split()), sentence)
    return " ".join(sentences.values())
