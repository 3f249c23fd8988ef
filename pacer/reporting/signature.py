"""The signature of a run's scores in words: the line below every table, and the warnings."""

from collections.abc import Iterator, Mapping
from typing import Any

from pacer.metrics.signature import Decoding, Signature


def signature_line(signature: Signature) -> str:
    """Return what determines the numbers, in one line: ``name:value`` joined by bars."""
    counts, limit = signature.counts.values(), Decoding.of(signature.predictions).limit
    parts = {
        **_clinical(signature),
        "clean": signature.language["cleaner"],
        "tok": "space",
        "bleu": "corpus",
        "meteor": "1.5",
        "mean": "contexts",
        "n": "+".join(str(context["n"]) for context in counts) + (f" (decode.limit {limit})" if limit else ""),
        "empty": sum(context.get("empty_hypotheses", 0) for context in counts),
        **dict(_protocol(signature.protocol or {})),
        "data": (signature.data["records"] or "")[:8],
        "version": signature.versions["pacer"],
    }
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


def caution(signature: Signature) -> str | None:
    """Return a warning if models are stand-ins or of unknown origin; else None."""
    notes = []
    labeller = signature.standin_labeller
    if signature.clinical is None:
        notes.append("CheXbert's precision, recall and F1 need its weights; pass --chexbert DIR.")
    elif labeller is None:
        notes.append("The origin of the labeller is not recorded.")
    elif labeller:
        notes.append(
            "The findings were labelled by a stand-in for CheXbert, made by this pipeline: compare precision, recall "
            "and F1 only with runs scored by the same stand-in, never with published numbers."
        )
    frozen = (signature.predictions or {}).get("stand_ins") or []
    if frozen:
        notes.append(f"Frozen stand-ins, made by this pipeline: {', '.join(frozen)}.")
    return " ".join(notes) or None
