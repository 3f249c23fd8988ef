"""Anyone's reports: references and hypotheses of other systems, paired strictly and scored like PACER's own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import compress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl

from pacer.config import Strict
from pacer.config.corpus import Cleaner
from pacer.config.decode import Score
from pacer.core.contexts import CONTEXTS, Context
from pacer.core.errors import ConfigError, DataError
from pacer.data.cleaning import CLEANERS
from pacer.data.schemas import read_about
from pacer.external.protocols import last_box, without_repeats
from pacer.external.report_files import HYPOTHESIS_COLUMNS, KEPT_COLUMNS, REFERENCE_COLUMNS, ReportFile, read_reports
from pacer.metrics.cases import UNKNOWN, Scored
from pacer.metrics.chexbert.reference_labels import label_references
from pacer.metrics.inputs import DEFAULTS, Origin, ScoreInputs
from pacer.metrics.meteor import Meteor
from pacer.metrics.pairing import Prediction, named
from pacer.metrics.scoring import anchors_of, score_contexts
from pacer.metrics.signature import STRICTLY

#: Columns of a frame of paired records; ``given_id``: the id in the file, which several rows may share.
_SCHEMA = dict.fromkeys(("record_id", "given_id", "context", "report", "report_raw", *KEPT_COLUMNS), pl.String())


class Protocol(Strict):
    """How reports are read, paired and changed before scoring; all of it goes into the signature.

    ``missing``: a reference without a report is an error, or has an ``empty`` one. ``duplicates``: an id that stands
    more than once is an error, or its ``first`` row counts, or ``all`` do. ``extract``: ``boxed`` takes the last
    ``\\boxed{}``. ``deduplicate``: drop repeated sentences. ``clean_references``, ``clean_hypotheses``: by a report
    cleaner. ``split``: of references that have splits; ``None``: test, where they have them. ``context``: of references
    that have contexts; ``None``: all.
    """

    missing: Literal["error", "empty"] = "error"
    duplicates: Literal["error", "first", "all"] = "error"
    extract: Literal["none", "boxed"] = "none"
    deduplicate: bool = False
    clean_references: Literal["none", Cleaner] = "none"
    clean_hypotheses: Literal["none", Cleaner] = "none"
    split: str | None = None
    context: Context | None = None
    reference_id: str | None = None
    reference_text: str | None = None
    hypothesis_id: str | None = None
    hypothesis_text: str | None = None


#: Whole reports, paired one to one.
AS_GIVEN = Protocol()


def score_reports(
    references: str | Path,
    hypotheses: str | Path,
    chexbert_dir: str | Path | None,
    out_dir: str | Path,
    protocol: Protocol = AS_GIVEN,
    *,
    labels_path: str | Path | None = None,
    settings: Score = DEFAULTS,
) -> dict[str, dict]:
    """Score a file of hypotheses against a file of references; writes what
    :func:`~pacer.metrics.scoring.score_predictions` writes.

    Args:
        references, hypotheses: see :mod:`pacer.external.report_files`. References with a column ``context`` that names
            the four contexts are scored by context, others as one, ``all``.
        chexbert_dir: the labeller; None: no scores of labels.
        labels_path: CheXbert labels of the references, made there if the file does not exist.

    Raises:
        DataError: a file is malformed, both sides are the same column, a split or context is asked for that the
            references do not have, or ids do not pair. ConfigError: the references are clean already.
    """
    chexbert, labels = (None if path is None else Path(path) for path in (chexbert_dir, labels_path))
    inputs = ScoreInputs(chexbert, labels)
    given = read_reports(references, REFERENCE_COLUMNS, protocol.reference_id, protocol.reference_text)
    found = read_reports(hypotheses, HYPOTHESIS_COLUMNS, protocol.hypothesis_id, protocol.hypothesis_text)
    if given.path.samefile(found.path) and given.columns["text"] == found.columns["text"]:
        raise DataError(
            f"references and hypotheses are the same column {given.columns['text']} of {given.path}; name "
            "another file, or another column with --reference-text or --hypothesis-text"
        )
    if protocol.split is None and "split" in given.extra:
        protocol = protocol.model_copy(update={"split": "test"})
    expected = _select(given, protocol)
    # what a records.parquet says of its texts holds for its column of reports, not for the others
    clean = given.path.suffix.lower() == ".parquet" and given.columns["text"] == "report"
    about = read_about(references) if clean else {}
    if about and protocol.clean_references != "none":
        raise ConfigError(
            f"{references} holds reports that are clean already; cleaning twice is not cleaning once: "
            "leave out --clean-references"
        )
    if protocol.clean_references != "none":
        about = {"cleaner": protocol.clean_references}
    with Meteor() as meteor:
        records, reports, counts = pair_reports(expected, found, protocol)
        if inputs.chexbert is not None and inputs.labels is not None and not inputs.labels.is_file():
            label_references(records, inputs.chexbert, inputs.labels, settings.batch_size, settings.precision)
        predictions = [
            Prediction(record, report, None, False, None)
            for record, report in zip(records["record_id"], reports, strict=True)
        ]
        contexts = {}
        for context in (*CONTEXTS, UNKNOWN):
            mine = records["context"] == context
            if mine.any():
                rows = records.filter(mine)
                anchors = anchors_of(rows["report_raw"])
                contexts[context] = Scored(rows, list(compress(predictions, mine)), {}, anchors)
        files = {"references": expected, "hypotheses": found}
        read = {name: {"file": file.path.name} | file.columns for name, file in files.items()}
        return score_contexts(
            contexts,
            Path(out_dir),
            inputs,
            settings,
            Origin(
                {name: file.path for name, file in files.items()},
                about,
                protocol=read | protocol.model_dump() | counts | {"pairing": _pairing(found, counts)},
            ),
            meteor,
            train_records=_train_reports(given, protocol),
        )


def _train_reports(given: ReportFile, protocol: Protocol) -> pl.DataFrame | None:
    """The train split's references, which copies are looked for in; None where the file does not tell it apart."""
    if protocol.split in (None, "train", "all"):
        return None
    rows = given.take([row for row, split in enumerate(given.extra["split"]) if split == "train"])
    clean = CLEANERS.get(protocol.clean_references, str)
    return pl.DataFrame({"report": [clean(text) for text in rows.texts if text]}) if rows.texts else None


def _pairing(hypotheses: ReportFile, counts: Mapping[str, Any]) -> str:
    if hypotheses.ids is None:
        return "by position"
    loose = any(counts[name] for name in ("duplicate_references", "duplicate_hypotheses", "missing_hypotheses"))
    return "by id, as protocol says" if loose else STRICTLY


def pair_reports(
    references: ReportFile, hypotheses: ReportFile, protocol: Protocol
) -> tuple[pl.DataFrame, list[str], dict[str, Any]]:
    """Records in the order of the references, the report to score of each, and what was done, in counts.

    Raises:
        DataError: only one side has ids; an id is missing, extra or there twice and the protocol does not say what
            then; a reference has no text.
    """
    if not references.texts:
        raise DataError(f"{references.path} holds no references to score")
    _check_ids(references, hypotheses)
    if None in references.texts:
        raise DataError(f"{references.path}, {references.name(references.texts.index(None))}: the reference is missing")
    expected = _rows_by_id(references, protocol, references.extra.get("context"))
    found = _rows_by_id(hypotheses, protocol)
    extra = [key for key in found if key not in expected]
    if extra:
        choices = {"split": protocol.split, "context": protocol.context}
        chosen = "".join(f", {name} {value}" for name, value in choices.items() if value is not None)
        raise DataError(
            f"{hypotheses.path} has ids that {references.path} has not{chosen}: {named(extra)}"
            f"{_alike(expected, extra)}; write the ids the same way in both files"
        )
    pairs: list[_Row] = []
    for key, own in expected.items():
        theirs = found.get(key, [])
        if protocol.duplicates == "first":
            own, theirs = own[:1], theirs[:1]
        if theirs and len(own) not in (1, len(theirs)):
            raise DataError(
                f"id {key} has {len(own)} references and {len(theirs)} reports; expected as many of each, "
                "or one reference"
            )
        for number in range(max(len(own), len(theirs))):
            name = key if number == 0 else f"{key}#{number + 1}"
            if number and name in expected:
                raise DataError(
                    f"row {number + 1} of id {key} would be named {name}, which is another id of "
                    f"{references.path}; rename that one"
                )
            pairs.append(_Row(name, own[number if len(own) > 1 else 0], theirs[number] if theirs else None))
    raw = [None if pair.hypothesis is None else hypotheses.texts[pair.hypothesis] for pair in pairs]
    missing = [pair for pair, text in zip(pairs, raw, strict=True) if text is None]
    if missing and protocol.missing == "error":
        null = sum(pair.hypothesis is not None for pair in missing)
        there = f' ({null} of these {len(missing)} have a row, which holds null: write "" for an empty report)'
        raise DataError(
            f"{hypotheses.path} has no report for {named([pair.name for pair in missing])}{there * (null > 0)}; "
            "to score an empty report there, add --missing empty"
        )
    reports, changes = _changed([text or "" for text in raw], protocol)
    counts = {
        "duplicate_references": len(references.texts) - len(expected),
        "duplicate_hypotheses": len(hypotheses.texts) - len(found),
        "missing_hypotheses": len(missing),
    }
    return _records(references, pairs, protocol), reports, counts | changes


class _Row(NamedTuple):
    """A record to score: its name, and the rows of its reference and of its report, ``None`` without one."""

    name: str
    reference: int
    hypothesis: int | None


def _select(file: ReportFile, protocol: Protocol) -> ReportFile:
    """The references of the split and context that are asked for, where the file has them."""
    kept = range(len(file.texts))
    for column, wanted in (("split", protocol.split), ("context", protocol.context)):
        if wanted is None or (column, wanted) == ("split", "all"):
            continue
        if column not in file.extra:
            raise DataError(f"{file.path} has no column {column}, so {column} {wanted} cannot be chosen")
        kept = [row for row in kept if file.extra[column][row] == wanted]
        if not kept:
            raise DataError(f"{file.path} has no reference of {column} {wanted}")
    return file.take(kept)


def _check_ids(references: ReportFile, hypotheses: ReportFile) -> None:
    if (references.ids is None) != (hypotheses.ids is None):
        without, other = (references, hypotheses) if references.ids is None else (hypotheses, references)
        raise DataError(
            f"{without.path} has no ids, {other.path} has; give ids on both sides, or two files in the same order"
        )
    if references.ids is None and len(references.texts) != len(hypotheses.texts):
        raise DataError(
            f"{references.path} has {len(references.texts)} rows and {hypotheses.path} "
            f"{len(hypotheses.texts)}; files without ids are paired row by row"
        )


def _rows_by_id(file: ReportFile, protocol: Protocol, contexts: list[Any] | None = None) -> dict[str, list[int]]:
    """The rows of each id; more than one only where the protocol takes them, and of one context."""
    rows: dict[str, list[int]] = {}
    for row in range(len(file.texts)):
        rows.setdefault(file.key(row), []).append(row)
    repeated = [key for key, own in rows.items() if len(own) > 1]
    # of several contexts the first row would be as good as any
    several = [key for key in repeated if contexts and len({contexts[row] for row in rows[key]}) > 1]
    if several and protocol.duplicates != "all":
        raise DataError(
            f"{file.path} has more than one context for id {named(several)}; choose one with "
            f"--context, {', '.join(CONTEXTS)}"
        )
    if repeated and protocol.duplicates == "error":
        raise DataError(
            f"{file.path} has more than one row for id {named(repeated)}; --duplicates first scores the first row of "
            "each, --duplicates all scores every row"
        )
    return rows


def _changed(texts: list[str], protocol: Protocol) -> tuple[list[str], dict[str, Any]]:
    counts: dict[str, Any] = {}
    if protocol.extract == "boxed":
        boxes = [last_box(text) for text in texts]
        texts = [box.text for box in boxes]
        states = Counter(box.state for box in boxes)
        counts["boxes"] = {state: states[state] for state in ("closed", "absent", "unclosed")}
    if protocol.deduplicate:
        shorter = [without_repeats(text) for text in texts]
        counts["reports_with_repeats"] = sum(
            len(new.split()) < len(old.split()) for new, old in zip(shorter, texts, strict=True)
        )
        texts = shorter
    if protocol.clean_hypotheses != "none":
        texts = [CLEANERS[protocol.clean_hypotheses](text) if text.strip() else text for text in texts]
    return texts, counts


def _records(references: ReportFile, pairs: list[_Row], protocol: Protocol) -> pl.DataFrame:
    rows = references.take([pair.reference for pair in pairs])

    def values(column: str) -> list[str | None]:
        return list(map(_cell, rows.extra.get(column, [None] * len(pairs))))

    contexts = values("context")
    if not all(context in CONTEXTS for context in contexts):
        if protocol.context is None and any(contexts):
            raise DataError(f"{references.path}: column context must hold {', '.join(CONTEXTS)} in every row")
        contexts = [UNKNOWN] * len(pairs)
    texts = [text or "" for text in rows.texts]
    clean = CLEANERS.get(protocol.clean_references, str)
    return pl.DataFrame(
        {
            "record_id": [pair.name for pair in pairs],
            "given_id": [references.key(pair.reference) for pair in pairs],
            "context": contexts,
            "report": list(map(clean, texts)),
            "report_raw": [raw or text for raw, text in zip(values("report_raw"), texts, strict=True)],
            **{column: values(column) for column in KEPT_COLUMNS},
        },
        schema=_SCHEMA,
    )


def _cell(value: Any) -> str | None:
    """A cell as text; a blank one, or a number that is none, says nothing."""
    return None if value is None or value != value or not str(value).strip() else str(value)


def _alike(expected: Iterable[str], extra: list[str]) -> str:
    """One id of each side, where they differ only in spaces, MIMIC's letter, leading zeros or a decimal point."""

    def number(key: str) -> str:
        return re.sub(r"^[ps]?0*|\.0$", "", key.strip())

    known = {number(key): key for key in expected}
    key = next((key for key in extra if number(key) in known), None)
    return "" if key is None else f" ({key!r} is not the same id as {known[number(key)]!r})"
