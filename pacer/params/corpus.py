"""Where the raw corpus comes from and how it is read."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pacer.core.contexts import Context
from pacer.params.strict import Fraction, Natural, Positive, PositiveFloat, Strict

#: How report text is cleaned; :data:`pacer.corpus.text.CLEANERS` has the functions.
Cleaner = Literal["upstream", "iu_xray", "careful"]


class Phantom(Strict):
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


class R2Gen(Strict):
    """R2Gen's ``annotation.json`` and a table of views, relative to ``corpus.root``."""

    annotation: str | None
    views: str | None


class OpenI(Strict):
    """The files of the Open-I distribution, relative to ``corpus.root``."""

    reports: str | None
    projections: str | None
    split: str | None
    deidentified: Literal["keep", "remove", "drop_sentence"]


class TableOfStudies(Strict):
    """A table of one's own studies, relative to ``corpus.root``; ``columns`` maps our names to the table's."""

    file: str | None
    columns: dict[str, str]


class SubjectShares(Strict):
    """Shares of the subjects in val and test, where a corpus names no split."""

    val: Fraction
    test: Fraction

    @model_validator(mode="after")
    def _some_train(self) -> SubjectShares:
        if self.val + self.test >= 1:
            raise ValueError("val + test must leave subjects for training (sum below 1)")
        return self


class Corpus(Strict):
    source: Literal["phantom", "files"]
    format: Literal["rg4", "r2gen", "openi", "table"]
    root: str | None
    annotations: Annotations
    r2gen: R2Gen
    openi: OpenI
    table: TableOfStudies
    images: str
    original_references: str | None
    contexts: Annotated[list[Context], Field(min_length=1)]
    target: Literal["findings_and_impression", "findings"]
    cleaner: Cleaner
    strict: bool
    keep_empty_priors: bool
    split: SubjectShares
    seed: Natural
    limit: Positive | None
    max_bad_rows: Natural
    check_images: Literal["headers", "full"]
    phantom: Phantom

    @model_validator(mode="after")
    def _consistent(self) -> Corpus:
        if len(set(self.contexts)) != len(self.contexts):
            raise ValueError("contexts holds a context twice")
        if self.source == "files":
            if self.root is None:
                raise ValueError("source: files needs corpus.root, the folder that the annotation files lie in")
            missing = [c for c in self.contexts if getattr(self.annotations, c) is None]
            if self.format == "rg4" and missing:
                raise ValueError(f"annotations names no file for {', '.join(missing)}, listed in corpus.contexts")
            needed = {"r2gen": self.r2gen.annotation, "openi": self.openi.reports, "table": self.table.file}
            if needed.get(self.format, "") is None:
                key = {"r2gen": "r2gen.annotation", "openi": "openi.reports", "table": "table.file"}[self.format]
                raise ValueError(f"format: {self.format} needs corpus.{key}")
            if self.format == "openi" and self.openi.projections is None:
                raise ValueError("format: openi needs corpus.openi.projections; its reports do not name the views")
            if self.format in ("openi", "r2gen") and set(self.contexts) & {"sw", "mw"}:
                raise ValueError(f"format: {self.format} knows no previous reports; contexts may hold sn and mn")
        elif self.format != "rg4":
            raise ValueError("source: phantom has format: rg4; for a corpus of your own set source: files")
        return self
