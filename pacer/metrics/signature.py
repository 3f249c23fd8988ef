"""``signature.json``, which defines every number of a result, and notes on how reports were read.

Two results can be compared if their signatures agree in everything but the predictions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

from pacer.core.io import read_json

#: Why a score is left out that the user excluded.
EXCLUDED = "excluded on request"


@dataclass(frozen=True)
class Origin:
    """Origin of references and reports, for the signature. ``files``: name -> file that was read
    (None: computed on the spot). ``about``: how the references were made. ``manifest``: that of the
    predictions, if any. ``protocol``: how other systems' reports were read and changed before
    scoring; None for predictions of the pipeline. ``parameters``: those of the pipeline's run
    (:func:`pacer.metrics.runs.parameters_of`), if it is one."""

    files: Mapping[str, Path | None]
    about: Mapping[str, Any]
    manifest: Mapping[str, Any] | None = None
    protocol: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Decoding:
    """The settings of ``decode`` that a run's reports were written with; None: not recorded, or no
    limit."""

    split: str | None = None
    limit: int | None = None
    threshold: float | None = None

    @classmethod
    def of(cls, manifest: Mapping[str, Any] | None) -> Self:
        """Return the settings in the manifest of predictions."""
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
    them. ``predictions``: their manifest, if any. ``parameters``: of a run of the pipeline: the
    closest profile, the seed, and the values that differ from this profile. ``run``,
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
    parameters: Mapping[str, Any] | None = None
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


def version_of(package: str) -> str | None:
    """Return the installed version of a package; ``None`` if it is not installed."""
    try:
        return version(
            "pacer-cxr" if package == "pacer" else package
        )  # another project has the bare name
    except PackageNotFoundError:
        return None


#: Notes on the texts of one side, by the name of their count.
_SIDE_NOTES = {
    "unclean": "have capitals, or periods or commas without a space before them, which affect "
    "BLEU, ROUGE-L and CIDEr; "
    'to clean them: `--clean {cleaner}`, in Python clean_{side}="{cleaner}" (same cleaner for both '
    "files{otherwise})",
    "spaced": "have double spaces or spaces at an end, where ROUGE-L finds equal empty words; "
    '`--clean decimals`, in Python clean_{side}="decimals", removes them all (upstream and iu_xray '
    "leave some, as published)",
    "bulleted": "have bullets (- or •), which count as words; remove them",
    "headed": "have headings such as FINDINGS:, which count as words; remove them from both sides "
    "or from neither",
}
#: Notes on the counts in the protocol; a count of 0 has no note.
_NOTES = {
    "equal_hypotheses": "warning: {count} of {pairs} reports equal their reference; check that "
    "their column is right",
    "residue_hypotheses": "warning: {count}",
    "residue_references": "warning: {count}",
    "text_context": "note: the column `context` of the references has none of the values sn, sw, "
    "mn and mw, so it is not used: all records are scored together",
    "same_opening_hypotheses": "warning: {count} of {pairs} reports begin with the same eight "
    "words, and the references do not; if these are a prompt, decode only what the model has "
    "added: output[:, prompt_length:]",
    "blank_hypotheses": "note: reports without text (blank, nan, nothing to extract): {count}; "
    "scored as empty",
    **{
        f"{kind}_{side}": f"{{count}} of {{pairs}} {side} {note.replace('{side}', side)}"
        for kind, note in _SIDE_NOTES.items()
        for side in ("references", "hypotheses")
    },
    "absent_hypotheses": "note: references without a report: {count}; each is scored with an empty "
    "one",
    **{
        f"not_english_{side}": f"warning: {side} without any frequent English word: {{count}}; the "
        "rules and labellers read no other language"
        for side in ("references", "hypotheses")
    },
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
    values = {"pairs": pairs, "cleaner": min(cleaners, default="decimals"), "otherwise": otherwise}
    notes += [
        text.format(count=protocol[key], **values)
        for key, text in _NOTES.items()
        if protocol.get(key)
    ]
    return notes
