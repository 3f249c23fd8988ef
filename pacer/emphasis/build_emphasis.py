"""``emphasis.parquet``: for every train and val record the tokens that L_TLW counts, in the released form."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
from transformers import PreTrainedTokenizerBase

from pacer.backbones.pointers import fingerprint, resolve
from pacer.backbones.tokenizer import read_tokenizer
from pacer.config.anchors import Emphasis
from pacer.core.errors import DataError
from pacer.core.io import hash_bytes, hash_json, publish, scratch_directory, write_json, write_jsonl
from pacer.core.journal import Journal, read_journal
from pacer.core.progress import Ticker
from pacer.data.columns import TableWriter, batches
from pacer.data.emphasis import sentence_ends, token_marks
from pacer.data.schemas import EMPHASIS_SCHEMA
from pacer.emphasis.audit import SPLITS, Audit

TABLE, AUDIT, CACHE = "emphasis.parquet", "audit.json", "attributions.jsonl"
#: Reports that are attributed, and saved, together.
_GROUP = 16

_COLUMNS = ("record_id", "split", "context", "report", "emphasis", "emphasis_text")
_TRAINED = pl.col("split").is_in(SPLITS)


def build_emphasis(config: Emphasis, records: Path, backbones: Path, out: Path) -> None:
    """Write ``emphasis.parquet`` and ``audit.json`` into ``out``, and ``attributions.jsonl``: the scores of every
    report that was ever attributed, by labeller, settings and text. They are used again, as are those of a stopped run.

    Args:
        records: ``records.parquet``. backbones: the directory of that stage; of its models the language model's
            tokenizer is read, and CheXbert with ``source: computed``.

    Raises:
        BackboneError: tokenizer or labeller are not usable. DataError: a line of kept scores is malformed.
    """
    with scratch_directory(out, "attributing") as scratch:
        audit, made, journal = Audit(config), scratch / "emphasis", scratch / CACHE
        kept = _kept(out / CACHE) | _kept(journal)
        scores = _attributed(config, records, backbones, kept, journal) if config.source == "computed" else {}
        marker = _Marker(config, read_tokenizer(resolve(backbones / "language")), scores, audit)
        made.mkdir(exist_ok=True)
        with TableWriter(made / TABLE, EMPHASIS_SCHEMA) as writer:
            for frame in batches(records, _COLUMNS):
                marks = iter(marker(frame.filter(_TRAINED).to_dicts()))
                for record_id, split in frame.select("record_id", "split").iter_rows():
                    writer.add({"record_id": record_id, "emphasis": next(marks) if split in SPLITS else None})
        write_json(made / AUDIT, audit.found())
        write_jsonl(made / CACHE, [{"key": key, "scores": own} for key, own in sorted(kept.items())])
        publish(made, out)
    print(audit.summary(), flush=True)


def _kept(path: Path) -> dict[str, list[float]]:
    """The scores of each report's sentences in a journal, by key."""
    kept = {}
    for number, row in read_journal(path):
        try:
            kept[row["key"]] = row["scores"]
        except (KeyError, TypeError):
            raise DataError(
                f"{path}, line {number} holds no scores (expected key and scores); delete the line, and its "
                "report is attributed again"
            ) from None
    return kept


def _attributed(
    config: Emphasis, records: Path, backbones: Path, kept: dict[str, list[float]], journal: Path
) -> dict[str, list[float]]:
    """The score of each sentence of every distinct train and val report; what ``kept`` lacks is added to it."""
    # torch, transformers and captum, which no other source needs
    from pacer.emphasis.attribution import VERSION, Attributor, sentence_scores
    from pacer.metrics.chexbert.labeller import CheXbert

    own = [frame.filter(_TRAINED)["report"].unique() for frame in batches(records, ["split", "report"])]
    # alike in length, so that batches have little padding; the longest first, so that memory is not exceeded late
    texts = sorted(set(chain.from_iterable(own)), key=lambda text: (-len(text), text))
    made_by = hash_json([VERSION, fingerprint(backbones / "chexbert"), config.steps, config.smoothing])
    keys = {text: hash_bytes(f"{made_by} {text}".encode()) for text in texts}
    new = [text for text in texts if keys[text] not in kept]
    attributor = Attributor(CheXbert(backbones / "chexbert"), config.steps, config.batch_size)
    with Journal(journal) as file, Ticker("attributing reports", len(texts), len(texts) - len(new)) as ticker:
        for first in range(0, len(new), _GROUP):
            group = new[first : first + _GROUP]
            for text, read in zip(group, attributor(group), strict=True):
                kept[keys[text]] = sentence_scores(text, read, config.smoothing)
                file.append({"key": keys[text], "scores": kept[keys[text]]})
            ticker.advance(len(group))
    return {text: kept[key] for text, key in keys.items()}


class _Marker:
    """Marks records.

    Args:
        tokenizer: of the language model. scores: of the sentences of each report, for ``source: computed``. audit:
            counts what is marked.
    """

    def __init__(
        self, config: Emphasis, tokenizer: PreTrainedTokenizerBase, scores: dict[str, list[float]], audit: Audit
    ):
        self.config, self.tokenizer, self.scores, self.audit = config, tokenizer, scores, audit

    def __call__(self, rows: list[dict[str, Any]]) -> list[list[float] | None]:
        """The marks of records of train and val."""
        if not rows:
            return []
        tokens = self.tokenizer([row["report"] for row in rows], add_special_tokens=False, return_offsets_mapping=True)
        marks = []
        for row, ids, offsets in zip(rows, tokens["input_ids"], tokens["offset_mapping"], strict=True):
            ends, token_ends = sentence_ends(row["report"]), [end for _, end in offsets]
            released = self._released(row, ids)
            own = released if self.config.source == "corpus" else None
            if self.config.source == "computed":
                own = token_marks(ends, [s > self.config.threshold for s in self.scores[row["report"]]], token_ends)
            self.audit.add(row["split"], row["context"], ends, token_ends, own, released)
            marks.append(own)
        return marks

    def _released(self, row: dict[str, Any], ids: list[int]) -> list[float] | None:
        """The record's own marks of BOS and the report, 0 or 1; None where there are none, or where the report's
        tokens do not begin those of the longer text that they follow, so that they cannot be placed."""
        if row["emphasis"] is None:
            return None
        counts, marks = self.audit.counts(row["split"], row["context"]), row["emphasis"]
        counts["not_binary"] += any(value not in (0, 1) for value in marks)
        if row["emphasis_text"] is not None:
            longer = self.tokenizer(row["emphasis_text"], add_special_tokens=False)["input_ids"]
            fits = longer[: len(ids)] == ids
            counts["shortened" if fits else "dropped"] += 1
            if not fits:
                return None
            marks = marks[: len(ids) + 1]  # EOS would take the entry of the next sentence
        return [float(value > 0) for value in marks]
