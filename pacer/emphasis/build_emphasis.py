"""Build ``emphasis.parquet``, the tokens of every train and val record that L_TLW counts, in the
released form, and the audit of these marks."""

import logging
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from transformers import PreTrainedTokenizerBase

from pacer.backbones.pointers import fingerprint, resolve
from pacer.backbones.tokenizer import read_tokenizer
from pacer.config.corpus import Emphasis
from pacer.core.io import Journal, hash_bytes, hash_json, read_journal, write_json
from pacer.core.progress import Ticker
from pacer.core.schemas import EMPHASIS_SCHEMA, SPLITS, read_records, write_table
from pacer.display.numbers import Check, counted, number, share
from pacer.text.cleaning.cleaners import sentence_ends, token_marks

_log = logging.getLogger(__name__)

CACHE = "attributions.jsonl"
#: The splits that training reads.
_TRAINED = SPLITS[:2]
#: Reports attributed and cached together.
_GROUP = 16
#: Records tokenised together.
_SLICE = 4096


class Audit:
    """Counts of marks, and of the agreement between computed and released marks if both exist."""

    def __init__(self, config: Emphasis):
        self.config = config
        #: By split and context, the number of records, sentences and so on.
        self.counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        #: By split, the number of sentences with each pair (computed, released) of marks.
        self.agreement: defaultdict[str, Counter[tuple[bool, bool]]] = defaultdict(Counter)

    def add(
        self,
        row: dict[str, str],
        chosen: Sequence[float] | None,
        released: Sequence[float] | None,
        ends: Sequence[int],
        token_ends: Sequence[int],
    ) -> None:
        """Count a record: the ``chosen`` marks, which training reads, and the ``released`` ones.
        Its sentences end at ``ends``, its tokens at ``token_ends``
        (:mod:`pacer.text.cleaning.cleaners`)."""
        counts = self.counts[row["split"], row["context"]]
        counts["records"] += 1
        if chosen is None:
            return
        marked = _marked_sentences(chosen, ends, token_ends)
        counts.update(
            records_with_marks=any(marked), sentences=len(marked), marked_sentences=sum(marked)
        )
        if self.config.source == "computed" and released is not None:
            self.agreement[row["split"]].update(
                zip(marked, _marked_sentences(released, ends, token_ends))
            )

    def content(self) -> dict[str, object]:
        """Return the content of ``audit.json``: the counts of each context by split, and the lines
        of the audit."""
        by_split: dict[str, dict[str, Counter[str]]] = {split: {} for split in _TRAINED}
        for (split, context), counts in sorted(self.counts.items()):
            by_split[split][context] = counts
        return by_split | {"checks": [check._asdict() for check in self._checks()]}

    def _checks(self) -> Iterator[Check]:
        totals: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for (split, _), counts in self.counts.items():
            totals[split].update(counts)
        train = totals["train"]
        both = totals["train"] + totals["val"]
        doubt = self.doubt()
        source = self.config.source
        marked = doubt or f"{share(train['marked_sentences'], train['sentences'])} sentences"
        yield Check(f"Emphasis in training ({source})", marked, not doubt or source == "none")
        changed = counted(
            {name.replace("_", " "): both[name] for name in ("shortened", "dropped", "not_binary")}
        )
        if changed:
            yield Check("Records whose released emphasis was changed", changed, not both["dropped"])
        for split, pairs in self.agreement.items():
            agreeing = pairs[True, True]
            computed = pairs[True, False]
            released = pairs[False, True]
            precision = agreeing / max(agreeing + computed, 1)
            recall = agreeing / max(agreeing + released, 1)
            name = "Precision and recall of computed against released emphasis, by sentence"
            yield Check(f"{name} ({split})", f"{number(precision)} and {number(recall)}")

    def doubt(self) -> str | None:
        """Return the reason to doubt the marks, or None."""
        for (split, _), counts in self.counts.items():
            if split == "train" and counts["marked_sentences"]:
                return None
        return (
            f"emphasis.source: {self.config.source} emphasises no tokens of any training "
            "record, so L_TLW is 0"
        )


def build_emphasis(config: Emphasis, records: Path, backbones: Path, out: Path) -> None:
    """Write ``emphasis.parquet`` and ``audit.json`` into ``out``.

    With ``source: computed`` the scores of every report are appended to ``attributions.jsonl`` as
    they are computed. A report is not attributed again if the file has its scores for this labeller
    and these settings.

    Args:
        records: ``records.parquet``.
        backbones: the output directory of that stage; this reads the language model's tokenizer
            and, with ``source: computed``, CheXbert.

    Raises:
        BackboneError: tokenizer or labeller is not usable.
        DataError: a line of ``attributions.jsonl`` is malformed.
    """
    table = read_records(records).select(
        "record_id", "split", "context", "report", "emphasis", "emphasis_text"
    )
    trained = table.filter(pl.col("split").is_in(_TRAINED))
    out.mkdir(parents=True, exist_ok=True)
    (out / CACHE).touch()
    scores: dict[str, list[float]] = {}
    if config.source == "computed":
        scores = _attributed(
            config, trained["report"].unique(), backbones / "chexbert", out / CACHE
        )
    tokenizer = read_tokenizer(resolve(backbones / "language"))
    audit = Audit(config)
    marks = []
    for part in trained.iter_slices(_SLICE):
        tokens = tokenizer(
            part["report"].to_list(), add_special_tokens=False, return_offsets_mapping=True
        )
        for row, ids, offsets in zip(
            part.iter_rows(named=True), tokens["input_ids"], tokens["offset_mapping"]
        ):
            ends = sentence_ends(row["report"])
            token_ends = [end for _, end in offsets]
            released = _released(row, ids, tokenizer, audit)
            chosen = released if config.source == "corpus" else None
            if config.source == "computed":
                chosen = token_marks(
                    ends, [score > config.threshold for score in scores[row["report"]]], token_ends
                )
            audit.add(row, chosen, released, ends, token_ends)
            marks.append(chosen)
    emphasis = pl.DataFrame(
        {"record_id": trained["record_id"], "emphasis": marks}, schema=EMPHASIS_SCHEMA
    )
    marked = table.select("record_id").join(
        emphasis, on="record_id", how="left", maintain_order="left"
    )
    write_table(out / "emphasis.parquet", marked, EMPHASIS_SCHEMA)
    write_json(out / "audit.json", audit.content())
    doubt = audit.doubt()
    if doubt:
        _log.warning(doubt)
        return
    train = [counts for (split, _), counts in audit.counts.items() if split == "train"]
    marked_records = sum(counts["records_with_marks"] for counts in train)
    all_records = sum(counts["records"] for counts in train)
    _log.info(f"{marked_records:,} of {all_records:,} training records have emphasised tokens")


def _attributed(
    config: Emphasis, reports: Iterable[str], chexbert: Path, cache: Path
) -> dict[str, list[float]]:
    """Return the score of each sentence of each report; missing ones are computed and appended to
    ``cache``."""
    # these import torch, transformers and captum, which no other source needs
    from pacer.backbones.chexbert import CheXbert
    from pacer.emphasis.attribution import (
        SMOOTHING,
        STEPS,
        VERSION,
        Attributor,
        sentence_scores,
    )

    # sorted by length to reduce padding; the longest first, so that a lack of memory shows at once
    texts = sorted(reports, key=lambda text: (-len(text), text))
    method = hash_json([VERSION, fingerprint(chexbert), STEPS, SMOOTHING])
    keys = {text: hash_bytes(f"{method} {text}".encode()) for text in texts}
    known = {row["key"]: row["scores"] for _, row in read_journal(cache)}
    new = [text for text in texts if keys[text] not in known]
    attributor = Attributor(CheXbert(chexbert), config.batch_size, STEPS)
    with (
        Journal(cache) as journal,
        Ticker("attributing reports", len(texts), len(texts) - len(new)) as ticker,
    ):
        for first in range(0, len(new), _GROUP):
            group = new[first : first + _GROUP]
            for text, read in zip(group, attributor(group), strict=True):
                known[keys[text]] = sentence_scores(text, read)
                journal.append({"key": keys[text], "scores": known[keys[text]]})
            ticker.advance(len(group))
    return {text: known[key] for text, key in keys.items()}


def _released(
    row: dict[str, Any], ids: Sequence[int], tokenizer: PreTrainedTokenizerBase, audit: Audit
) -> list[float] | None:
    """Return the record's released marks of BOS and the report, 0 or 1; None if there are none or
    they do not fit. They belong to a longer text, whose tokens must begin with the report's tokens
    ``ids``."""
    if row["emphasis"] is None:
        return None
    counts = audit.counts[row["split"], row["context"]]
    marks = row["emphasis"]
    counts["not_binary"] += int(any(value not in (0, 1) for value in marks))
    if row["emphasis_text"] is not None:
        longer = tokenizer(row["emphasis_text"], add_special_tokens=False)["input_ids"]
        fits = longer[: len(ids)] == ids
        counts["shortened" if fits else "dropped"] += 1
        if not fits:
            return None
        marks = marks[: len(ids) + 1]  # else EOS would get the mark of the next sentence
    return [float(value > 0) for value in marks]


def _marked_sentences(
    marks: Sequence[float], ends: Sequence[int], token_ends: Sequence[int]
) -> list[bool]:
    """Return, for each sentence, whether any of its tokens has a positive mark. A token belongs to
    the sentence in which it ends. Sentences whose tokens lie beyond the last mark are left out."""
    sentences: defaultdict[int, bool] = defaultdict(bool)
    for end, value in zip(token_ends, marks[1:]):
        sentences[bisect_left(ends, end)] |= value > 0
    return list(sentences.values())
