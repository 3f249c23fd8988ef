"""``emphasis.parquet``: for every train and val record the tokens that L_TLW counts, in the released form."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl
from transformers import PreTrainedTokenizerBase

from pacer.backbones.pointers import fingerprint, resolve
from pacer.backbones.tokenizer import read_tokenizer
from pacer.config.anchors import Emphasis
from pacer.core.errors import DataError
from pacer.core.io import hash_bytes, hash_json, read_jsonl, write_json
from pacer.core.progress import Ticker
from pacer.data.emphasis import sentence_ends, token_marks
from pacer.data.schemas import EMPHASIS_SCHEMA, read_records, write_table
from pacer.emphasis.audit import SPLITS, Audit, Marked

TABLE, AUDIT, CACHE = "emphasis.parquet", "audit.json", "attributions.jsonl"
#: Reports that are attributed, and written to the cache, together; records that are tokenised together.
_GROUP, _SLICE = 16, 4096


class _Record(NamedTuple):
    """The columns of a record that its marks depend on."""

    record_id: str
    split: str
    context: str
    report: str
    emphasis: list[float] | None
    emphasis_text: str | None


def build_emphasis(config: Emphasis, records: Path, backbones: Path, out: Path) -> None:
    """Write ``emphasis.parquet`` and ``audit.json`` into ``out``.

    With ``source: computed`` the scores of every report are appended to ``attributions.jsonl`` as they are computed.
    A report whose scores by this labeller and these settings are there is not attributed again.

    Args:
        records: ``records.parquet``. backbones: the directory of that stage; of its models the language model's
            tokenizer is read, and CheXbert with ``source: computed``.

    Raises:
        BackboneError: tokenizer or labeller are not usable. DataError: a line of ``attributions.jsonl`` is malformed.
    """
    table = read_records(records).select(_Record._fields)
    trained = table.filter(pl.col("split").is_in(SPLITS))
    out.mkdir(parents=True, exist_ok=True)
    (out / CACHE).touch()
    scores = {}
    if config.source == "computed":
        scores = _attributed(config, set(trained["report"]), backbones / "chexbert", out / CACHE)
    tokenizer, audit = read_tokenizer(resolve(backbones / "language")), Audit(config)
    parts = [_marks(part, config, tokenizer, scores, audit) for part in trained.iter_slices(_SLICE)]
    marks = pl.concat([pl.DataFrame(schema=EMPHASIS_SCHEMA), *parts])
    marked = table.select("record_id").join(marks, on="record_id", how="left", maintain_order="left")
    write_table(out / TABLE, marked, EMPHASIS_SCHEMA)
    write_json(out / AUDIT, audit.content())
    print(audit.summary(), flush=True)


def _attributed(config: Emphasis, reports: Iterable[str], chexbert: Path, cache: Path) -> dict[str, list[float]]:
    """The score of each sentence of each report; those that ``cache`` lacks are computed and appended to it."""
    # torch, transformers and captum, which no other source needs
    from pacer.emphasis.attribution import VERSION, Attributor, sentence_scores
    from pacer.metrics.chexbert.labeller import CheXbert

    # alike in length, so that batches have little padding; the longest first, so that memory is not exceeded late
    texts = sorted(reports, key=lambda text: (-len(text), text))
    method = hash_json([VERSION, fingerprint(chexbert), config.steps, config.smoothing])
    keys = {text: hash_bytes(f"{method} {text}".encode()) for text in texts}
    known = _read_cache(cache)
    new = [text for text in texts if keys[text] not in known]
    attributor = Attributor(CheXbert(chexbert), config.steps, config.batch_size)
    with cache.open("a") as file, Ticker("attributing reports", len(texts), len(texts) - len(new)) as ticker:
        for first in range(0, len(new), _GROUP):
            group = new[first : first + _GROUP]
            for text, read in zip(group, attributor(group), strict=True):
                known[keys[text]] = sentence_scores(text, read, config.smoothing)
                file.write(json.dumps({"key": keys[text], "scores": known[keys[text]]}) + "\n")
            file.flush()
            ticker.advance(len(group))
    return {text: known[key] for text, key in keys.items()}


def _read_cache(cache: Path) -> dict[str, list[float]]:
    """The scores of each report's sentences, by key. A last line that a kill cut off is removed from the file."""
    os.truncate(cache, cache.read_bytes().rfind(b"\n") + 1)
    try:
        return {row["key"]: row["scores"] for row in read_jsonl(cache)}
    except (KeyError, TypeError):
        raise DataError(f"{cache}: a line lacks key or scores; delete it, and its report is attributed again") from None


def _marks(
    records: pl.DataFrame,
    config: Emphasis,
    tokenizer: PreTrainedTokenizerBase,
    scores: Mapping[str, list[float]],
    audit: Audit,
) -> pl.DataFrame:
    """The marks of some records of train and val in :data:`EMPHASIS_SCHEMA`; ``audit`` counts them."""
    rows = [_Record(*row) for row in records.iter_rows()]
    tokens = tokenizer([row.report for row in rows], add_special_tokens=False, return_offsets_mapping=True)
    marks = []
    for row, ids, offsets in zip(rows, tokens["input_ids"], tokens["offset_mapping"], strict=True):
        ends, token_ends = sentence_ends(row.report), [end for _, end in offsets]
        released = _released(row, ids, tokenizer, audit)
        chosen = released if config.source == "corpus" else None
        if config.source == "computed":
            chosen = token_marks(ends, [score > config.threshold for score in scores[row.report]], token_ends)
        both = (None if values is None else Marked.of(values, ends, token_ends) for values in (chosen, released))
        audit.add(row.split, row.context, *both)
        marks.append(chosen)
    return pl.DataFrame([records["record_id"], pl.Series("emphasis", marks)], schema=EMPHASIS_SCHEMA)


def _released(row: _Record, ids: Sequence[int], tokenizer: PreTrainedTokenizerBase, audit: Audit) -> list[float] | None:
    """The record's released marks of BOS and the report, 0 or 1; None where there are none, or where the report's
    tokens ``ids`` do not begin those of the longer text that the marks follow, so that they cannot be placed."""
    if row.emphasis is None:
        return None
    counts, marks = audit.counts[row.split, row.context], row.emphasis
    counts["not_binary"] += any(value not in (0, 1) for value in marks)
    if row.emphasis_text is not None:
        longer = tokenizer(row.emphasis_text, add_special_tokens=False)["input_ids"]
        fits = longer[: len(ids)] == ids
        counts["shortened" if fits else "dropped"] += 1
        if not fits:
            return None
        marks = marks[: len(ids) + 1]  # EOS would take the entry of the next sentence
    return [float(value > 0) for value in marks]
