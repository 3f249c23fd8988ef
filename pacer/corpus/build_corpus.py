"""The corpus stage: converts annotation files and images to checked tables and an audit."""

from pathlib import Path
from typing import Any

import polars as pl

from pacer.config import Corpus
from pacer.core.errors import DataError
from pacer.core.io import atomic_directory, write_json
from pacer.core.schemas import (
    IMAGE_SCHEMA,
    PRIOR_SCHEMA,
    RECORD_SCHEMA,
    TRUTH_SCHEMA,
    read_table,
    write_table,
)
from pacer.corpus.account import BAD, Account, Notes
from pacer.corpus.audit import audit_corpus
from pacer.corpus.images import find_copies, images_of, inspect_images, list_copies, pictures_of
from pacer.corpus.patients import note_headers, note_patients
from pacer.corpus.readers import mimic_cxr, openi, r2gen, rg4, table
from pacer.corpus.records import draft_records, drop_invalid
from pacer.corpus.source import read_source
from pacer.tables.values import bare_id

#: By ``corpus.format``. ``NAMES`` of a reader has the names that its input uses for the columns of
#: its frame, for messages; CONTRIBUTING.md describes how to add a reader.
READERS: dict[str, Any] = {
    "mimic_cxr": mimic_cxr,
    "openi": openi,
    "r2gen": r2gen,
    "rg4": rg4,
    "table": table,
}
#: The files of a corpus folder.
OUTPUTS = (
    "records.parquet",
    "images.parquet",
    "priors.parquet",
    "problems.csv",
    "audit.json",
    "truth.parquet",
)
#: Settings that are copied to the audit and to ``records.parquet``.
_SETTINGS = {"format", "target", "cleaner", "unseen_comparisons", "limit"}


def build_corpus(
    config: Corpus, source_dir: Path, out: Path, problems: Path | None = None
) -> dict[str, Any]:
    """Write the files of :data:`OUTPUTS` into ``out`` (``truth.parquet`` for a generated corpus
    only); return the audit.

    Args:
        problems: where to write the table of problems if the corpus is refused (default:
            ``<out>.problems.csv``).

    Raises:
        DataError: a file is missing or malformed, more rows are unusable than
            ``config.max_bad_rows`` allows, or no record is left.
    """
    source = read_source(source_dir)
    reader = READERS[config.format]
    notes = Notes()
    problems = Path(f"{out}.problems.csv") if problems is None else problems
    problems.unlink(missing_ok=True)
    with atomic_directory(out) as folder:
        originals = mimic_cxr.read_original_findings(source.files.get("original_references"))
        studies = reader.read(source, config, notes)
        draft = draft_records(studies, config, reader.NAMES, originals, notes)
        headers = studies.headers
        if headers is None:
            headers = inspect_images(images_of(draft.used), source.images)
        warnings = headers.explode("notes").drop_nulls("notes").select("notes", "image_id")
        notes.count_first("headers", "images", warnings.iter_rows())
        unusable = headers.drop_nulls("problem")
        valid = drop_invalid(draft, unusable, source.images, reader.NAMES, notes)
        records = valid.used
        account = Account(valid.listed, notes)
        if sum(account.reasons(BAD).values()) > config.max_bad_rows or records.is_empty():
            account.write(problems)
            earlier = f"\n  {out} still contains the earlier corpus" if out.exists() else ""
            raise DataError(account.message(config.max_bad_rows, problems) + earlier)
        images = headers.filter(pl.col("image_id").is_in(images_of(records).implode()))
        note_patients(records, notes)
        note_headers(records, headers, notes)
        pictures = pictures_of(records, find_copies(images))
        account = Account(list_copies(valid, pictures).listed, notes)
        with_prior = records.drop_nulls(["prior_report", "prior_study_id"])
        priors = with_prior.unique("study_id", keep="first", maintain_order=True)
        settings = {"generated": source.truth is not None} | config.model_dump(include=_SETTINGS)
        write_table(folder / "records.parquet", records, RECORD_SCHEMA, settings)
        write_table(folder / "images.parquet", images, IMAGE_SCHEMA)
        write_table(folder / "priors.parquet", priors, PRIOR_SCHEMA)
        account.write(folder / "problems.csv")
        if source.truth is not None:
            # the latent states of the examinations in use, with ids in the form of the records
            truth = read_table(source.truth, TRUTH_SCHEMA).with_columns(
                bare_id("study_id"), bare_id("subject_id")
            )
            write_table(
                folder / "truth.parquet",
                truth.join(records, on="study_id", how="semi"),
                TRUTH_SCHEMA,
            )
        result = settings | audit_corpus(
            records, priors, images, unusable, pictures, config, account
        )
        write_json(folder / "audit.json", result)
    return result
