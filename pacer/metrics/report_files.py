"""Files of reports of any system: read, paired strictly, and scored like PACER's own.

========================  ==================================================================================
CSV, TSV                  a header with an id and a text column; or one column of texts without a header, like
                          R2Gen's ``res.csv`` and ``gts.csv``: paired by position
JSON                      ``{id: text}``, ``{id: [text]}`` (LLM-RG4, R2GenGPT), ``{id: {column: value}}`` (ReXrank), a
                          list of objects, ``{column: [value]}``, or lists: the columns' names first, or texts alone
JSONL                     one object per line, like PACER's own predictions (name their column `report` explicitly)
Parquet                   an id and a text column, like PACER's ``records.parquet``
in Python                 ``{id: text}``, a sequence of texts (paired by position), or a polars or pandas frame
========================  ==================================================================================

The caller names the columns, or they are looked up in the lists below. Several possible text columns are an error.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl

from pacer.config import Strict
from pacer.config.corpus import Cleaner
from pacer.config.decode import Score
from pacer.core.contexts import CONTEXTS, Context
from pacer.core.errors import ConfigError, DataError
from pacer.core.hygiene import ANY_RESIDUE, is_absent
from pacer.core.io import opened
from pacer.data.cleaning import CLEANERS
from pacer.data.schemas import read_about
from pacer.data.tables import Table, open_table
from pacer.data.values import shown
from pacer.metrics.cases import UNKNOWN
from pacer.metrics.columns import is_index
from pacer.metrics.commitments import anchor_columns
from pacer.metrics.inputs import DEFAULTS, Origin, ScoreInputs
from pacer.metrics.predictions import PREDICTIONS, check_pairs, named
from pacer.metrics.score import score_cases
from pacer.metrics.signature import STRICTLY

#: Column names, in any case. The first id column that a file has is used; only one text column is allowed.
ID_COLUMNS = ("probe_id", "record_id", "id", "study_id", "image_id", "ids", "case")
REFERENCE_COLUMNS = ("reference", "report", "ground_truth", "findings", "text", "gt", "gts")
HYPOTHESIS_COLUMNS = ("hypothesis", "report", "prediction", "generated", "text", "model_prediction", "pred", "res")
#: Optional columns of a file of references.
EXTRA_COLUMNS = (
    *("context", "split", "report_raw", "study_id", "subject_id", "findings_original", "view", "sections"),
)
#: Columns that name what a row belongs to: where both files have one, it must agree within a pair.
_SECOND_ID = re.compile(r"(.*[_ -])?u?id|ids|(study|image|subject|patient|dicom|series|record)(uid|id)?")
#: The rest of an id that was a decimal number.
_WAS_DECIMAL = r"(\d)\.0+$"
#: Prefix of these columns among the rows of :class:`Reports`.
_ALSO = "also "
#: Column name for a file that holds only texts.
_ALONE = "the only column"
#: Column names that messages may show; anything else could be report text.
_NAME = re.compile(r"(?=.{1,50}\Z)[\w-]+( [\w-]+)?")
#: Separators that suggest that a file is not separated as its name implies.
_OTHER_SEPARATOR = re.compile(r"[;\t|]")
#: Most words of a first row that may be the column's name, if it contains no punctuation.
_NAME_WORDS = 3


#: Signs of uncleaned text that change language scores: capitals, and a period without a blank before it.
_UNCLEAN = r"[A-Z]|[^\s.]\.(\s|$)"
#: Remedies for ids that do not pair, by a phrase in the error message.
_WAYS = {
    "more than once in": "keep one row for each id, or select references with --split and --context",
    "missing in": "write the ids in the same way in both files, name their columns with --reference-id and "
    "--hypothesis-id, or score an empty report where one is missing or null with --missing empty",
    "but not in": "remove these rows, or give their references",
}
#: Columns of predictions that other systems do not provide.
_NOT_SAID = ("anchor_positive", "anchor_negative", "anchor_uncertain", "gate", "unclosed", "tokens")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


#: References or hypotheses: the path of a file, or one of the forms in Python.
Source = str | Path | Mapping[str, Any] | Sequence[Any] | pl.DataFrame | Any


class Protocol(Strict):
    """How reports are read, paired and changed before scoring; all of it is recorded in the signature.

    ``missing``: a reference without a report is an error, or is scored with an ``empty`` one. ``missing_references``: a
    reference that is blank, or a word such as ``nan``, is an error, or its pair is left out. ``extract``: ``boxed``
    takes the last ``\\boxed{}``. ``deduplicate``: drop repeated sentences. ``clean_references``, ``clean_hypotheses``:
    the report cleaner to apply. ``split``: the split to score; ``None``: test, if the references have splits.
    ``context``: the context to score; ``None``: all.
    """

    missing: Literal["error", "empty"] = "error"
    missing_references: Literal["error", "leave-out"] = "error"
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


class Reports(NamedTuple):
    """The rows of a file in file order: ``id`` (the row number from 1 if the file has no ids), ``text`` (null: missing)
    and :data:`EXTRA_COLUMNS` as text (null: blank, or the file has no such column); ``also NAME``: further columns of
    ids. ``columns``: the file's columns that were used; it lacks ``id`` if the file has no ids."""

    path: Path
    rows: pl.DataFrame
    columns: dict[str, str]


def reports_of(
    source: Source, text_columns: Sequence[str], id_column: str | None = None, text_column: str | None = None
) -> Reports:
    """Read a file of reports, whose suffix determines the format, or reports in memory.

    Args:
        text_columns: names to look for, :data:`REFERENCE_COLUMNS` or :data:`HYPOTHESIS_COLUMNS`.
        id_column, text_column: the columns to use instead.

    Raises:
        DataError: the file is missing, damaged or of another kind, a column is missing or ambiguous, or a row holds
            something other than text.
    """
    side = "reference" if tuple(text_columns) == REFERENCE_COLUMNS else "hypothesis"
    if isinstance(source, str | Path):
        table = _read(Path(source), {*text_columns, text_column, id_column}, f"--{side}-text")
    else:
        table = _table_of(Path("references" if side == "reference" else "hypotheses"), source)
    path = table.path
    if len(set(table.columns)) != len(table.columns):
        raise DataError(f"{path} has a column name more than once")
    if not table.rows:
        raise DataError(f"{path} holds no reports")
    names = [name for name in table.columns if not is_index(name)]
    candidates = _named(names, text_column, (*text_columns, _ALONE))
    if len(candidates) > 1:
        raise DataError(
            f"{path} has several columns that may hold the reports: {_shown(candidates)}; choose one with --{side}-text"
        )
    ids = _named(names, id_column, ID_COLUMNS)
    absent = [] if candidates else [_absent("reports", text_column, text_columns, f"--{side}-text")]
    if not ids and (id_column or len(table.columns) > 1):
        absent.append(_absent("ids", id_column, ID_COLUMNS, f"--{side}-id"))
    if absent:
        raise DataError(f"{path} has the columns {_shown(table.columns)}: {'; '.join(absent)}")
    (text_name,) = candidates
    columns = {"id": ids[0], "text": text_name} if ids else {"text": text_name}
    keys = table.values(ids[0]) if ids else range(1, len(table.rows) + 1)
    for place, text, key in zip(table.places, table.values(text_name), keys, strict=True):
        if text is not None and not isinstance(text, str):
            raise DataError(f"{path}, {place}, {text_name}: expected text, got {shown(text)}")
        if isinstance(key, bool) or not isinstance(key, str | int) or not str(key).strip():
            decimal = "; a gap in the column made it a decimal number, so write it as text" * isinstance(key, float)
            raise DataError(
                f"{path}, {place}, {ids[0]}: expected an id, text or a whole number, got {shown(key)}{decimal}"
            )
    known = {name.strip().lower(): name for name in names}
    further = {name: known[name] for name in EXTRA_COLUMNS if name in known}
    table.check_ids([*ids[:1], *(further[name] for name in ("study_id", "subject_id") if name in further)])
    also = {key: name for key, name in known.items() if _SECOND_ID.fullmatch(key) and name not in columns.values()}
    cells = table.frame(list({*columns.values(), *further.values(), *also.values()}))
    text = cells[text_name].fill_null("") if table.kind == "csv" else cells[text_name]
    rows = pl.DataFrame({"id": [str(key) for key in keys], "text": text}).with_columns(
        pl.Series(name, cells[further[name]] if name in further else [None] * len(keys), pl.String)
        for name in EXTRA_COLUMNS
    )
    rows = rows.with_columns(
        cells[name].str.strip_chars().str.replace(_WAS_DECIMAL, "$1").replace("", None).alias(f"{_ALSO}{key}")
        for key, name in also.items()
    )
    blank = pl.col(EXTRA_COLUMNS).str.strip_chars() == ""
    return Reports(path, rows.with_columns(pl.when(~blank).then(pl.col(EXTRA_COLUMNS))), columns)


def _absent(what: str, given: str | None, known: Sequence[str], option: str) -> str:
    """Return the message for a file that lacks the column ``given`` by ``option``, or any of the ``known`` columns."""
    if given is not None:
        return f"none is {given}; {option} must name one of them"
    return f"none is known as that of {what}; expected one of {', '.join(known)}; rename it, or name it with {option}"


def _shown(names: Sequence[str]) -> str:
    return ", ".join(name if _NAME.fullmatch(name) else "a text" if name.strip() else "one unnamed" for name in names)


def _named(names: Sequence[str], given: str | None, known: Sequence[str]) -> list[str]:
    """Return the column with the name ``given``, else all columns with a ``known`` name."""
    if given is not None:
        return [name for name in names if name == given]
    return [name for wanted in known for name in names if name.strip().lower() == wanted]


def _read(path: Path, headings: Collection[str | None], option: str) -> Table:
    """Read a file. A single-column CSV has a header only if its first row is one of ``headings``; ``option`` lets the
    user add one."""
    if path.is_dir():
        raise DataError(f"{path} is a folder; a folder of predictions is scored with --records and --predictions")
    table = _read_json(path) if path.suffix.lower() == ".json" else open_table(path)
    if table.kind == "csv" and len(table.columns) == 1:
        (first,) = table.columns
        if first not in headings and first.strip().lower() not in headings:
            words = len(first.split())
            if words == 1 or (1 < words <= _NAME_WORDS and not set(first) & set(".,;:!?")):
                raise DataError(
                    f"{path}: its only column begins with what could be its name, which would be scored as a report; "
                    f"name the column with {option}, and separate its cells by commas (.csv) or tabs (.tsv)"
                )
            with opened(path) as file:  # which a table passes over, and here all pairs would move up
                if not file.readline().removeprefix(b"\xef\xbb\xbf").strip():
                    raise DataError(f'{path}, line 1: a blank line; write "" for an empty report')
            table = table._replace(columns=[_ALONE], numbers=[1, *table.numbers], rows=[(first,), *table.rows])
            if all(text and _OTHER_SEPARATOR.search(text) for (text,) in table.rows):
                raise DataError(
                    f"{path}: every line holds a semicolon, tab or bar, and no comma; if these stand between cells, "
                    "separate them by commas (.csv) or tabs (.tsv)"
                )
        if empty := [place for place, row in zip(table.places, table.rows, strict=True) if row == (None,)]:
            raise DataError(f'{path}, {empty[0]}: a blank line; write "" for an empty report')
    return table


def _read_json(path: Path) -> Table:
    try:
        content = json.loads(path.read_bytes().decode("utf-8-sig"), object_pairs_hook=_once)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except _Repeated as error:
        raise DataError(f"{path} holds the id {error} more than once") from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read as JSON in UTF-8 ({type(error).__name__}); save it again") from None
    return _table_of(path, content)


def _table_of(path: Path, content: Any) -> Table:
    """Return the table that JSON or a Python object holds, in one of the forms at the top of this module. A value in a
    list of one element stands for the value."""
    if hasattr(content, "columns"):  # a frame; its missing values are NaN, None or pandas' own
        columns = {str(name): [_plain(value) for value in content[name]] for name in content.columns}
        return Table(
            path, "parquet", list(columns), range(1, len(content) + 1), list(zip(*columns.values(), strict=True))
        )
    if isinstance(content, Mapping):
        values = list(content.values())
        if values and all(isinstance(value, Mapping) for value in values):
            key = "key" if any("id" in value for value in values) else "id"
            content = [{key: id, **value} for id, value in content.items()]
        elif all(isinstance(value, list) for value in values) and {str(key).lower() for key in content} & {*ID_COLUMNS}:
            if len(set(map(len, values))) > 1:
                raise DataError(f"{path}: its lists are columns, and must have the same length")
            content = [dict(zip(content, row, strict=True)) for row in zip(*values, strict=True)]
        else:
            content = [{"id": id, "text": text} for id, text in content.items()]
    elif not isinstance(content, Sequence) or isinstance(content, str):
        content = [content]
    elif content and all(isinstance(row, list) and len(row) == len(content[0]) for row in content):
        header = [_ALONE] if len(content[0]) == 1 else list(map(str, content[0]))
        content = [dict(zip(header, row, strict=True)) for row in content[len(header) > 1 :]]
    elif all(isinstance(text, str | None) for text in content):
        content = [{_ALONE: text} for text in content]
    if odd := [row for row in content if not isinstance(row, Mapping)]:
        raise DataError(
            f"{path} must be an object of ids and texts, a list of objects, or lists of equal length, got "
            f"{shown(odd[0])}; docs/evaluation.md lists the forms"
        )
    names = list(dict.fromkeys(name for row in content for name in row))
    rows = [tuple(_single(row.get(name)) for name in names) for row in content]
    return Table(path, "json", names, range(1, len(rows) + 1), rows)


def _single(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _plain(value: Any) -> Any:
    return None if type(value).__name__ in ("NAType", "NaTType") or value != value else value


class _Repeated(Exception):
    """A JSON object has a key more than once."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise _Repeated(Counter(name for name, _ in pairs).most_common(1)[0][0])
    return content


#: Whole reports, paired one to one.
AS_GIVEN = Protocol()


def score_reports(
    references: Source,
    hypotheses: Source,
    chexbert_dir: str | Path | None,
    out_dir: str | Path,
    protocol: Protocol = AS_GIVEN,
    *,
    labels_path: str | Path | None = None,
    settings: Score = DEFAULTS,
) -> dict[str, dict]:
    """Score hypotheses against references; writes and returns the same as
    :func:`~pacer.metrics.score.score_cases`.

    Args:
        references, hypotheses: files or objects, see the top of this module. References with a column ``context`` that
            names the four contexts are scored by context, others as one, ``all``.
        chexbert_dir: the labeller; None: no scores of labels.
        labels_path: CheXbert labels of the references; the file is created if it does not exist.

    Raises:
        DataError: a file is malformed, both sides are the same column, the references lack the requested split or
            context, or ids do not pair. ConfigError: the references are already clean.
    """
    inputs = ScoreInputs(*(None if path is None else Path(path) for path in (chexbert_dir, labels_path)))
    expected = reports_of(references, REFERENCE_COLUMNS, protocol.reference_id, protocol.reference_text)
    generated = reports_of(hypotheses, HYPOTHESIS_COLUMNS, protocol.hypothesis_id, protocol.hypothesis_text)
    paths = [Path(source) if isinstance(source, str | Path) else None for source in (references, hypotheses)]
    is_one_file = all(paths) and expected.path.samefile(generated.path)
    if is_one_file and expected.columns["text"] == generated.columns["text"]:
        raise DataError(
            f"references and hypotheses are the same column {expected.columns['text']} of {expected.path}; name "
            "another file, or another column with --reference-text or --hypothesis-text"
        )
    if protocol.split is None and expected.rows["split"].count():
        protocol = protocol.model_copy(update={"split": "test"})
    about = _about(expected, protocol)
    cases, counts = pair_reports(expected, generated, protocol)
    loose = "by id, as protocol says" if counts["missing_hypotheses"] else STRICTLY
    files = {"references": expected, "hypotheses": generated}
    read = {name: {"file": file.path.name} | file.columns for name, file in files.items()}
    applied = read | protocol.model_dump() | counts | {"pairing": loose if "id" in generated.columns else "by position"}
    origin = Origin(dict(zip(files, paths, strict=True)), about, protocol=applied)
    return score_cases(cases, Path(out_dir), inputs, settings, origin, _train_reports(expected, protocol))


def _about(references: Reports, protocol: Protocol) -> dict[str, Any]:
    """Return how the references were made. The metadata of a records.parquet describes only its column of reports."""
    is_cleaned_column = references.path.suffix.lower() == ".parquet" and references.columns["text"] == "report"
    about = read_about(references.path) if is_cleaned_column else {}
    if protocol.clean_references == "none":
        return about
    if about:
        raise ConfigError(
            f"{references.path} holds reports that are clean already; cleaning them again would change them: "
            "leave out --clean-references"
        )
    return {"cleaner": protocol.clean_references}


def _train_reports(references: Reports, protocol: Protocol) -> list[str] | None:
    """Return the train split's references, used to detect copies; None if the file does not identify that split."""
    if protocol.split in (None, "train", "all"):
        return None
    texts = references.rows.filter(split="train")["text"].drop_nulls().to_list()
    clean = CLEANERS.get(protocol.clean_references, str)
    return [clean(text) for text in texts if text] or None


def pair_reports(references: Reports, hypotheses: Reports, protocol: Protocol) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return the cases, in the order of the references, and counts of what was done to the reports.

    Raises:
        DataError: only one side has ids; an id is missing, extra or repeated; a text is missing; or a context is not
            one of the four.
    """
    if ("id" in references.columns) != ("id" in hypotheses.columns):
        without, other = (references, hypotheses) if "id" in hypotheses.columns else (hypotheses, references)
        raise DataError(
            f"{without.path} has no ids, {other.path} has; give ids on both sides, or two files in the same order"
        )
    expected, name = _select(references, protocol)
    unwritten = expected.filter(pl.Series([text is None or _says_nothing(text) for text in expected["text"]]))["id"]
    if len(unwritten) and protocol.missing_references == "error":
        raise DataError(
            f"{references.path}: the reference is missing for {named(unwritten.to_list())}: blank, or a word such as "
            "nan; correct the file, or leave these pairs out with --missing-references leave-out"
        )
    expected = expected.filter(~pl.col("id").is_in(unwritten.to_list()))
    if expected.is_empty():
        raise DataError(f"{name}: there is no reference with a text")
    hypotheses = hypotheses._replace(rows=hypotheses.rows.filter(~pl.col("id").is_in(unwritten.to_list())))
    given = hypotheses.rows.filter(pl.col("text").is_not_null())
    allowed = protocol.missing == "empty"
    try:
        for rows in (hypotheses.rows, given):  # an id without a text must also pair
            check_pairs(expected["id"].to_list(), rows["id"].to_list(), name, str(hypotheses.path), missing=allowed)
    except DataError as error:
        ways = [way for words, way in _WAYS.items() if words in str(error)]
        sides = [set(rows["id"].str.replace(_WAS_DECIMAL, "$1")) for rows in (expected, hypotheses.rows)]
        if len(set.intersection(*sides)) > len(set(expected["id"]) & set(hypotheses.rows["id"])):
            ways.insert(0, "ids such as 101.0 beside 101 were decimal numbers for a time: write whole ones in both")
        raise DataError(f"{error}; {'; '.join(ways)}") from None
    if protocol.reference_id is None and protocol.hypothesis_id is None:
        _check_second_ids(expected, references, hypotheses)
    written = given.select("id", pl.col("text").alias("hypothesis"))
    cases = expected.join(written, on="id", how="left", maintain_order="left")
    missing = cases["hypothesis"].null_count()
    # counted before cleaning, which breaks it up; only files that have some get an entry
    texts = {"references": cases["text"], "hypotheses": cases["hypothesis"]}
    found = {f"residue_{side}": int(column.str.contains(ANY_RESIDUE).sum()) for side, column in texts.items()}
    residue = {name: count for name, count in found.items() if count}
    reports = _changed(cases["hypothesis"].fill_null("").to_list(), protocol)
    clean = CLEANERS.get(protocol.clean_references, str)

    cases = cases.select(
        pl.col("id").alias("record_id"),
        pl.Series("context", _contexts(cases, references.path, protocol)),
        *("study_id", "subject_id", "findings_original", "view", "sections"),
        pl.Series("report", [clean(text) for text in cases["text"]]),
        pl.coalesce("report_raw", "text").alias("report_raw"),
        pl.Series("hypothesis", reports),
        *(pl.lit(None, kind).alias(name) for name, kind in PREDICTIONS.items() if name in _NOT_SAID),
        pl.lit(False).alias("fallback"),
    )
    counts: dict[str, Any] = {"missing_hypotheses": missing} | residue
    if blank := written.filter(pl.Series(map(_says_nothing, written["hypothesis"]), dtype=pl.Boolean))["id"].to_list():
        counts["blank_hypotheses"] = f"{len(blank)} ({named(blank)})"
    if len(unwritten):
        counts["left_out_references"] = len(unwritten)
    for side, name in (("references", "report"), ("hypotheses", "hypothesis")):
        counts[f"unclean_{side}"] = int(cases[name].str.contains(_UNCLEAN).sum())
    return cases.with_columns(anchor_columns(cases["report_raw"], "reference")), counts


def _select(file: Reports, protocol: Protocol) -> tuple[pl.DataFrame, str]:
    """Return the references of the requested split and context, and a name for this selection."""
    rows, words = file.rows, []
    for column, wanted in (("split", protocol.split), ("context", protocol.context)):
        if wanted is None or (column, wanted) == ("split", "all"):
            continue
        if not rows[column].count():
            raise DataError(f"{file.path} has no column {column}, so {column} {wanted} cannot be chosen")
        rows = rows.filter(pl.col(column) == wanted)
        words.append(f", {column} {wanted}")
    name = f"{file.path}{''.join(words)}"
    if rows.is_empty():
        there = ", ".join(file.rows["split"].drop_nulls().unique().sort().head(5))
        raise DataError(f"{name}: there is no reference" + f"; its splits are {there}" * bool(there))
    return rows, name


def _contexts(cases: pl.DataFrame, path: Path, protocol: Protocol) -> list[str]:
    """Return the context of each reference; :data:`UNKNOWN` for all if the file does not name the four contexts."""
    contexts = cases["context"].to_list()
    if set(contexts) <= set(CONTEXTS):
        return contexts
    if protocol.context is None and any(contexts):
        raise DataError(f"{path}: column context must hold {', '.join(CONTEXTS)} in every row")
    return [UNKNOWN] * len(cases)


def _says_nothing(text: str) -> bool:
    return not text.strip() or is_absent(text)


def _check_second_ids(expected: pl.DataFrame, references: Reports, hypotheses: Reports) -> None:
    """Refuse pairs of rows that another column of ids, which both files have, says are of different cases."""
    also = [name for name in expected.columns if name.startswith(_ALSO) and name in hypotheses.rows.columns]
    pairs = expected.select("id", *also).join(hypotheses.rows.select("id", *also), on="id", suffix=" given")
    for name in also:
        wrong = pairs.filter(pl.col(name) != pl.col(f"{name} given"))["id"]
        if len(wrong):
            column = name.removeprefix(_ALSO)
            raise DataError(
                f"{references.path} and {hypotheses.path} pair by {references.columns['id']}, but their column "
                f"{column} disagrees in {len(wrong)} of {len(pairs)} pairs, first for {wrong[0]}; name the right "
                f"columns, as in --reference-id {column} --hypothesis-id {column}"
            )


def _changed(texts: list[str], protocol: Protocol) -> list[str]:
    """Return the reports in the form in which they are scored. A word such as ``nan`` stands for an empty report."""
    texts = ["" if is_absent(text) and re.search(r"\w", text) else text for text in texts]
    if protocol.extract == "boxed":
        texts = [last_box(text) for text in texts]
    if protocol.deduplicate:
        texts = [without_repeats(text) for text in texts]
    if protocol.clean_hypotheses != "none":
        texts = [CLEANERS[protocol.clean_hypotheses](text) if text.strip() else text for text in texts]
    return texts


def last_box(text: str) -> str:
    r"""Return the content of the last ``\boxed{...}``, with its end found by counting braces (paper, appendix
    "Additional Conventional-SN Baselines"). The text is empty if there is no box or the last one is not closed."""
    _, box, rest = text.rpartition("\\boxed{")
    depth = 1
    for position, letter in enumerate(rest if box else ""):
        depth += (letter == "{") - (letter == "}")
        if depth == 0:
            return rest[:position].strip()
    return ""


def without_repeats(text: str) -> str:
    """Return the report with only the first occurrence of every sentence.

    Sentences end at a period, question or exclamation mark before white space. They are equal if they differ only in
    case, white space and the blank before the end mark.
    """
    sentences: dict[str, str] = {}
    for sentence in _SENTENCE_END.split(text.strip()):
        sentences.setdefault(" ".join(sentence.lower().rstrip(".!? ").split()), sentence)
    return " ".join(sentences.values())
