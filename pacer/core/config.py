"""The typed form of ``params.yaml``: every key, its type, its range, and the checks across keys.

All values are validated before any work starts. An unknown key, a wrong type or a forbidden value is one
:class:`ConfigError` that names the key, the value and what is allowed. Keys are explained in ``params.yaml``.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from ruamel.yaml import YAML, YAMLError

from pacer.core.contexts import Context
from pacer.core.errors import ConfigError

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0.0)]
NaturalFloat = Annotated[float, Field(ge=0.0)]


class Strict(BaseModel):
    """Base of all groups: frozen, no unknown keys, no silent conversions."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


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


class StudyTable(Strict):
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
    table: StudyTable
    images: str
    original_references: str | None
    contexts: Annotated[list[Context], Field(min_length=1)]
    target: Literal["findings_and_impression", "findings"]
    cleaner: Literal["upstream", "careful"]
    strict: bool
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


class Backbone(Strict):
    """Where one frozen model comes from."""

    provider: Literal["standin", "hub", "local", "gguf"]
    id: str | None = None
    revision: str | None = None
    path: str | None = None
    file: str | None = None

    @model_validator(mode="after")
    def _located(self) -> Backbone:
        needed = {"standin": (), "hub": ("id", "revision"), "local": ("path",), "gguf": ("path", "file")}
        missing = [key for key in needed[self.provider] if getattr(self, key) is None]
        if missing:
            raise ValueError(f"provider: {self.provider} needs {' and '.join(missing)}")
        return self


class VisionStandin(Strict):
    width: Positive
    image_size: Positive
    patch_size: Positive
    heads: Positive
    images: Positive
    steps: Positive
    batch_size: Positive
    learning_rate: PositiveFloat


class LanguageStandin(Strict):
    width: Positive
    layers: Positive
    heads: Positive
    vocabulary: Annotated[int, Field(ge=300)]
    slots: Positive
    texts: Positive
    steps: Positive
    batch_size: Positive
    learning_rate: PositiveFloat


class TextStandin(Strict):
    width: Positive
    layers: Positive
    heads: Positive
    vocabulary: Annotated[int, Field(ge=300)]
    texts: Positive
    steps: Positive
    batch_size: Positive
    learning_rate: PositiveFloat


class Backbones(Strict):
    seed: Natural
    train_on: Literal["phantom", "corpus"]
    vision: Backbone
    language: Backbone
    text: Backbone
    chexbert: Backbone
    vision_standin: VisionStandin
    language_standin: LanguageStandin
    text_standin: TextStandin
    chexbert_standin: TextStandin

    @model_validator(mode="after")
    def _providers(self) -> Backbones:
        for name in ("vision", "text", "chexbert"):
            if getattr(self, name).provider == "gguf":
                raise ValueError(f"{name}: provider gguf is for the language model only")
        if self.chexbert.provider == "hub":
            raise ValueError("chexbert: its weights lie on no hub; use provider local with path, or standin")
        return self


class Features(Strict):
    mode: Literal["states", "pixels"]
    depths: Annotated[list[Positive], Field(min_length=1)]
    dtype: Literal["float32", "float16", "bfloat16", "fp8_e4m3"]
    precision: Literal["float32", "bfloat16"]
    batch_size: Positive
    shard_size: Positive
    workers: Natural
    prior_tokens: Annotated[int, Field(ge=2)]

    @model_validator(mode="after")
    def _ascending(self) -> Features:
        if self.depths != sorted(set(self.depths)):
            raise ValueError("depths must ascend without repeats; depths are counted in blocks, 1 is the first")
        return self


class Labelling(Strict):
    provider: Literal["none", "recorded", "openai"]
    recorded: str | None
    model: str
    base_url: str | None
    temperature: NaturalFloat
    max_tokens: Positive
    structured: bool
    mode: Literal["requests", "batch"]
    batch_requests: Annotated[int, Field(ge=1, le=50_000)]
    concurrency: Positive
    timeout: PositiveFloat
    attempts: Positive
    backoff: PositiveFloat
    unanswered: Literal["stop", "rules"]
    max_requests: Natural | None
    max_dollars: NaturalFloat | None
    input_price: NaturalFloat
    output_price: NaturalFloat
    batch_discount: Fraction
    send_reports_to: str | None
    prompt_file: str | None

    @model_validator(mode="after")
    def _needs(self) -> Labelling:
        if self.provider == "recorded" and self.recorded is None:
            raise ValueError("provider: recorded needs anchors.llm.recorded, the file of answers by record id")
        return self


class Anchors(Strict):
    seed: Natural
    rules: Literal["paper", "scoped"]
    sample_per_context: Natural
    llm: Labelling


class Prompt(Strict):
    before_tokens: Annotated[int, Field(ge=8)]
    unknown_view: Literal["upstream", "by_sections"]


class Trajectory(Strict):
    report_tokens: Annotated[int, Field(ge=8)]


class Commit(Strict):
    route: Literal["stochastic", "always", "direct"]


class Refine(Strict):
    variant: Literal["patchwise", "global", "endpoint"]
    d_routing: Positive | None
    max_scale: PositiveFloat
    init_scale: PositiveFloat

    @model_validator(mode="after")
    def _bounded(self) -> Refine:
        if self.init_scale >= self.max_scale:
            raise ValueError("init_scale must be below max_scale, its bound")
        return self


class Interface(Strict):
    num_queries: Positive
    num_heads: Positive
    d_hidden: Positive
    dropout: Fraction
    query_std: PositiveFloat
    fusion_init: Literal["random", "identity"]
    mask_prior_padding: bool


class Lora(Strict):
    rank: Positive
    alpha: Positive
    dropout: Fraction
    targets: Annotated[list[str], Field(min_length=1)]


class Train(Strict):
    seed: Natural
    lambda_tlw: NaturalFloat
    weight_decay: NaturalFloat
    max_grad_norm: PositiveFloat | None
    precision: Literal["auto", "float32", "bfloat16"]
    checkpoint: Literal["last", "best"]
    workers: Natural
    log_interval: Positive
    validation_interval: Positive
    validation_records: Positive | None
    state_interval: Positive


class Batches(Strict):
    mix: bool
    window: Positive


class Warmup(Strict):
    learning_rate: PositiveFloat
    batch_size: Positive
    accumulation: Positive
    updates: Positive
    warmup_updates: Natural


class Parent(Warmup):
    rho_start: Fraction
    rho_end: Fraction
    rho_updates: Natural
    lambda_q: NaturalFloat
    lateral_start: Literal["random", "frontal"]
    prior_start: Literal["random", "frontal"]
    start: Annotated[str, Field(min_length=1)]


class Calibrate(Warmup):
    rho: Fraction
    lambda_q: NaturalFloat
    lambda_cons: NaturalFloat
    lambda_drift: NaturalFloat
    gate_inputs: Literal["none", "h", "he", "hz", "hze"]
    rank: Positive
    d_availability: Positive | None
    d_gate: Positive | None
    dropout: Fraction
    gate_bias: float
    source_cache: Literal["auto", "on", "off"]


class Decode(Strict):
    split: Literal["test", "val"]
    limit: Positive | None
    engine: Literal["beam", "generate"]
    num_beams: Positive
    min_new_tokens: Natural
    max_new_tokens: Positive
    repetition_penalty: PositiveFloat
    length_penalty: float
    batch_size: Positive
    examples: Natural
    routing_studies: Natural
    controls: list[Literal["another_patient", "no_lateral", "no_prior"]]

    @model_validator(mode="after")
    def _ordered(self) -> Decode:
        if self.min_new_tokens > self.max_new_tokens:
            raise ValueError("min_new_tokens is above max_new_tokens")
        return self


class Score(Strict):
    convention: Literal["llm-rg4", "r2gen", "nicolson", "top5", "weighted"]
    originals: Literal["upstream", "careful", "lowercase", "as_is"]
    batch_size: Positive


class Params(Strict):
    """The whole of ``params.yaml``."""

    corpus: Corpus
    backbones: Backbones
    features: Features
    anchors: Anchors
    prompt: Prompt
    trajectory: Trajectory
    commit: Commit
    refine: Refine
    interface: Interface
    lora: Lora
    train: Train
    batches: Batches
    warmup: Warmup
    parent: Parent
    calibrate: Calibrate
    decode: Decode
    score: Score

    @model_validator(mode="after")
    def _across(self) -> Params:
        width = self.backbones.vision_standin.width
        if self.backbones.vision.provider == "standin" and width % self.interface.num_heads:
            raise ValueError(
                f"interface.num_heads ({self.interface.num_heads}) must divide the vision width ({width})"
            )
        own, world = self.backbones.language_standin.vocabulary, self.corpus.phantom.vocabulary
        made = self.backbones.language.provider == "standin" and self.backbones.train_on == "phantom"
        if self.corpus.source == "phantom" and made and own != world:
            raise ValueError(
                f"backbones.language_standin.vocabulary ({own}) must equal corpus.phantom.vocabulary ({world}): "
                "the corpus marks emphasised tokens with that tokenizer"
            )
        if "sn" not in self.corpus.contexts:
            raise ValueError("corpus.contexts must hold sn: the warm-up trains on it")
        return self


def load_params(path: str | Path = "params.yaml") -> Params:
    """Read and validate a parameter file.

    Raises:
        ConfigError: the file is missing, is not YAML, or any value is refused; all problems are listed.
    """
    return read_params(path, Params)


def parse_params(raw: dict[str, Any], origin: str = "params") -> Params:
    """Validate a plain dictionary; see :func:`load_params`."""
    return validated(raw, origin, Params)


Groups = TypeVar("Groups", bound=Strict)


def read_params(path: str | Path, kind: type[Groups]) -> Groups:
    """Read and validate a parameter file of the given groups; errors as those of :func:`load_params`."""
    try:
        raw = YAML(typ="safe").load(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        remedy = "; `pacer use NAME` makes it from a profile in configs/" if kind is Params else ""
        raise ConfigError(f"{path} does not exist{remedy}") from None
    except YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{path} must be a mapping of groups ({', '.join(kind.model_fields)})")
    return validated(raw, str(path), kind)


def validated(raw: dict[str, Any], origin: str, kind: type[Groups]) -> Groups:
    """Validate a plain dictionary as the content of a parameter file of the given groups.

    Raises:
        ConfigError: any value is refused; all problems are listed after ``origin``.
    """
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        problems = "; ".join(_explain(problem, kind) for problem in error.errors())
        if kind is Params and any(problem["type"] == "missing" for problem in error.errors()):
            problems += "; compare with a profile in configs/, or take one with `pacer use NAME`"
        raise ConfigError(f"{origin}: {problems}") from None


def _explain(problem: Any, kind: type[Strict]) -> str:
    """One problem in words: the key, the value that arrived, what is allowed."""
    key = ".".join(str(part) for part in problem["loc"]) or "params"
    value = problem["input"]
    if problem["type"] == "extra_forbidden":
        siblings = _fields_at(problem["loc"][:-1], kind)
        close = difflib.get_close_matches(str(problem["loc"][-1]), siblings, n=1, cutoff=0.0)
        return f"unknown key {key}; the closest known key is {close[0] if close else '-'}"
    if problem["type"] == "missing":
        return f"{key} is missing"
    shown = "" if isinstance(value, dict) else f" = {value!r}"
    message = problem["msg"].removeprefix("Value error, ")
    return f"{key}{shown}: {message[0].lower()}{message[1:]}"


def _fields_at(location: tuple, kind: type[Strict]) -> list[str]:
    model: Any = kind
    for part in location:
        field = getattr(model, "model_fields", {}).get(part)
        model = field.annotation if field is not None else None
    return list(getattr(model, "model_fields", {}))
