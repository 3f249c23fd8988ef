"""The corpus stage: annotation files and images become checked tables and an audit.

Two passes over the records, both in bounded memory: the first reads and cleans every row into a draft
(:mod:`pacer.corpus.draft`); then ids and images are checked, and the second keeps what is sound.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from pacer.core.errors import DataError
from pacer.core.io import hash_json, publish, scratch_directory, write_json
from pacer.corpus import audit
from pacer.corpus.assemble import Assembler
from pacer.corpus.draft import Sieve, keep_sound, write_draft
from pacer.corpus.images import copies_across_splits, inspect_images, keep_used_images, look_at_images
from pacer.corpus.ledger import Ledger, most_frequent
from pacer.corpus.original import OriginalFindings, read_original_findings
from pacer.corpus.readers import FORMATS
from pacer.corpus.rows import Notes
from pacer.corpus.source.files import Source, read_source
from pacer.params import Corpus
from pacer.radiographs.opening import MISSING
from pacer.records.columns import repeated_rows
from pacer.records.mimic import bare_id
from pacer.records.schemas import read_truth

#: What the folder of a corpus consists of.
OUTPUTS = ("records.parquet", "images.parquet", "priors.parquet", "problems.csv", "audit.json", "truth.parquet")


def build_corpus(
    config: Corpus,
    source_dir: Path,
    out: Path,
    problems: Path | None = None,
    inspect: Callable[..., pl.DataFrame] = inspect_images,
) -> dict[str, Any]:
    """Write the files of :data:`OUTPUTS` into ``out`` (``truth.parquet`` for a generated corpus only).

    Args:
        problems: where the table of problems goes when the corpus is refused (default: ``<out>.problems.csv``).
        inspect: looks at the images (measurements of the reading alone put another in its place).

    Returns:
        The audit.

    Raises:
        DataError: a file is missing or malformed, more rows are unusable than ``config.max_bad_rows`` allows, or
            nothing is left.
    """
    source = read_source(source_dir)
    form = FORMATS[config.format]
    notes = Notes()
    problems = Path(f"{out}.problems.csv") if problems is None else problems
    problems.unlink(missing_ok=True)
    # what survives a stopped run is the ledger of decoded images; it belongs to these images alone
    with scratch_directory(out, hash_json([str(source.images), config.check_images])) as scratch:
        whole = scratch / "whole"
        shutil.rmtree(whole, ignore_errors=True)
        whole.mkdir()
        draft, headers, records = (whole / f"{name}.parquet" for name in ("draft", "headers", "records"))
        with Ledger(whole / "problems.csv") as ledger:
            originals = _originals(source)
            assembler = Assembler(config, form, {} if originals is None else originals.findings)
            write_draft(form.read(source, config, notes), assembler, ledger, draft)
            if notes.read.total() != ledger.rows.total():
                raise RuntimeError(
                    f"{notes.read.total()} rows were read, but {ledger.rows.total()} are accounted for: "
                    "a reader lost rows"
                )
            for name, count in assembler.absent.items():
                notes.count("absent_words", "texts", name, count)
            unusable = look_at_images(draft, source.images, config.check_images, scratch, headers, inspect, notes)
            repeated = repeated_rows(draft, "record_id")
            sieve = Sieve(repeated, unusable, source.images, form.images)
            wording = keep_sound(draft, sieve, ledger, whole, _settings(config, source))
            images = keep_used_images(headers, records, whole / "images.parquet")
        draft.unlink()
        headers.unlink()
        if ledger.bad.total() > config.max_bad_rows or not images:
            problems.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(ledger.path, problems)
            shutil.rmtree(whole)
            earlier = f"\n  {out} is unchanged: it holds an earlier corpus" if out.exists() else ""
            raise DataError(ledger.message(config.max_bad_rows, problems) + earlier)
        if source.truth is not None:
            _matching_truth(source.truth, records).write_parquet(whole / "truth.parquet")
        missing = sum(problem == MISSING for problem in unusable.values())
        result = _settings(config, source) | _rows(notes, ledger) | audit.describe_records(records, config.contexts)
        result["prior_wording"] = wording
        result["targets_with_decimals"] = assembler.with_decimals
        result["priors"] = audit.prior_summary(whole / "priors.parquet") | {
            "empty": assembler.empty_priors,
            "empty_kept": assembler.kept_priors,
        }
        result["images"] = audit.image_summary(whole / "images.parquet", missing, len(unusable) - missing)
        copies = copies_across_splits(whole / "images.parquet", records)
        result["image_copies"] = {
            pair: {"count": len(found), "examples": found[: audit.LISTED]} for pair, found in copies.items()
        }
        result["original_references"] = _original_summary(records, originals)
        write_json(whole / "audit.json", result)
        publish(whole, out)
    return result


def _originals(source: Source) -> OriginalFindings | None:
    if "original_references" not in source.files:
        return None
    return read_original_findings(source.files["original_references"])


def _settings(config: Corpus, source: Source) -> dict[str, Any]:
    return {
        "generated": source.truth is not None,
        "format": config.format,
        "target": config.target,
        "cleaner": config.cleaner,
        "unseen_comparisons": config.unseen_comparisons,
        "limit": config.limit,
        "deidentified": config.openi.deidentified if config.format == "openi" else None,
    }


def _rows(notes: Notes, ledger: Ledger) -> dict[str, Any]:
    """What became of the rows of the input, and what the reader met besides."""
    return {
        "rows": {"read": dict(notes.read)} | ledger.rows,
        "excluded": {"count": ledger.bad.total(), "reasons": most_frequent(ledger.bad)},
        "left_out": {"count": ledger.left_out.total(), "reasons": most_frequent(ledger.left_out)},
        "notes": {topic: notes.found(topic) for topic in sorted(notes.topics)},
    }


def _original_summary(records: Path, originals: OriginalFindings | None) -> dict[str, Any]:
    """How many records have an untouched findings section beside their cleaned target."""
    counts = pl.scan_parquet(records).select(pl.col("findings_original").count().alias("found"), pl.len())
    found, total = counts.collect(engine="streaming").row(0)
    summary = {"supplied": originals is not None, "records": found, "without": total - found}
    if originals is not None:
        summary |= {"conflicting": originals.conflicting, "without_findings": originals.without_findings}
    return summary


def _matching_truth(path: Path, records: Path) -> pl.DataFrame:
    """The latent states of the studies in use, with ids written as the records write them."""
    truth = read_truth(path).with_columns(
        pl.col("study_id").map_elements(bare_id, return_dtype=pl.String),
        pl.col("subject_id").map_elements(bare_id, return_dtype=pl.String),
    )
    wanted = pl.read_parquet(records, columns=["study_id"]).unique()
    unmatched = wanted.join(truth, on="study_id", how="anti").sort("study_id")
    if unmatched.height:
        raise DataError(f"{path} has no row for {unmatched.height} studies, such as {unmatched['study_id'][0]}")
    return truth.join(wanted, on="study_id", how="semi")
