"""The text of the instruction before and after the image. Task strings are LLM-RG4's; the suffix
that asks for a commitment first comes before ``Assistant:``."""

from typing import Literal

#: Ends the text before the image.
BEFORE_IMAGE = " <Img>"
BEFORE_START = "Human: "
AFTER_START = "</Img> "
AFTER_END = ". \nAssistant:"
COMMIT_SUFFIX = (
    " First output <ANCHOR> positive, negative and uncertain findings, then output "
    "the final report in <REPORT>."
)
UnknownView = Literal["upstream", "by_sections"]
_VIEWS = {"AP": "anterior posterior ", "PA": "posterior anterior "}


def task(view: str, sections: str, unknown_view: UnknownView = "upstream") -> str:
    """Return the task sentence for a view (AP | PA | other) and the sections of the target. For an
    unknown view, upstream always asks for the findings, on a separate line; ``by_sections`` asks
    for the sections that exist."""
    if view in _VIEWS:
        start = ""
        image = f"{_VIEWS[view]}chest X-ray visual feature"
    else:
        start = "\n"
        image = "chest X-ray examination"
        if unknown_view == "upstream":
            sections = "findings"
    if sections == "findings+impression":
        return f"{start}Write radiological finding and impression for this {image}"
    return f"{start}Write radiological {sections.removesuffix('s')} section of report for {image}"


def instruction(
    *,
    view: str,
    sections: str,
    indication: str | None,
    history: str | None,
    commit: bool,
    unknown_view: UnknownView = "upstream",
) -> tuple[str, str]:
    """Return the instruction's text before and after the visual tokens."""
    context = []
    if indication:
        context.append(f"INDICATION: {indication}")
    if history:
        context.append(f"HISTORY: {history}")
    before = f"{BEFORE_START}{' '.join(context)}{BEFORE_IMAGE}"
    suffix = f".{COMMIT_SUFFIX}{AFTER_END.removeprefix('.')}" if commit else AFTER_END
    return before, f"{AFTER_START}{task(view, sections, unknown_view)}{suffix}"
