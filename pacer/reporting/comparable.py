"""Why scores of one's own cannot stand beside the published ones: another corpus, other models, another protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pacer.reporting.audits import standin_note
from pacer.reporting.published import PublishedTable
from pacer.reporting.tables import contexts_in

#: What the published scores were made with.
CONVENTION, CLEANER, SPLIT = "llm-rg4", "upstream", "test"
#: Stages that score a system which is decoded as it was released, not as PACER is.
RELEASED = ("llm_rg4_score",)


def differences_to_published(
    table: PublishedTable, scores: Mapping[str, Any], signature: Mapping[str, Any], record: Mapping[str, Any] | None
) -> list[str]:
    """In words, each way in which a scored run is not of the published rows' data and protocol; empty: none is known.

    Args:
        record: of the run; None for foreign scores, whose corpus only the number of their records tells.
    """
    found = []
    if record is not None:
        corpus = record["corpus"]
        if (corpus.get("source"), corpus.get("format")) != ("files", "rg4"):
            found.append("the corpus is not MIMIC-RG4")
        if corpus.get("limit", 0) is not None or record.get("limit", 0) is not None:
            found.append("not all records were used, or it is not recorded")
        if record["split"] != SPLIT:
            found.append(f"scored on split {record['split']}")
    if standin_note(signature) is not None:
        found.append("stand-in models, or models of unknown origin")
    language, clinical = signature.get("language") or {}, signature.get("clinical") or {}
    for what, value, wanted in (
        ("label convention", clinical.get("convention"), CONVENTION),
        ("target", language.get("target"), table.target),
        ("cleaning", language.get("cleaner"), CLEANER),
        ("strict targets", language.get("strict"), False),
    ):
        if value != wanted:
            found.append(f"{what} {value}, published {wanted}")
    if record is not None and record.get("target") not in RELEASED:
        used = (signature.get("predictions") or {}).get("settings") or {}
        found += [
            f"decode.{name} {used.get(name, 'not recorded')}, published {wanted}"
            for name, wanted in table.decoding.items()
            if used.get(name) != wanted
        ]
    if not table.records:
        return found + ["it is not recorded of which corpus the reports are"] * (record is None)
    contexts = contexts_in(scores)
    sizes = [
        f"{context.upper()} {scores[context].get('n')} ({table.records.get(context, 'none')})"
        for context in contexts
        if scores[context].get("n") != table.records.get(context)
    ]
    if sizes:
        found.append(f"records (published): {', '.join(sizes)}")
    missing = [context.upper() for context in table.records if context not in contexts]
    if missing and any(block.context == "mean" for block in table.blocks):
        found.append(f"the mean lacks {', '.join(missing)}")
    return found
