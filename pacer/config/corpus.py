"""The data: the source of the raw corpus, how it is read, and the targets that are made from report
text (commitments, and the tokens that L_TLW emphasises). All paths of the corpus except ``root``
are relative to ``root``."""

from typing import Annotated, ClassVar, Literal, Self, get_args

from pydantic import AfterValidator, Field, model_validator

from pacer.config.strict import Fraction, Natural, NaturalFloat, Positive, PositiveFloat, Strict
from pacer.core.contexts import Context

#: How report text is cleaned; :data:`pacer.text.cleaning.cleaners.CLEANERS` has the functions.
Cleaner = Literal["upstream", "iu_xray", "decimals"]
#: Delimiters of CSV files; :data:`pacer.tables.delimited.SEPARATORS` has the characters.
Delimiter = Literal["comma", "semicolon", "tab", "pipe"]


def _known_encoding(name: str) -> str:
    try:
        "A".encode(name)
    except (LookupError, UnicodeError):
        raise ValueError(
            "expected the name of an encoding, such as utf-8, cp1252, latin-1 or utf-16"
        ) from None
    return name


class Phantom(Strict):
    """Size of the synthetic corpus; fractions are shares of patients."""

    removed: ClassVar = {
        "studies_per_patient": "delete it; the mean is 2.4",
        "lateral_fraction": "delete it; the share is 0.6",
        "image_size": "delete it; radiographs have 112 pixels on a side",
        "vocabulary": "delete it; the tokenizer has 1,200 tokens",
    }

    patients: Positive
    val_fraction: Fraction
    test_fraction: Fraction

    @model_validator(mode="after")
    def _some_train(self) -> Self:
        if self.val_fraction + self.test_fraction >= 1:
            raise ValueError(
                "val_fraction + test_fraction must be below 1, to leave patients for training"
            )
        return self


class Format(Strict):
    """Base of the groups of the formats."""

    #: Keys of the input files.
    files: ClassVar[tuple[str, ...]]
    #: Keys of the input files that may be unset.
    optional: ClassVar[tuple[str, ...]] = ()
    #: Whether the format identifies a patient's previous examination.
    has_priors: ClassVar[bool] = True


class Annotations(Format):
    files: ClassVar = ("sn", "sw", "mn", "mw")  # those of the contexts in use
    sn: str | None = None
    sw: str | None = None
    mn: str | None = None
    mw: str | None = None


class MimicCxr(Format):
    files: ClassVar = ("reports", "metadata", "split")
    reports: str | None
    metadata: str | None
    split: str | None


class R2Gen(Format):
    files: ClassVar = ("annotation", "views")
    optional: ClassVar = ("views",)
    has_priors: ClassVar = False
    annotation: str | None
    views: str | None


class OpenI(Format):
    files: ClassVar = ("reports", "projections")
    has_priors: ClassVar = False
    reports: str | None
    projections: str | None
    split: Literal["r2gen"] | None


Dates = Literal[
    "YYYY/MM/DD", "YYYYMMDD", "DD.MM.YYYY", "DD/MM/YYYY", "DD-MM-YYYY", "MM/DD/YYYY", "MM-DD-YYYY"
]
#: Forms of a table's dates, beside YYYY-MM-DD.
DATE_FORMS: tuple[str, ...] = get_args(Dates)


Column = Literal[
    "site",
    "subject",
    "study",
    "image",
    "frontal",
    "lateral",
    "exam",
    "view",
    "date",
    "time",
    "order",
    "split",
    "findings",
    "impression",
    "indication",
    "history",
    "previous_report",
    "whole_report",
]
#: The columns of a table.
COLUMNS: tuple[str, ...] = get_args(Column)


class TableOfStudies(Format):
    files: ClassVar = ("file",)
    removed: ClassVar = {
        "quotes": "delete it; a file whose quotes follow a backslash is refused with the lines "
        "that convert it"
    }

    file: str | None
    columns: dict[Column, str]
    delimiter: Delimiter | None = None
    encoding: Annotated[str, AfterValidator(_known_encoding)] = "utf-8"
    sheet: str | None = None
    dates: Dates | None = None


class SubjectShares(Strict):
    """Shares of subjects in val and test for a corpus without a split; the rest is train, and may
    be empty if the corpus is for evaluation only."""

    val: Fraction
    test: Fraction

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if self.val + self.test > 1:
            raise ValueError("val + test must not exceed 1; the remainder is train")
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
    def _consistent(self) -> Self:
        if len(set(self.contexts)) != len(self.contexts):
            raise ValueError("contexts has duplicate entries")
        if self.source == "phantom":
            if self.format != "rg4":
                raise ValueError(
                    "source = 'phantom' requires format = 'rg4'; to use your own data, set source: "
                    "files"
                )
            return self
        if self.root is None:
            raise ValueError(
                "source = 'files' needs corpus.root, the folder that contains the corpus"
            )
        group, keys, paths = self._group()
        unset = [key for key, path in paths.items() if path is None and key not in keys.optional]
        if unset:
            raise ValueError(
                f"format = {self.format!r} needs "
                f"{', '.join(f'corpus.{group}.{key}' for key in unset)}"
            )
        if not keys.has_priors and {"sw", "mw"} & set(self.contexts):
            raise ValueError(
                f"format = {self.format!r} has no previous reports; set contexts: [sn] or [sn, mn]"
            )
        return self

    def input_files(self) -> dict[str, tuple[str, str]]:
        """Return ``{role: (key, path relative to the root)}`` of the input files. The role of an
        annotation file is its context, and that of another file the last part of its key."""
        group, _, paths = self._group()
        files = {key: (f"{group}.{key}", path) for key, path in paths.items()}
        files["original_references"] = ("original_references", self.original_references)
        return {role: (key, path) for role, (key, path) in files.items() if path is not None}

    def _group(self) -> tuple[str, Format, dict[str, str | None]]:
        """Return the key of the format's group, the group, and the paths of its input files by
        key."""
        name = "annotations" if self.format == "rg4" else self.format
        group: Format = getattr(self, name)
        keys = self.contexts if self.format == "rg4" else group.files
        return name, group, {key: getattr(group, key) for key in keys}


class Labelling(Strict):
    """The group ``anchors.llm``: how the LLM labels the sampled reports."""

    removed: ClassVar = {"attempts": "delete it. Each request is tried up to 8 times"}

    provider: Literal["none", "recorded", "openai"]
    recorded: str | None
    model: str
    base_url: str | None
    temperature: NaturalFloat | None
    reasoning_effort: Annotated[str, Field(pattern=r"^\w+$")] | None = None
    response_format: Literal["json_object", "json_schema", "none"] = "json_object"
    max_tokens: Positive
    concurrency: Positive
    timeout: PositiveFloat
    unanswered: Literal["stop", "rules"]
    send_reports_to: str | None
    prompt_file: str | None

    @model_validator(mode="after")
    def _has_answers(self) -> Self:
        if self.provider == "recorded" and self.recorded is None:
            raise ValueError(
                "provider = 'recorded' needs anchors.llm.recorded, a file of answers keyed by "
                "record id"
            )
        return self


class Anchors(Strict):
    seed: Natural
    sample_per_context: Natural
    rules: Literal["careful", "paper"] = "careful"
    llm: Labelling


class Emphasis(Strict):
    removed: ClassVar = dict.fromkeys(
        ("steps", "smoothing"), "delete it; 20 steps and a smoothing of 1.0 are used"
    )

    source: Literal["corpus", "computed", "none"]
    threshold: Annotated[float, Field(ge=0.0, lt=1.0)]
    batch_size: Positive
