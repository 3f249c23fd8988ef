"""The signature of a run's scores in words: the line below every table, and the warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pacer.core.errors import DataError
from pacer.metrics.signature import Signature


def signature_line(signature: Signature) -> str:
    """Return what determines the numbers, in one line: ``name:value`` joined by bars.

    Raises:
        DataError: a part that every signature has is missing.
    """
    try:
        counts, limit = signature.counts.values(), signature.decoding.get("limit")
        parts = {
            **_clinical(signature),
            "clean": signature.language["cleaner"],
            "tok": "blank",
            "bleu": "corpus",
            "meteor": "1.5",
            "mean": "contexts",
            "n": "+".join(str(context["n"]) for context in counts) + (f" (decode.limit {limit})" if limit else ""),
            "empty": sum(context.get("empty_hypotheses", 0) for context in counts),
            **dict(_protocol(signature.protocol or {})),
            "data": (signature.data["records"] or "")[:8],
            "version": signature.versions["pacer"],
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"the signature of the scores lacks {error}; score again") from None
    return " | ".join(f"{name}:{value}" for name, value in parts.items())


def _clinical(signature: Signature) -> dict[str, Any]:
    """Return what determines precision, recall and F1."""
    clinical = signature.clinical
    if clinical is None:
        return {"labeller": "none"}
    labeller = {True: "stand-in", False: "published", None: "unknown"}[signature.standin_labeller]
    return {
        "ce": clinical["convention"],
        "obs": len(clinical["observations"]),
        "present": "+".join(map(str, clinical["present_classes"])),
        "avg": clinical.get("average", "micro"),
        "labeller": f"{labeller}-{next(iter(clinical['labeller']['files'].values()), '')[:8]}",
    }


def _protocol(protocol: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the changes made to other systems' reports, if any."""
    if protocol.get("missing_hypotheses"):
        yield "missing", f"{protocol['missing']}-{protocol['missing_hypotheses']}"
    for name in ("extract", "clean_hypotheses", "clean_references"):
        if protocol.get(name, "none") != "none":
            yield name.replace("_", "-"), protocol[name]
    if protocol.get("deduplicate"):
        yield "deduplicated", "sentences"


def reading_notes(signature: Signature) -> list[str]:
    """Describe how the files of other systems were read, one per line, and warn if most of their reports are empty.
    There are no notes for the pipeline's own predictions."""
    protocol = signature.protocol or {}
    notes = [
        f"{side}: {read['file']}, text: {read['text']}, paired by {read.get('id', 'position')}"
        for side in ("references", "hypotheses")
        if (read := protocol.get(side))
    ]
    counts = signature.counts.values()
    empty, pairs = (sum(context.get(name, 0) for context in counts) for name in ("empty_hypotheses", "n"))
    if protocol and 2 * empty > pairs:
        missing = protocol.get("missing_hypotheses", 0)
        notes.append(f"warning: {empty} of {pairs} reports are empty, {missing} of them because they are missing")
    if blank := protocol.get("blank_hypotheses"):
        notes.append(f"note: reports that are blank, or a word such as nan: {blank}; scored as empty reports")
    if left_out := protocol.get("left_out_references"):
        notes.append(f"note: {left_out} references without a text are left out, with their reports")
    cleaners = {side: protocol.get(f"clean_{side}", "none") for side in ("references", "hypotheses")}
    unclean = {side: protocol.get(f"unclean_{side}", 0) for side in ("references", "hypotheses")}
    if any(unclean.values()):
        counted = " and ".join(f"{count} of {pairs} {side}" for side, count in unclean.items() if count)
        cleaner = next((name for name in cleaners.values() if name != "none"), "upstream")
        options = " ".join(f"--clean-{side} {cleaner}" for side, count in unclean.items() if count)
        notes.append(
            f"{counted} have capitals or periods without a blank before them, which move BLEU, ROUGE-L and CIDEr; to "
            f"score cleaned text: {options}"
        )
    notes += [
        f"{count} of {pairs} {side} have residue of another format (&lt; _x000D_ <br/>, soft hyphens, a written \\n), "
        "which is scored as words; take it out of the file"
        for side in unclean
        if (count := protocol.get(f"residue_{side}", 0))
    ]
    if len(set(cleaners.values()) - {"none"}) > 1:
        notes.append(
            f"warning: references are cleaned by {cleaners['references']}, reports by {cleaners['hypotheses']}"
        )
    return notes


def caution(signature: Signature) -> str | None:
    """Return a warning if models are stand-ins or of unknown origin; else None."""
    notes = []
    labeller = signature.standin_labeller
    if signature.clinical is None:
        notes.append("CheXbert's precision, recall and F1 need its weights: --chexbert DIR.")
    elif labeller is None:
        notes.append("It is not recorded where the labeller of the findings comes from.")
    elif labeller:
        notes.append(
            "The findings were labelled by a stand-in for CheXbert, made by this pipeline: precision, recall and F1 "
            "compare only runs scored by the same stand-in, never published numbers."
        )
    frozen = (signature.predictions or {}).get("stand_ins") or []
    if frozen:
        names = ", ".join(frozen[:-1]) + (" and " if len(frozen) > 1 else "") + frozen[-1]
        model = "model is a stand-in" if len(frozen) == 1 else "models are stand-ins"
        notes.append(f"The frozen {names} {model}, made by this pipeline.")
    return " ".join(notes) or None
