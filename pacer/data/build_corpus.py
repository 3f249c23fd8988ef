"""The corpus stage: annotation files and images become checked tables and an audit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from pacer.config import Corpus
from pacer.core.errors import DataError
from pacer.core.io import atomic_directory, write_json
from pacer.data import audit
from pacer.data.account import Account, most_frequent
from pacer.data.formats import FORMATS
from pacer.data.images import copies_across_splits, images_of, inspect_images
from pacer.data.radiographs import MISSING
from pacer.data.readers.original import OriginalFindings, read_original_findings
from pacer.data.records import draft_records, keep_sound
from pacer.data.schemas import IMAGE_SCHEMA, PRIOR_SCHEMA, RECORD_SCHEMA, TRUTH_SCHEMA, read_truth, write_table
from pacer.data.source import Source, read_source
from pacer.data.studies import mapped
from pacer.data.values import BAD, LEFT_OUT, bare_id

#: What the folder of a corpus consists of.
OUTPUTS = ("records.parquet", "images.parquet", "priors.parquet", "problems.csv", "audit.json", "truth.parquet")


def build_corpus(
    config: Corpus,
    source_dir: Path,
    out: Path,
    problems: Path | None = None,
    inspect: Callable[[pl.Series, Path], pl.DataFrame] = inspect_images,
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
    source, form, account = read_source(source_dir), FORMATS[config.format], Account()
    problems = Path(f"{out}.problems.csv") if problems is None else problems
    problems.unlink(missing_ok=True)
    with atomic_directory(out) as whole:
        originals = _originals(source)
        studies = form.read(source, config, account)
        draft = draft_records(studies, config, form, {} if originals is None else originals.findings, account)
        headers = inspect(images_of(draft.records), source.images)
        for part in headers["part"].drop_nulls():
            account.count("other_parts", "images", part)
        unusable = headers.drop_nulls("problem").select("image_id", "problem")
        sound, wording = keep_sound(draft.records, unusable, source.images, form.images, account)
        rows = _rows(account, sound, draft.beyond_limit)
        if account.reasons(BAD).total() > config.max_bad_rows or sound.is_empty():
            account.write(problems)
            earlier = f"\n  {out} is unchanged: it holds an earlier corpus" if out.exists() else ""
            raise DataError(account.message(config.max_bad_rows, problems) + earlier)
        images = headers.filter(pl.col("image_id").is_in(images_of(sound).implode())).select(list(IMAGE_SCHEMA))
        with_prior = sound.drop_nulls(["prior_report", "prior_study_id"])
        priors = with_prior.unique("study_id", keep="first", maintain_order=True).select(list(PRIOR_SCHEMA))
        settings = {"generated": source.truth is not None} | config.model_dump(include=_SETTINGS)
        write_table(whole / "records.parquet", sound, RECORD_SCHEMA, settings)
        write_table(whole / "images.parquet", images, IMAGE_SCHEMA)
        write_table(whole / "priors.parquet", priors, PRIOR_SCHEMA)
        account.write(whole / "problems.csv")
        if source.truth is not None:
            write_table(whole / "truth.parquet", _matching_truth(source.truth, sound), TRUTH_SCHEMA)
        missing = int((unusable["problem"] == MISSING).sum())
        result = settings | rows | audit.describe_records(sound, config.contexts)
        result["prior_wording"] = wording
        empty = {"empty": draft.empty_priors, "empty_kept": draft.kept_priors}
        result["priors"] = audit.prior_summary(priors) | empty
        result["images"] = audit.image_summary(images, missing, unusable.height - missing)
        result["image_copies"] = {
            pair: {"count": len(copies), "examples": copies[: audit.LISTED]}
            for pair, copies in copies_across_splits(images, sound).items()
        }
        result["original_references"] = _original_summary(sound, originals)
        write_json(whole / "audit.json", result)
    return result


#: Settings that the audit and ``records.parquet`` repeat.
_SETTINGS = {"format", "target", "cleaner", "unseen_comparisons", "limit"}


def _originals(source: Source) -> OriginalFindings | None:
    if "original_references" not in source.files:
        return None
    return read_original_findings(source.files["original_references"])


def _rows(account: Account, sound: pl.DataFrame, beyond_limit: int) -> dict[str, Any]:
    """What became of the rows of the input, and what the reader met besides."""
    fates = {
        "used": int(sound.unique("number")["rows"].sum()),
        "bad": account.rows(BAD),
        "left_out": account.rows(LEFT_OUT),
        "beyond_limit": beyond_limit,
    }
    if account.read.total() != sum(fates.values()):
        raise RuntimeError(f"{account.read.total()} rows were read, but {sum(fates.values())} are accounted for")
    reasons = {kind: account.reasons(kind) for kind in (BAD, LEFT_OUT)}
    return {
        "rows": {"read": dict(account.read)} | fates,
        "excluded": {"count": reasons[BAD].total(), "reasons": most_frequent(reasons[BAD])},
        "left_out": {"count": reasons[LEFT_OUT].total(), "reasons": most_frequent(reasons[LEFT_OUT])},
        "notes": {topic: account.notes(topic) for topic in sorted(account.topics)},
    }


def _original_summary(records: pl.DataFrame, originals: OriginalFindings | None) -> dict[str, Any]:
    """How many records have an untouched findings section beside their cleaned target."""
    without = records["findings_original"].null_count()
    summary = {"supplied": originals is not None, "records": records.height - without, "without": without}
    if originals is not None:
        summary |= {"conflicting": originals.conflicting, "without_findings": originals.without_findings}
    return summary


def _matching_truth(path: Path, records: pl.DataFrame) -> pl.DataFrame:
    """The latent states of the studies in use, with ids written as the records write them."""
    truth = read_truth(path).with_columns(mapped("study_id", bare_id), mapped("subject_id", bare_id))
    wanted = records.select("study_id").unique()
    unmatched = wanted.join(truth, on="study_id", how="anti").sort("study_id")
    if unmatched.height:
        raise DataError(f"{path} has no row for {unmatched.height} studies, such as {unmatched['study_id'][0]}")
    return truth.join(wanted, on="study_id", how="semi")
