"""The model card: what an exported model is, what it learnt from, how well it does, and what it is not for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pacer.core.contexts import CONTEXTS
from pacer.model.checkpoint import CheckpointRecord
from pacer.pretrained.pointers import is_standin
from pacer.reporting.audits import signature_line, standin_note
from pacer.reporting.tables import score_table
from pacer.serving.package import Settings

_SOURCES = {
    "sn": "frontal view",
    "sw": "frontal view and previous report",
    "mn": "frontal and lateral view",
    "mw": "frontal view, lateral view and previous report",
}

_HEAD = """\
# A PACER model

Writes the report of a chest radiograph when the lateral view, the previous report, or both may be missing.

**For research only. Not a medical device; not for clinical decisions.** A report can be fluent and wrong.

```bash
pacer generate --model THIS_FOLDER --frontal image.dcm
```

```python
from pacer.serving.reporter import Reporter

result = Reporter.from_pretrained("THIS_FOLDER")(frontal="image.dcm")
```
"""

_LIMITS = """\
## Limits

- It has seen the corpus above and nothing else: other devices, countries, ages and diseases are not in its scores.
- It writes about findings that reports of that corpus mention; what they leave out, it leaves out.
- The commitment says what the model states, not what is true.
- Text and images that it was trained on may be under terms of their own, which extend to this model.
"""


def model_card(
    record: CheckpointRecord,
    settings: Settings,
    counts: Mapping[tuple[str, str], int],
    about: Mapping[str, Any],
    origins: Mapping[str, Mapping[str, Any]],
    with_backbones: bool,
    scores: Mapping[str, Any],
) -> str:
    """The card in Markdown.

    Args:
        counts: records by split and context. about: how the corpus was made. origins: provenance of each frozen model.
        scores: ``scores`` and ``signature`` of the run, or empty.
    """
    return "\n".join(
        [
            _HEAD,
            _model(record, settings, origins, with_backbones),
            _data(settings, counts, about),
            _scored(scores),
            _LIMITS,
        ]
    )


def _model(
    record: CheckpointRecord, settings: Settings, origins: Mapping[str, Mapping[str, Any]], with_backbones: bool
) -> str:
    model, search = record.model, settings.search
    calibrated = model.calibrate is not None and model.calibrate.gate_inputs != "none"
    lines = [
        "## Model\n",
        f"- Phase `{record.phase}`, {record.step:,} updates",
        f"- Refine: `{model.refine.variant}` over blocks {', '.join(map(str, settings.states.depths))}",
        f"- Commit: `{model.commit.route if model.commit else 'none'}`",
        f"- Calibrate: {f'gate of `{model.calibrate.gate_inputs}`' if calibrated else 'none'}",
        f"- Search: {search.num_beams} beams, {search.min_new_tokens} to {search.max_new_tokens} tokens, repetition "
        f"penalty {search.repetition_penalty}, length penalty {search.length_penalty}",
        "- Contexts: " + "; ".join(f"`{context}` {_SOURCES[context]}" for context in settings.contexts),
    ]
    where = "copied into `backbones/`" if with_backbones else "referred to in `backbones/`, with hashes"
    lines.append(f"- Frozen models, {where}:")
    lines += [f"  - {name}: {_origin(origin)}" for name, origin in origins.items()]
    return "\n".join(lines) + "\n"


def _origin(origin: Mapping[str, Any]) -> str:
    if is_standin(dict(origin)):
        made = f": {origin['model']}, trained on {origin['data']}" if {"model", "data"} <= origin.keys() else ""
        return f"a small stand-in made by the pipeline{made}"
    if origin.get("provider") == "hub":
        return f"{origin['id']}, revision {origin.get('commit', origin['revision'])}"
    return f"provider {origin.get('provider', 'unknown')}"


def _data(settings: Settings, counts: Mapping[tuple[str, str], int], about: Mapping[str, Any]) -> str:
    used = [context for context in CONTEXTS if any(context == known for _, known in counts)]
    rows = [
        f"| {split} | " + " | ".join(f"{counts.get((split, context), 0):,}" for context in used) + " |"
        for split in ("train", "val", "test")
    ]
    return (
        "\n".join(
            [
                "## Data\n",
                f"Layout `{about.get('format', 'unknown')}`, target `{settings.texts.target}`, cleaning "
                f"`{settings.texts.cleaner}`. Records:\n",
                "| split | " + " | ".join(used) + " |",
                "|---|" + "---:|" * len(used),
                *rows,
            ]
        )
        + "\n"
    )


def _scored(scores: Mapping[str, Any]) -> str:
    if not scores:
        return (
            "## Scores\n\nNone: the run that this model comes from was not scored, or its scores belong to other "
            "weights or to another search.\n"
        )
    note = standin_note(scores["signature"])
    parts = ["## Scores\n", score_table(scores["scores"]).markdown(), f"`{signature_line(scores['signature'])}`\n"]
    return "\n".join(parts + ([f"{note}\n"] if note else []))
