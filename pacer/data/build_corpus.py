"""The corpus stage: annotation files and images become checked tables and an audit.

Every row is read and cleaned into a draft (:mod:`pacer.data.draft`); then ids and images are checked, and what is
sound is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from pacer.config import Corpus
from pacer.core.errors import DataError
from pacer.core.io import atomic_directory, write_json
from pacer.data import audit
from pacer.data.assemble import Assembler
from pacer.data.columns import BATCH, TableWriter
from pacer.data.draft import keep_sound, make_draft
from pacer.data.formats import FORMATS
from pacer.data.images import copies_across_splits, images_of, inspect_images
from pacer.data.mimic import bare_id
from pacer.data.problem_list import ProblemList, most_frequent
from pacer.data.radiographs import MISSING
from pacer.data.readers.original import OriginalFindings, read_original_findings
from pacer.data.rows import Notes
from pacer.data.schemas import IMAGE_SCHEMA, PRIOR_SCHEMA, RECORD_SCHEMA, TRUTH_SCHEMA, read_truth, write_table
from pacer.data.source import Source, read_source

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
    source = read_source(source_dir)
    form = FORMATS[config.format]
    notes, problem_list = Notes(), ProblemList()
    problems = Path(f"{out}.problems.csv") if problems is None else problems
    problems.unlink(missing_ok=True)
    with atomic_directory(out) as whole:
        originals = _originals(source)
        assembler = Assembler(config, form, {} if originals is None else originals.findings)
        draft = make_draft(form.read(source, config, notes), assembler, problem_list)
        if notes.read.total() != problem_list.rows.total():
            raise RuntimeError(
                f"the reader lost rows: it read {notes.read.total()} and passed on {problem_list.rows.total()}"
            )
        for name, count in assembler.absent.items():
            notes.count("absent_words", "texts", name, count)
        headers = inspect(images_of(draft), source.images)
        for part in headers["part"].drop_nulls():
            notes.count("other_parts", "images", part)
        bad_images = headers.drop_nulls("problem").select("image_id", "problem")
        unusable: dict[str, str] = dict(bad_images.iter_rows())
        sound, wording = keep_sound(draft, unusable, source.images, form.images, problem_list)
        if problem_list.bad.total() > config.max_bad_rows or sound.is_empty():
            problem_list.write(problems)
            earlier = f"\n  {out} is unchanged: it holds an earlier corpus" if out.exists() else ""
            raise DataError(problem_list.message(config.max_bad_rows, problems) + earlier)
        images = headers.filter(pl.col("image_id").is_in(images_of(sound).implode())).select(list(IMAGE_SCHEMA))
        with_prior = sound.drop_nulls(["prior_report", "prior_study_id"])
        priors = with_prior.unique("study_id", keep="first", maintain_order=True).select(list(PRIOR_SCHEMA))
        settings = _settings(config, source)
        with TableWriter(whole / "records.parquet", RECORD_SCHEMA, settings) as table:
            for part in sound.iter_slices(BATCH):
                table.add_frame(part)
        write_table(whole / "images.parquet", images, IMAGE_SCHEMA)
        write_table(whole / "priors.parquet", priors, PRIOR_SCHEMA)
        problem_list.write(whole / "problems.csv")
        if source.truth is not None:
            write_table(whole / "truth.parquet", _matching_truth(source.truth, sound), TRUTH_SCHEMA)
        missing = sum(problem == MISSING for problem in unusable.values())
        result = settings | _rows(notes, problem_list) | audit.describe_records(sound, config.contexts)
        result["prior_wording"] = wording
        result["priors"] = audit.prior_summary(priors) | {
            "empty": assembler.empty_priors,
            "empty_kept": assembler.kept_priors,
        }
        result["images"] = audit.image_summary(images, missing, len(unusable) - missing)
        result["image_copies"] = {
            pair: {"count": len(found), "examples": found[: audit.LISTED]}
            for pair, found in copies_across_splits(images, sound).items()
        }
        result["original_references"] = _original_summary(sound, originals)
        write_json(whole / "audit.json", result)
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
    }


def _rows(notes: Notes, problems: ProblemList) -> dict[str, Any]:
    """What became of the rows of the input, and what the reader met besides."""
    return {
        "rows": {"read": dict(notes.read)} | problems.rows,
        "excluded": {"count": problems.bad.total(), "reasons": most_frequent(problems.bad)},
        "left_out": {"count": problems.left_out.total(), "reasons": most_frequent(problems.left_out)},
        "notes": {topic: notes.found(topic) for topic in sorted(notes.topics)},
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
    truth = read_truth(path).with_columns(
        pl.col("study_id").map_elements(bare_id, return_dtype=pl.String),
        pl.col("subject_id").map_elements(bare_id, return_dtype=pl.String),
    )
    wanted = records.select("study_id").unique()
    unmatched = wanted.join(truth, on="study_id", how="anti").sort("study_id")
    if unmatched.height:
        raise DataError(f"{path} has no row for {unmatched.height} studies, such as {unmatched['study_id'][0]}")
    return truth.join(wanted, on="study_id", how="semi")
