"""Where the raw corpus comes from and how it is read."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from pacer.config.strict import Fraction, Natural, Positive, PositiveFloat, Strict
from pacer.core.contexts import Context

#: How report text is cleaned; :data:`pacer.data.cleaning.CLEANERS` has the functions.
Cleaner = Literal["upstream", "iu_xray"]

#: The separator of a CSV file; :data:`pacer.data.tables.SEPARATORS` has the characters.
Delimiter = Literal["comma", "semicolon", "tab", "pipe"]


def _known_encoding(name: str) -> str:
    try:
        "A".encode(name)
    except (LookupError, UnicodeError):
        raise ValueError("expected the name of an encoding, such as utf-8, cp1252, latin-1 or utf-16") from None
    return name


class Phantom(Strict):
    """Size of the synthetic corpus; fractions are shares of patients."""

    patients: Positive
    studies_per_patient: PositiveFloat
    lateral_fraction: Fraction
    image_size: Annotated[int, Field(ge=56)]
    vocabulary: Annotated[int, Field(ge=300)]
    val_fraction: Fraction
    test_fraction: Fraction

    @model_validator(mode="after")
    def _some_train(self) -> Phantom:
        if self.val_fraction + self.test_fraction >= 1:
            raise ValueError("val_fraction + test_fraction must leave patients for training (sum below 1)")
        return self


class Annotations(Strict):
    """One annotation file per context, relative to ``corpus.root``."""

    sn: str | None = None
    sw: str | None = None
    mn: str | None = None
    mw: str | None = None


class MimicCxr(Strict):
    """The files of MIMIC-CXR and MIMIC-CXR-JPG as PhysioNet ships them, relative to ``corpus.root``."""

    reports: str | None
    metadata: str | None
    split: str | None


class R2Gen(Strict):
    """R2Gen's ``annotation.json`` and a table of views, relative to ``corpus.root``."""

    annotation: str | None
    views: str | None


class OpenI(Strict):
    """The files of the Open-I distribution, relative to ``corpus.root``."""

    reports: str | None
    projections: str | None
    split: Literal["r2gen"] | None


class TableOfStudies(Strict):
    """A table of studies, relative to ``corpus.root``; ``columns`` maps our names to the table's. ``delimiter`` and
    ``encoding`` are for CSV files with other separators than commas, or not in UTF-8."""

    file: str | None
    columns: dict[str, str]
    delimiter: Delimiter | None = None
    encoding: Annotated[str, AfterValidator(_known_encoding)] = "utf-8"


class SubjectShares(Strict):
    """Shares of subjects in val and test for a corpus without a split; the rest is train, and may be empty if the
    corpus is for evaluation only."""

    val: Fraction
    test: Fraction

    @model_validator(mode="after")
    def _shares(self) -> SubjectShares:
        if self.val + self.test > 1:
            raise ValueError("val + test must not exceed 1; the rest is train")
        return self


class Corpus(Strict):
    """The group ``corpus``: source, format, contexts and cleaning of the records."""

    source: Literal["phantom", "files"]
    format: Literal["rg4", "mimic_cxr", "r2gen", "openi", "table"]
    root: str | None
    annotations: Annotations
    mimic_cxr: MimicCxr
    r2gen: R2Gen
    openi: OpenI
    table: TableOfStudies
    images: str
    original_references: str | None
    contexts: Annotated[list[Context], Field(min_length=1)]
    target: Literal["findings_and_impression", "findings"]
    cleaner: Cleaner
    unseen_comparisons: Literal["keep", "strip"]
    keep_empty_priors: bool
    split: SubjectShares
    seed: Natural
    limit: Positive | None
    max_bad_rows: Natural
    phantom: Phantom

    @model_validator(mode="after")
    def _consistent(self) -> Corpus:
        if len(set(self.contexts)) != len(self.contexts):
            raise ValueError("contexts lists a context twice")
        if self.source == "phantom" and self.format != "rg4":
            raise ValueError("source: phantom requires format: rg4; for your data set source: files")
        if self.source == "files":
            self._check_files()
        return self

    def _check_files(self) -> None:
        if self.root is None:
            raise ValueError("source: files needs corpus.root, the folder that contains the corpus")
        missing = [context for context in self.contexts if getattr(self.annotations, context) is None]
        if self.format == "rg4" and missing:
            named = ", ".join(missing)
            raise ValueError(f"annotations has no file for {named}; set it, or shorten corpus.contexts")
        needed = {
            "rg4": {},
            "mimic_cxr": {f"mimic_cxr.{name}": path for name, path in self.mimic_cxr},
            "r2gen": {"r2gen.annotation": self.r2gen.annotation},
            "openi": {"openi.reports": self.openi.reports, "openi.projections": self.openi.projections},
            "table": {"table.file": self.table.file},
        }
        unset = [f"corpus.{key}" for key, path in needed[self.format].items() if path is None]
        if unset:
            raise ValueError(f"format: {self.format} needs {', '.join(unset)}")
        if self.format in ("openi", "r2gen") and set(self.contexts) & {"sw", "mw"}:
            raise ValueError(f"format: {self.format} has no previous reports; set contexts: [sn] or [sn, mn]")
