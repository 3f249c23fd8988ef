"""Scoring from Python: ``pacer.score``, ``pacer.compare`` and ``pacer.label``. The command line
calls them too."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

import polars as pl

from pacer.config import validated
from pacer.config.corpus import Delimiter
from pacer.config.decode import ScoreSettings
from pacer.core.anchor import Anchor
from pacer.core.contexts import Context
from pacer.core.errors import ConfigError, DataError
from pacer.core.machine import check_not_forked
from pacer.core.schemas import read_about
from pacer.metrics.columns import metrics_of
from pacer.metrics.options import (
    DEFAULTS,
    Cleaning,
    Extract,
    Function,
    MissingReference,
    MissingReport,
    Pairing,
    Scoring,
)
from pacer.metrics.pair import pair_reports
from pacer.metrics.reward import reward
from pacer.metrics.score import score_cases
from pacer.metrics.signature import Origin, Signature
from pacer.statistics.comparison import compare
from pacer.statistics.system import Scores
from pacer.tables.generated import check_residue, without_thoughts
from pacer.tables.reports import (
    HYPOTHESES,
    REFERENCES,
    Reports,
    reports_of,
)
from pacer.tables.sources import Source
from pacer.tables.table import SourceTable
from pacer.text.rules import extract_anchor, read_attributes, read_more
from pacer.text.rules.more import with_more_findings

__all__ = ["Scores", "compare", "label", "reward", "score"]


def score(
    references: Source,
    hypotheses: Source,
    *,
    out: str | Path | None = None,
    chexbert: str | Path | None = None,
    labels: str | Path | None = None,
    columns: str | Path | None = None,
    metrics: Mapping[str, Function] | Iterable[str] = (),
    settings: ScoreSettings = DEFAULTS,
    force: bool = False,
    without: Iterable[str] = (),
    more_findings: str | Path | None = None,
    missing: MissingReport = "error",
    missing_references: MissingReference = "error",
    extract: Extract = "none",
    as_is: bool = False,
    deduplicate: bool = False,
    clean_references: Cleaning = "none",
    clean_hypotheses: Cleaning = "none",
    split: str | None = None,
    context: Context | None = None,
    reference_id: str | None = None,
    reference_text: str | None = None,
    hypothesis_id: str | None = None,
    hypothesis_text: str | None = None,
    delimiter: Delimiter | None = None,
) -> Scores:
    """Score reports of any system against references.

    Args:
        references, hypotheses: each ``{id: text}``, a sequence of texts in the same order, a polars
            or pandas frame, or the path of a file or of a folder of texts (docs/evaluation.md). Two
            columns of one table need no ids. References with a column ``context`` that names the
            four contexts are scored by context, others as one, ``all``.
        out: folder for the files that `pacer score` writes; None: none is written.
        force: replace the scores in ``out``.
        chexbert: folder of the labeller; None: no scores of its labels.
        labels: file for the references' labels; it is created if it does not exist.
        columns: table with your own scores and groups by ``record_id``.
        metrics: your own scores: name -> function of references and reports (two lists of texts,
            each on one line) that returns one number for each pair; or names of those that
            installed packages offer as ``pacer.scores``.
        settings: convention of the headline F1, and form of the original findings.
        without: keys of scores to leave out, such as ``["meteor"]``.
        more_findings: table of further findings, or ``builtin`` for PACER's: they are rows of
            ``findings`` and have columns of their own in ``cases`` (``report_more_positive``);
            every score counts only the 13.
        missing: a reference without a report is an error, or is scored with an ``empty`` one.
        missing_references: a reference that is blank, or a word such as ``nan``, is an error, or
            its pair is left out (``leave-out``).
        extract: ``boxed`` scores the last ``\\boxed{}`` of a report. Otherwise, the thoughts of a
            reasoning model (``<think>``) and the tags around its answer are taken out.
        as_is: score reports even if more than one in twenty contain something else, such as a
            prompt, a refusal or pieces of words.
        deduplicate: drop the repeated sentences of a report.
        clean_references, clean_hypotheses: cleaner: ``upstream`` (LLM-RG4), ``iu_xray`` (R2Gen) or
            ``decimals``.
        split: ``all``: every split; None: test, if the references have splits.
        context: one of the four; None: all.
        reference_id, reference_text, hypothesis_id, hypothesis_text: columns of ids and texts, if
            not found by name. The text ``rexrank`` of references is made of ``section_findings``
            and ``section_impression``: *Findings: … Impression: …*.
        delimiter: that of CSV files, if it is no comma: ``semicolon``, ``tab`` or ``pipe``.

    Raises:
        DataError: reports do not pair one to one, or an input is malformed.
        ConfigError: a value is not allowed, or ``out`` holds scores.
        PacerError: the process was forked from one that has used PACER.
    """
    check_not_forked("pacer.score")
    pairing = {
        "missing": missing,
        "missing_references": missing_references,
        "extract": extract,
        "as_is": as_is,
        "deduplicate": deduplicate,
        "clean_references": clean_references,
        "clean_hypotheses": clean_hypotheses,
        "split": split,
        "context": context,
        "reference_id": reference_id,
        "reference_text": reference_text,
        "hypothesis_id": hypothesis_id,
        "hypothesis_text": hypothesis_text,
        "delimiter": delimiter,
    }
    files = {"references": _path(references), "hypotheses": _path(hypotheses)}
    if out is not None and not force:
        check_replaced(Path(out))
    if not isinstance(columns, str | Path | None):
        raise DataError(
            f"pacer.score: columns must be the path of a table, got {type(columns).__name__}"
        )
    if columns is not None:
        settings = settings.model_copy(update={"columns": str(columns)})
    options = Scoring(
        chexbert=_path(chexbert),
        labels=_path(labels),
        settings=settings,
        without=(without,) if isinstance(without, str) else tuple(without),
        metrics=metrics_of(metrics),
        more_findings=more_findings,
    )
    validated_pairing = validated(pairing, "pacer.score", Pairing)
    cases, origin = pairs_of(references, hypotheses, files, validated_pairing)
    result = Scores.of(score_cases(cases, options, origin))
    if out is not None:
        result.write(Path(out))
    return result


def pairs_of(
    references: Source, hypotheses: Source, files: Mapping[str, Path | None], options: Pairing
) -> tuple[pl.DataFrame, Origin]:
    """Read and pair the reports; return the cases, and where they are from. The tables that were
    read are not kept, as they are as large as the cases."""
    path = _path(references)
    one_table = references is hypotheses or (path is not None and path == _path(hypotheses))
    columns = (
        (options.reference_id, options.reference_text),
        (options.hypothesis_id, options.hypothesis_text),
    )
    expected, generated = (
        reports_of(source, side, *names, options.delimiter, needs_ids=not one_table)
        for source, side, names in zip(
            (references, hypotheses), (REFERENCES, HYPOTHESES), columns, strict=True
        )
    )
    if options.split is None and expected.rows["split"].count():
        options = options.model_copy(update={"split": "test"})
    about = _about(expected, options)
    cases, counts = pair_reports(expected, generated, options, one_table)
    sides = {"references": expected, "hypotheses": generated}
    read = {name: {"file": side.path.name} | side.columns for name, side in sides.items()}
    pairing = {"pairing": "by id" if "id" in generated.columns else "by position"}
    protocol = read | options.model_dump() | counts | pairing
    return cases, Origin(files, about, protocol=protocol)


def _path(source: Source | None) -> Path | None:
    if isinstance(source, SourceTable):
        return source.path
    return Path(source) if isinstance(source, str | Path) else None


def check_replaced(out: Path) -> None:
    """Raise a ConfigError if a folder has scores."""
    path = out / "signature.json"
    if path.is_file():
        protocol = Signature.read(path).protocol or {}
        name = protocol.get("hypotheses", {}).get("file", "predictions")
        raise ConfigError(
            f"{out} contains the scores of {name}; choose a different folder (--out), or overwrite "
            "them with force=True (--force)"
        )


def _about(references: Reports, options: Pairing) -> dict[str, Any]:
    """Return how the references were made. The metadata of a records.parquet describes only its
    column of reports."""
    is_cleaned_column = (
        references.path.suffix.lower() == ".parquet" and references.columns["text"] == "report"
    )
    about = read_about(references.path) if is_cleaned_column else {}
    if options.clean_references == "none":
        return about
    if about:
        raise ConfigError(
            f"{references.path} contains reports that are already clean, and cleaning them again "
            "would change them; omit `--clean`, or clean only the reports, in Python with "
            "clean_hypotheses"
        )
    return {"cleaner": options.clean_references}


@dataclass(frozen=True)
class Labels(Anchor):
    """The commitment that the rules read in a report, and its further findings."""

    #: Further findings, and the polarity of each.
    more: Mapping[str, str] = field(default_factory=dict, hash=False)


Texts = str | Iterable[str] | Mapping[str, str]


@overload
def label(texts: Texts, *, more_findings: None = None, as_is: bool = False) -> list[Anchor]: ...
@overload
def label(texts: Texts, *, more_findings: str | Path, as_is: bool = False) -> list[Labels]: ...
def label(
    texts: Texts, *, more_findings: str | Path | None = None, as_is: bool = False
) -> list[Anchor] | list[Labels]:
    """Return the commitment that the rules read in each report: findings present, absent and
    uncertain, and in ``attributes`` the side, severity and course of those present or uncertain.
    The thoughts of a reasoning model are taken out first, as in :func:`score`.

    Args:
        as_is: label reports even if more than one in twenty contain something else, such as a
            prompt or a refusal.
        more_findings: table of further findings, or ``builtin`` for PACER's
            (docs/commitments.md). Each result then also has ``more``, the polarity of each further
            finding: ``{"hernia": "positive"}``.
    """
    if isinstance(texts, str):
        texts = [texts]
    values = texts.values() if isinstance(texts, Mapping) else texts
    given = list(values) if isinstance(values, Iterable) else [None]
    if not all(isinstance(text, str) for text in given) or hasattr(texts, "columns"):
        raise DataError("pacer.label: expected reports as a str, a list of str or {id: str}")
    given = list(map(without_thoughts, given))
    check_residue("pacer.label", list(map(str, range(len(given)))), given, as_is)
    anchors = [extract_anchor(text).described(read_attributes(text)) for text in given]
    if more_findings is None:
        return anchors
    lexicon = with_more_findings(more_findings)
    return [Labels(**vars(one), more=read_more(text, lexicon)) for one, text in zip(anchors, given)]
