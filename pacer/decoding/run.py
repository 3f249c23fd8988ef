"""Decoding of a set of records into prediction files; resumable per record, split over
processes."""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import torch
from accelerate import PartialState
from safetensors.torch import save

from pacer.backbones.pointers import is_standin, provenance
from pacer.config import Decode
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import CheckpointError, DataError
from pacer.core.io import (
    Journal,
    hash_json,
    publish,
    read_journal,
    scratch_directory,
    write_json,
    write_jsonl,
)
from pacer.core.processes import process_state
from pacer.core.progress import Ticker
from pacer.core.schemas import SPLITS, of_split
from pacer.decoding.controls import CONTROLS
from pacer.decoding.generate import Generated, Generator
from pacer.decoding.lists.maps import read_predictor
from pacer.features.encoder import open_features
from pacer.features.store import content_hash
from pacer.model.assemble import load_model, load_tokenizer
from pacer.model.batch import RecordRow
from pacer.model.checkpoint import RECORD, CheckpointRecord, read_record, weights_hash
from pacer.model.pacer import Pacer

_log = logging.getLogger(__name__)

#: The name of the run over the unchanged records; the other runs are those of the controls.
MAIN = "main"
#: The contents of a folder of predictions.
OUTPUTS = [f"{context}.jsonl" for context in CONTEXTS]
OUTPUTS += ["controls", "routing.safetensors", "manifest.json"]
#: Settings that do not change the report of a record, so a stopped run may continue with other
#: values. The split and the limit select the records, which are part of the fingerprint themselves.
CHANGEABLE = frozenset({"split", "limit", "batch_size", "examples", "controls"})
#: Threads that read features while the device generates.
_READERS = 2


def trained_generator(
    checkpoint: Path,
    backbones: Path,
    features: Path,
    config: Decode,
    device: torch.device,
    *,
    findings: Path | None = None,
    load: Callable[..., tuple[Pacer, CheckpointRecord]] = load_model,
    make_generator: Callable[..., Generator] = Generator,
) -> tuple[Generator, CheckpointRecord]:
    """Return the generator of a checkpoint, and the checkpoint's record. Raises a CheckpointError
    if it is of the warm-up, or as :func:`~pacer.model.assemble.load_model` does.

    Args:
        findings: output of the stage ``lists``; None: no finding is predicted.
        load: called like :func:`~pacer.model.assemble.load_model`.
        make_generator: called like :class:`Generator`.
    """
    if read_record(checkpoint).phase == "warmup":
        raise CheckpointError(
            f"{checkpoint} is a warm-up checkpoint, which cannot write reports; use one from "
            "`parent` or `calibrate`"
        )
    model, record = load(checkpoint, backbones)
    store = open_features(features, backbones, device)
    predictor = None if findings is None else read_predictor(findings, checkpoint)
    return make_generator(
        model, load_tokenizer(backbones), store, record.model, config, device, predictor
    ), record


#: Called like :func:`trained_generator`.
OpenGenerator = Callable[
    [Path, Path, Path, Decode, torch.device], tuple[Generator, CheckpointRecord]
]


def decode_records(
    checkpoint: Path,
    backbones: Path,
    records: pl.DataFrame,
    features: Path,
    config: Decode,
    out: Path,
    open_generator: OpenGenerator = trained_generator,
    about: Mapping[str, object] | None = None,
) -> None:
    """Decode ``records`` of the configured split, and its control inputs, into ``out``.

    Writes ``{context}.jsonl``, ``controls/{control}/{context}.jsonl``, ``routing.safetensors``
    and ``manifest.json``. A stopped run continues with the records that have no prediction yet,
    also if settings in :data:`CHANGEABLE` differ. Raises a DataError if the split has no record, a
    record's prefix is not finite, or a stopped run left a damaged line.

    Args:
        about: additional entries of the manifest.
    """
    state = process_state()
    runs = plan_runs(records, config)
    cases = runs[MAIN]
    examples, shown = _examples(cases, config.examples)
    generator, record = open_generator(
        checkpoint, backbones, features, config, torch.device(state.device or "cpu")
    )
    weights = weights_hash(checkpoint)
    fingerprint = hash_json(
        [
            (checkpoint / RECORD).read_text(),
            weights,
            config.model_dump(exclude=set(CHANGEABLE)),
            cases.to_dicts(),
            content_hash(features),
            None if generator.predictor is None else generator.predictor.hash,
        ]
    )
    main = state.is_main_process
    with scratch_directory(out, fingerprint, main=main) as directory:
        lines = directory / "lines"
        final = directory / "out"
        if main:
            lines.mkdir(exist_ok=True)
        state.wait_for_everyone()
        finished = _decode(generator, runs, lines, state)
        if main:
            empty = sum(not line["report"] for (run, _), line in finished.items() if run == MAIN)
            if empty:
                why = " (no sentence agreed with the commitment)"
                _log.info(
                    f"decode: empty reports{why if config.commitment == 'read' else ''}: {empty:,}"
                )
            _collect(finished, runs, final)
            routing = {
                f"{row['record_id']}/{view}": depth_weights.float().contiguous()
                for row in shown
                for view, depth_weights in generator.encode(row)[1].depth_weights.items()
            }
            # safetensors' own writer creates files that only their owner can read
            (final / "routing.safetensors").write_bytes(save(routing))
            manifest = _manifest(generator, record, backbones)
            manifest["weights"] = weights
            manifest["examples"] = examples
            manifest["records"] = {name: len(part) for name, part in runs.items()}
            manifest |= about or {}
            write_json(final / "manifest.json", manifest)
            publish(final, out)
        state.wait_for_everyone()


def _manifest(generator: Generator, record: CheckpointRecord, backbones: Path) -> dict[str, Any]:
    """Return the manifest's entries on the model and the search."""
    manifest = {
        "split": generator.decode.split,
        "checkpoint": record.phase,
        "step": record.step,
        "commit": generator.commit,
        "depths": record.model.features.depths,
        "stand_ins": [
            n for n in ("vision", "language", "text") if is_standin(provenance(backbones / n))
        ],
        "settings": generator.decode.model_dump(),
        "parent": record.parent.model_dump() if record.parent else None,
        "frozen": record.frozen,
        "trained_with": record.versions,
    }
    if record.baseline is not None:
        manifest["baseline"] = record.baseline
    return manifest


def plan_runs(records: pl.DataFrame, config: Decode) -> dict[str, pl.DataFrame]:
    """Return the records to decode: those of the split as :data:`MAIN`, and those of each control
    that has any. Raises a DataError if the split has no record, or a control cannot be made from
    its records."""
    cases = of_split(records, config.split)
    if config.limit is not None:
        cases = cases.group_by("context", maintain_order=True).head(config.limit)
    if cases.is_empty():
        others = ", ".join(name for name in SPLITS if name in set(records["split"])) or "none"
        raise DataError(
            f"split {config.split} has no records; choose another decode.split (available: "
            f"{others})"
        )
    runs = {MAIN: cases} | {f"controls/{name}": CONTROLS[name](cases) for name in config.controls}
    return {name: part for name, part in runs.items() if len(part)}


def with_trained_views(records: pl.DataFrame, views: Collection[str]) -> pl.DataFrame:
    """Return the records; views that a model was never trained with become unknown, with a warning.
    ``views``: those of its training; empty if they are not known."""
    untrained = set(records["view"]) - {"other", *views} if views else set()
    for view in sorted(untrained):
        number = records.filter(view=view).height
        _log.warning(
            f"decode: {number:,} records have view {view}, on which the model was not trained; "
            "their view is treated as unknown"
        )
    return records.with_columns(pl.col("view").replace(dict.fromkeys(untrained, "other")))


def _decode(
    generator: Generator, runs: dict[str, pl.DataFrame], lines: Path, state: PartialState
) -> dict[Any, dict]:
    """Decode this process's share of the records without a prediction, and append their lines to
    its file; return the lines of all processes."""
    finished = _finished(lines)
    state.wait_for_everyone()  # no process appends before all have read
    planned = [(name, row) for name, part in runs.items() for row in part.iter_rows(named=True)]
    todo = [(name, row) for name, row in planned if (name, row["record_id"]) not in finished]
    # similar lengths are decoded together, the longest first, because they need the most memory
    todo.sort(key=lambda item: -sum(map(len, generator.prompt_ids(item[1]))))
    mine = todo[state.process_index :: state.num_processes]
    # the bar is of the main process's share of the records; so is what an earlier run has done
    done = (len(planned) - len(todo)) // state.num_processes
    with (
        Ticker("decode", done + len(mine), done=done, shown=state.is_main_process) as ticker,
        Journal(lines / f"{state.process_index}.jsonl") as journal,
    ):
        for place, result in generator.stream([row for _, row in mine], _READERS):
            name, row = mine[place]
            journal.append({"run": name} | _line(row["record_id"], result, generator))
            ticker.advance()
    state.wait_for_everyone()
    return _finished(lines)


def _line(record_id: str, result: Generated, generator: Generator) -> dict[str, object]:
    report, anchor, fallback = generator.extract(result.text)
    return {
        "record_id": record_id,
        "generated": result.text,
        "anchor": None if anchor is None else anchor.as_dict(),
        "report": report,
        "fallback": fallback,
        "gate": result.gate,
        "tokens": result.tokens,
        "findings": None if result.findings is None else result.findings.as_dict(),
    }


def _finished(folder: Path) -> dict[tuple[str, str], dict]:
    """Read the predictions of all processes so far. Raises a DataError if a line is damaged; the
    message names file and line."""
    lines = [line for path in sorted(folder.glob("*.jsonl")) for _, line in read_journal(path)]
    return {(line.pop("run"), line["record_id"]): line for line in lines}


def _collect(
    finished: dict[tuple[str, str], dict], runs: dict[str, pl.DataFrame], out: Path
) -> None:
    """Write prediction files in the records' order."""
    context_of = dict(runs[MAIN].select("record_id", "context").iter_rows())
    for name, part in runs.items():
        folder = out if name == MAIN else out / name
        # a twin goes to the file of the context of the record that it is made from
        by_context = defaultdict(list)
        for record_id in part["record_id"]:
            by_context[context_of[record_id]].append(finished[name, record_id])
        for context, lines in by_context.items():
            write_jsonl(folder / f"{context}.jsonl", lines)


def _examples(cases: pl.DataFrame, count: int) -> tuple[list[str], list[RecordRow]]:
    """Return the examinations to show in the report (those with the most contexts, then by id), and
    for each a record whose depth weights are stored. An image has the same weights in every
    context, so the record with the most images is enough.
    """
    per_study = cases.group_by("study_id").agg(pl.col("context").n_unique().alias("contexts"))
    ranked = per_study.sort(["contexts", "study_id"], descending=[True, False])
    studies = ranked["study_id"].head(count).to_list()
    # the sort is stable: among records with equally many images, the first is kept
    most_images = cases.filter(pl.col("study_id").is_in(studies)).sort(
        pl.col("lateral").is_null(), maintain_order=True
    )
    return studies, most_images.unique("study_id", keep="first", maintain_order=True).to_dicts()
