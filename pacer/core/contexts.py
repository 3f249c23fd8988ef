"""The four contexts: which of the two optional sources a record has (paper, section "Problem
Formulation")."""

from typing import Literal

Context = Literal["sn", "sw", "mn", "mw"]

#: In the order of LLM-RG4's training rounds and of the paper's tables. S/M: frontal only / with
#: lateral. N/W: without / with prior report.
CONTEXTS: tuple[Context, ...] = ("sn", "sw", "mn", "mw")

#: The sources that each context gives the model, in words.
SOURCES: dict[str, str] = {
    "sn": "frontal",
    "sw": "frontal + previous report",
    "mn": "frontal + lateral",
    "mw": "frontal + lateral + previous report",
}


#: Contexts whose records have the frontal view, the lateral view, the previous report.
WITH_SOURCE: tuple[tuple[Context, ...], ...] = (CONTEXTS, ("mn", "mw"), ("sw", "mw"))


def availability(context: str) -> tuple[bool, bool]:
    """Return ``a = (a_l, a_p)``: whether the lateral view and the previous report are available."""
    if context not in CONTEXTS:
        raise ValueError(f"unknown context {context!r}; expected one of {', '.join(CONTEXTS)}")
    return context[0] == "m", context[1] == "w"


def context_of(lateral: bool, prior: bool) -> Context:
    """Return the context of an availability pair; the inverse of :func:`availability`."""
    return next(context for context in CONTEXTS if availability(context) == (lateral, prior))


def contexts_within(lateral: bool, prior: bool) -> tuple[Context, ...]:
    """Return the contexts that these sources allow, in the order of :data:`CONTEXTS`."""
    return tuple(
        c for c in CONTEXTS if lateral >= availability(c)[0] and prior >= availability(c)[1]
    )
