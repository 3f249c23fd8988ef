"""``pacer score``, ``score-run``, ``compare``, ``label`` and ``show``; heavy imports wait until one
runs."""

from __future__ import annotations

import json
import math
import signal
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from pacer.config.corpus import Cleaner, Delimiter
from pacer.config.params import load_profile
from pacer.core.errors import ConfigError, DataError
from pacer.core.io import check_unused, write_json, write_text
from pacer.display import terminal
from pacer.display.terminal import BACKBONES, CORPUS, PARAMS, console, echo, print_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl

    from pacer.statistics.system import Scores


def score(
    references: Path,
    hypotheses: Path,
    out: Path,
    chexbert: Path | None = None,
    id_column: str | None = None,
    reference_text: str | None = None,
    hypothesis_text: str | None = None,
    delimiter: Delimiter | None = None,
    missing: Literal["error", "empty"] = "error",
    extract: Literal["none", "boxed"] = "none",
    as_is: bool = False,
    clean: Literal["none", Cleaner] = "none",
    columns: Path | None = None,
    metric: list[str] | None = None,
    without: list[str] | None = None,
    more_findings: str | None = None,
    force: bool = False,
) -> None:
    """Score reports of any system against references (`pacer score-run`: predictions of a run).
    Further options are in Python: help(pacer.score)."""
    _end_on_sigterm()
    terminal.check_exists(chexbert, columns, references, hypotheses)
    from pacer.statistics.calls import score as score_files
    from pacer.tables.reports import id_columns
    from pacer.tables.sources import open_source

    terminal.import_from_here()  # modules of --metric
    expected = open_source(references, "", delimiter=delimiter)
    is_one = hypotheses == references
    generated = expected if is_one else open_source(hypotheses, "", delimiter=delimiter)
    reference_id, hypothesis_id = id_columns(expected, generated, id_column)
    result = score_files(
        expected,
        generated,
        out=out,
        chexbert=chexbert,
        columns=columns,
        metrics=metric or (),
        force=force,
        without=without or (),
        more_findings=more_findings,
        missing=missing,
        extract=extract,
        as_is=as_is,
        clean_references=clean,
        clean_hypotheses=clean,
        reference_id=reference_id,
        reference_text=reference_text,
        hypothesis_id=hypothesis_id,
        hypothesis_text=hypothesis_text,
    )
    _print_scores(result, out)


def score_run(
    predictions: Path,
    out: Path,
    records: Path = CORPUS,
    chexbert: Path | None = None,
    labels: Path | None = None,
    split: str | None = None,
    context: list[str] | None = None,
    columns: Path | None = None,
    metric: list[str] | None = None,
    without: list[str] | None = None,
    force: bool = False,
    params: Path | None = None,
) -> None:
    """Score a run: the predictions of `pacer decode` for a corpus's records."""
    _end_on_sigterm()
    if params is None and PARAMS.exists():
        params = PARAMS
    contexts = terminal.check_contexts(context)
    terminal.check_exists(chexbert, columns)
    terminal.check_exists(records, predictions, remedy=terminal.FROM_STAGE)
    from pacer.metrics.options import DEFAULTS, Scoring
    from pacer.metrics.predictions import read_run
    from pacer.metrics.score import score_cases
    from pacer.statistics.calls import check_replaced
    from pacer.statistics.system import Scores

    settings = DEFAULTS if params is None else load_profile(params).score
    if columns is not None:
        settings = settings.model_copy(update={"columns": str(columns)})
    terminal.import_from_here()  # modules of --metric
    if metric:
        settings = settings.model_copy(update={"metrics": metric})
    if not force:
        check_replaced(out)
    options = Scoring(
        chexbert or BACKBONES / "chexbert", labels, settings=settings, without=tuple(without or ())
    )
    cases, origin = read_run(records, predictions, split=split, contexts=contexts)
    result = Scores.of(score_cases(cases, options, origin))
    result.write(out)
    _print_scores(result, out)


def _end_on_sigterm() -> None:
    """End on SIGTERM as after Ctrl-C, so that METEOR's process and those that read reports end
    too."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def _print_scores(result: Scores, out: Path) -> None:
    from pacer.metrics.scores import score_of, scores_at
    from pacer.metrics.signature import reading_notes
    from pacer.reporting.breakdowns import group_scores
    from pacer.reporting.score_tables import (
        caution,
        convention_table,
        group_table,
        score_table,
        signature_line,
    )
    from pacer.statistics.halves import units_of

    scores = result.scores
    cases = result.cases
    signature = result.signature
    print_table(score_table(scores))
    others = {
        f"Against the original findings ({signature.language['original_references']})": score_table(
            scores, scores_at("originals")
        ),
        "Your scores (--columns, --metric): mean over the records with a value": score_table(
            scores, list(map(score_of, signature.score_columns)), counted=signature.counted
        ),
        "By label convention": convention_table(result.conventions),
        "What the reports state": score_table(
            scores, scores_at("contents"), counted=signature.counted
        ),
    }
    for title, table in others.items():
        if table is not None and len(table.columns) > 1:
            console.print(f"\n{title}")
            print_table(table)
    for line in result.warnings:
        echo(line, "yellow")
    if signature.groups and signature.clinical:
        groups = group_scores(cases, result.convention, signature.groups)
        grouped = [score for score in groups if score.column in signature.groups]
        console.print(f"\nF1 by {', '.join(signature.groups)}; other scores are not grouped")
        print_table(group_table(grouped))
    console.print()
    unit = units_of(cases).note
    for line in filter(
        None,
        (
            *reading_notes(signature),
            unit,
            signature_line(signature),
            caution(signature),
        ),
    ):
        echo(line)
    console.print(f"\nwritten to {out}")


#: The files of `pacer compare`.
_COMPARED = (
    "comparison.json",
    *(
        f"{name}.{suffix}"
        for name in ("table", "systems", "pairs")
        for suffix in ("md", "tex", "csv")
    ),
)


def compare(
    systems: list[str],
    convention: str | None = None,
    max_loss: list[str] | None = None,
    as_json: bool = False,
    out: Path | None = None,
    force: bool = False,
) -> None:
    """Compare two scored runs case by case, or several with the first, A. Intervals and p values
    come from random halves of the patients. --max-loss f1=0.02 fails if the whole interval of the
    change is below −0.02."""
    places = terminal.named_paths(systems)
    allowed = _allowed_losses(max_loss or ())
    if len(places) < 2:
        raise ConfigError("expected at least two folders to compare, A and B")
    terminal.check_exists(*places.values())
    if out is not None:
        check_unused(*(out / name for name in _COMPARED), force=force)
    from pacer.statistics.calls import compare as compare_systems

    compared = compare_systems(places, convention=convention)
    table = compared.table()
    pairs = {(compared.first, name): one for name, one in compared.others.items()}
    if len(pairs) == 1 and len(compared.scores) == 1:
        table = table.without("Context")
    if as_json:
        print(json.dumps(asdict(compared), indent=2, ensure_ascii=False))
    else:
        print_table(replace(table, notes=("", *table.notes)))
    if out is not None:
        from pacer.reporting import systems as tables

        for name in _COMPARED:  # no file of an earlier comparison stays
            (out / name).unlink(missing_ok=True)
        write_json(out / "comparison.json", asdict(compared))
        tables.write_table(out / "table", table, tables.pair_rows(pairs))
        found = {name: tables.read_system(at, convention) for name, at in places.items()}
        tables.write_table(out / "systems", tables.system_table(found), tables.system_rows(found))
        if len(pairs) > 1:
            pairs = tables.compare_pairs(places, convention, pairs)
            text = tables.pair_table(pairs, compared.splits)
            tables.write_table(out / "pairs", text, tables.pair_rows(pairs))
    for sentence in compared.losses(allowed, certain=False):
        print(sentence, file=sys.stderr)
    if compared.losses(allowed):
        raise typer.Exit(3)


def _allowed_losses(entries: Iterable[str]) -> dict[str, float]:
    allowed: dict[str, float] = {}
    for entry in entries:
        score, _, text = entry.partition("=")
        try:
            loss = float(text)
        except ValueError:
            loss = math.nan
        if not 0 <= loss < math.inf:
            raise ConfigError(
                f"--max-loss {entry}: expected SCORE=LOSS with a finite loss from 0 on, such as "
                "f1=0.02"
            )
        if score in allowed:
            raise ConfigError(f"--max-loss: {score} is given twice; expected one loss for a score")
        allowed[score] = loss
    return allowed


def label(
    file: Path,
    out: Path | None = None,
    as_json: bool = False,
    id_column: str | None = None,
    report_text: str | None = None,
    delimiter: Delimiter | None = None,
    as_is: bool = False,
    more_findings: str | None = None,
    attributes: bool = False,
    mentions: bool = False,
    force: bool = False,
) -> None:
    """Read the findings in reports by rules. Each report is a row and each finding a column: 1 the
    report affirms it, 0 denies it, -1 leaves it uncertain, blank does not mention it."""
    terminal.check_exists(file)
    if attributes and mentions:
        raise ConfigError("--attributes describes findings, not their mentions; omit --mentions")
    _check_table_file(out, force)
    import polars as pl

    from pacer.reporting.labelled import label_table, mention_table
    from pacer.tables.generated import check_residue, without_thoughts
    from pacer.tables.reports import REPORTS, not_english, reports_of
    from pacer.text.rules.more import with_more_findings

    lexicon = None if more_findings is None else with_more_findings(more_findings)
    reports = reports_of(file, REPORTS, id_column, report_text, delimiter).rows
    if reports["id"].is_duplicated().any():
        raise DataError(
            f"{file}: an id has several reports; choose a column of unique ids with --id"
        )
    read = [text and without_thoughts(text) for text in reports["text"]]
    reports = reports.with_columns(text=pl.Series(read, dtype=pl.String))
    residue = check_residue(str(file), reports["id"].to_list(), read, as_is)
    if mentions:
        table = mention_table(reports, lexicon)
        silent = len(reports) - table["id"].n_unique()
        summary = f"{len(table):,} mentions; {silent:,} of {len(reports):,} reports have none"
    else:
        table = label_table(reports, lexicon, attributes=attributes)
        silent = table.drop("id").select(pl.all_horizontal(pl.all().is_null())).sum().item()
        summary = f"{len(table):,} reports; {silent:,} of them mention no finding"
        if empty := reports["text"].null_count():
            summary += f", and {empty:,} of these have no text"
    if out is not None:
        _write_rows(table, out)
    else:
        print(table.write_ndjson() if as_json else table.write_csv(), end="")
    if residue:
        print(f"warning: {residue}", file=sys.stderr)
    if foreign := not_english(reports["id"], reports["text"]):
        print(
            f"warning: reports without any frequent English word: {foreign}; the rules read no "
            "other language",
            file=sys.stderr,
        )
    print(summary, file=sys.stderr)


#: Formats of tables by the suffix of their file.
_FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "ndjson", ".ndjson": "ndjson"}


def _check_table_file(out: Path | None, force: bool) -> None:
    """Refuse a file that exists or whose suffix is unknown, before any report is read."""
    if out is not None and out.suffix.lower() not in _FORMATS:
        raise ConfigError(f"--out {out}: expected a file name that ends in .csv, .json or .jsonl")
    check_unused(out, force=force)


def _write_rows(rows: pl.DataFrame, out: Path) -> None:
    """Write rows to a file, in the format that its suffix names."""
    write_text(out, getattr(rows, f"write_{_FORMATS[out.suffix.lower()]}")())


def findings(
    systems: list[str],
    verdict: list[str] | None = None,
    wrong: Literal["side", "severity", "course", "state"] | None = None,
    finding: str | None = None,
    worst: int | None = None,
    more_findings: str | None = None,
    out: Path | None = None,
    as_json: bool = False,
    force: bool = False,
) -> None:
    """Count by finding how often reports affirm what the references affirm (hit), miss or invent
    it, and apart from this the denials; or list single findings with their words, or the worst
    reports."""
    places = terminal.named_paths(systems)
    terminal.check_exists(*places.values())
    _check_table_file(out, force)
    import polars as pl

    from pacer.metrics.ledger import VERDICTS
    from pacer.metrics.result import Result
    from pacer.reporting import findings as tables
    from pacer.text.rules.more import with_more_findings

    results = {name: Result.read(path) for name, path in places.items()}
    lexicon = None if more_findings is None else with_more_findings(more_findings)
    rows = tables.ledger_of(results, lexicon)
    notes = tables.notes_on(results, lexicon)
    if finding is not None:
        rows = rows.filter(pl.col("finding") == tables.known_finding(finding, rows, lexicon))
    if verdict:
        if unknown := sorted({*verdict} - {*VERDICTS}):
            raise ConfigError(f"--verdict {unknown[0]}: expected one of {', '.join(VERDICTS)}")
        rows = rows.filter(pl.col("verdict").is_in(verdict))
    if wrong is not None:
        rows = rows.filter(pl.col("wrong").list.contains(wrong))
    if worst is not None:
        listed = tables.worst_reports(rows, worst)
        table = tables.worst_table(rows, worst)
    elif finding or verdict or wrong:
        listed = rows
        table = tables.finding_table(rows)
    else:
        listed = tables.verdict_counts(rows)
        table = tables.verdict_table(rows)
    if out is not None:
        _write_rows(tables.flat(listed) if out.suffix.lower() == ".csv" else listed, out)
        echo(f"{len(listed):,} rows written to {out}")
    elif as_json:
        print(json.dumps(listed.to_dicts(), indent=2, ensure_ascii=False))
    elif listed.is_empty():
        print("none")
    else:
        print_table(table)
    for note in notes:
        print(note, file=sys.stderr if as_json else sys.stdout)


def show(
    systems: list[str],
    study: list[str] | None = None,
    out: Path = Path("shown"),
    context: list[str] | None = None,
    records: Path = CORPUS,
    force: bool = False,
) -> None:
    """Write an HTML page for a study, into a folder. The page shows the reference and each
    system's report as they were written, in each context that all systems have (or in --context).
    It marks what the reference supports or contradicts, and comparisons with earlier
    examinations."""
    if study:
        studies = study
        folders = systems
    else:
        studies = systems[:1]
        folders = systems[1:]
    if not folders or Path(studies[0], "cases.parquet").is_file():
        raise ConfigError(
            "expected the id of a study or record, and then at least one folder of a scored run, "
            "as in `pacer show ID scored/a`; `pacer findings scored/a --worst 5` lists ids"
        )
    named = terminal.named_paths(folders)
    contexts = terminal.check_contexts(context)
    terminal.check_exists(*named.values())
    from pacer.reporting.pages import show_studies

    images = records.with_name("images.parquet")
    pages = show_studies(studies, list(named.items()), contexts, records, images, out, force=force)
    for path in pages:
        echo(f"written to {path}")
