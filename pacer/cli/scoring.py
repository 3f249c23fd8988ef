"""``pacer score``, ``score-run``, ``compare``, ``label`` and ``show``; heavy imports wait until one
runs."""

from __future__ import annotations

import json
import math
import signal
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pacer.config.corpus import Cleaner
from pacer.config.params import load_profile
from pacer.core.errors import ConfigError, DataError
from pacer.core.io import write_json, write_text
from pacer.display import terminal
from pacer.display.terminal import BACKBONES, CORPUS, PARAMS, console, echo, print_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pacer.statistics.system import Scores

OutFolder = Annotated[Path, typer.Option("--out", help="Folder for scores, signature and cases.")]
ColumnsFile = Annotated[
    Path | None,
    typer.Option("--columns", help="Table of your scores and groups, CSV or Parquet."),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        help="Your score: module:function, or an entry point in group pacer.scores; repeatable.",
    ),
]
Without = Annotated[
    list[str] | None,
    typer.Option("--without", help="Score to leave out, e.g. meteor; repeatable."),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite scores of other reports in OUT.")]


def score(
    references: Annotated[
        Path, typer.Option(help="Reference reports: CSV, TSV, JSON, JSONL, Parquet.")
    ],
    hypotheses: Annotated[
        Path, typer.Option(help="A system's reports; formats as for --references.")
    ],
    out: OutFolder,
    chexbert: Annotated[Path | None, typer.Option(help="CheXbert folder (default: none).")] = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="ID column, in each file that has it (default: found by name)."),
    ] = None,
    reference_text: Annotated[
        str | None, typer.Option(help="Text column of the references.")
    ] = None,
    hypothesis_text: Annotated[str | None, typer.Option(help="Text column of the reports.")] = None,
    missing: Annotated[
        Literal["error", "empty"],
        typer.Option(help="If a report is missing: an error, or scored as empty."),
    ] = "error",
    extract: Annotated[
        Literal["none", "boxed"],
        typer.Option(help="boxed: score only the last \\boxed{} of a report."),
    ] = "none",
    clean: Annotated[
        Literal["none", Cleaner],
        typer.Option(
            help="Cleaner for both files: upstream (LLM-RG4), iu_xray (R2Gen), decimals (keeps "
            "'2.5')."
        ),
    ] = "none",
    columns: ColumnsFile = None,
    metric: Metrics = None,
    without: Without = None,
    force: Force = False,
) -> None:
    """Score reports of any system against references (`pacer score-run`: predictions of a run).
    Further options are in Python: help(pacer.score)."""
    _end_on_sigterm()
    terminal.check_exists(chexbert, columns, references, hypotheses)
    from pacer.statistics.calls import score as score_files
    from pacer.tables.reports import REPORTS, id_columns
    from pacer.tables.sources import open_source

    terminal.import_from_here()  # modules of --metric
    tables = [open_source(path, "", REPORTS.columns) for path in (references, hypotheses)]
    reference_id, hypothesis_id = id_columns(*tables, id_column)
    result = score_files(
        *tables,
        out=out,
        chexbert=chexbert,
        columns=columns,
        metrics=metric or (),
        force=force,
        without=without or (),
        missing=missing,
        extract=extract,
        clean_references=clean,
        clean_hypotheses=clean,
        reference_id=reference_id,
        reference_text=reference_text,
        hypothesis_id=hypothesis_id,
        hypothesis_text=hypothesis_text,
    )
    _print_scores(result, out)


def score_run(
    predictions: Annotated[Path, typer.Option(help="Folder written by `pacer decode`.")],
    out: OutFolder,
    records: terminal.RecordsFile = CORPUS,
    chexbert: Annotated[
        Path | None, typer.Option(help="CheXbert folder (default: the pipeline's).")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="File for the reference labels; reused if present.")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Split to score, or all (default: the decoded split, else test)."),
    ] = None,
    context: terminal.ContextNames = None,
    columns: ColumnsFile = None,
    metric: Metrics = None,
    without: Without = None,
    force: Force = False,
    params: Annotated[
        Path | None, typer.Option(help="Parameter file (default: params.yaml, if there is one).")
    ] = None,
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
        check_replaced(out, sorted(predictions.glob("*.jsonl")))
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
    from pacer.statistics.intervals import units_of

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


def compare(
    systems: Annotated[
        list[str],
        typer.Argument(
            metavar="A B ...",
            help="Folders with scores or metrics/, or NAME=FOLDER; A is the baseline.",
        ),
    ],
    convention: Annotated[
        str | None,
        typer.Option(help="Label convention for F1 (default: the one used in scoring)."),
    ] = None,
    max_loss: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCORE=LOSS",
            help="Exit with code 3 if the whole interval of a difference is worse than LOSS; "
            "repeatable. A system that loses just LOSS fails in one of 40 comparisons of a score; "
            "this is not corrected for several scores.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for comparison.json, table.md and table.tex.")
    ] = None,
) -> None:
    """Compare two scored runs case by case, or several with the first, A. Intervals and p values
    come from random halves of the patients. --max-loss f1=0.02 fails if the whole interval of the
    change is below −0.02."""
    places = terminal.named_paths(systems)
    allowed = _allowed_losses(max_loss or ())
    if len(places) < 2:
        raise ConfigError("expected at least two folders to compare, A and B")
    terminal.check_exists(*places.values())
    from pacer.statistics.calls import compare as compare_systems

    compared = compare_systems(places, convention=convention)
    (second, pair), *further = compared.others.items()
    table = compared.table() if further else pair.table(compared.first, second)
    if as_json:
        print(json.dumps(asdict(compared), indent=2, ensure_ascii=False))
    else:
        print_table(replace(table, notes=("", *table.notes)))
    if out is not None:
        write_json(out / "comparison.json", asdict(compared))
        write_text(out / "table.md", table.markdown())
        write_text(out / "table.tex", table.latex())
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
    file: Annotated[Path, typer.Argument(help="Reports: CSV, TSV, JSON, JSONL, Parquet.")],
    out: Annotated[
        Path | None, typer.Option(help="File for the table (default: print it).")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON Lines instead of CSV (default for OUT.jsonl).")
    ] = False,
    report_id: Annotated[str | None, typer.Option(help="ID column.")] = None,
    report_text: Annotated[str | None, typer.Option(help="Text column.")] = None,
    more_findings: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Table of further findings, or builtin for PACER's; docs/commitments.md.",
        ),
    ] = None,
) -> None:
    """Read the findings in reports by rules. Each mention is a row: its polarity, its place (start,
    end) in the report, its words, and the cue that decides its polarity."""
    terminal.check_exists(file)
    from pacer.statistics.calls import label_reports
    from pacer.tables.reports import REPORTS, not_english, reports_of
    from pacer.text.rules.more import with_more_findings

    lexicon = None if more_findings is None else with_more_findings(more_findings)
    reports = reports_of(file, REPORTS, report_id, report_text).rows
    if reports["id"].is_duplicated().any():
        raise DataError(
            f"{file}: an id has several reports; choose a column of unique ids with --report-id"
        )
    mentions = label_reports(reports, lexicon)
    suffix = out.suffix if out is not None else ""
    write = {
        ".json": mentions.write_json,
        ".jsonl": mentions.write_ndjson,
        ".ndjson": mentions.write_ndjson,
    }
    text = (mentions.write_ndjson if as_json else write.get(suffix, mentions.write_csv))()
    if out is None:
        print(text, end="")
    else:
        write_text(out, text)
    if foreign := not_english(reports["id"], reports["text"]):
        print(
            f"warning: reports without any frequent English word: {foreign}; the rules read no "
            "other language",
            file=sys.stderr,
        )
    silent = len(reports) - mentions["id"].n_unique()
    print(
        f"{len(mentions):,} mentions; {silent:,} of {len(reports):,} reports have none",
        file=sys.stderr,
    )


def findings(
    systems: Annotated[
        list[str], typer.Argument(metavar="A ...", help="Folders of scored runs, or NAME=FOLDER.")
    ],
    verdict: Annotated[
        list[str] | None,
        typer.Option(
            help="List the findings with this verdict: correct, partly, opposite, missed or "
            "invented; repeatable."
        ),
    ] = None,
    wrong: Annotated[
        Literal["side", "severity", "course", "state"] | None,
        typer.Option(help="List the findings that are only partly right because of this."),
    ] = None,
    finding: Annotated[
        str | None, typer.Option(help="List this finding, such as pneumothorax.")
    ] = None,
    worst: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="List so many reports with most wrong findings, of those that the other options "
            "choose: by opposite, then missed or invented, then partly right ones.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Count by finding what reports have right, partly right, opposite, missed and invented; or
    list single findings with their words, or the worst reports."""
    places = terminal.named_paths(systems)
    terminal.check_exists(*places.values())
    import polars as pl

    from pacer.core.anchor import FINDINGS, normalize_finding
    from pacer.metrics.ledger import VERDICTS
    from pacer.metrics.result import Result
    from pacer.reporting import findings as tables

    results = {name: Result.read(path) for name, path in places.items()}
    rows = tables.of_systems({name: result.findings for name, result in results.items()})
    note = tables.other_records({name: result.cases for name, result in results.items()})
    if finding is not None:
        known = normalize_finding(finding)
        if known is None:
            raise ConfigError(f"--finding {finding}: expected one of {', '.join(FINDINGS)}")
        rows = rows.filter(pl.col("finding") == known)
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
    if as_json:
        print(json.dumps(listed.to_dicts(), indent=2, ensure_ascii=False))
    elif listed.is_empty():
        print("none")
    else:
        print_table(table)
    if note:
        print(note, file=sys.stderr if as_json else sys.stdout)


def show(
    systems: Annotated[
        list[str],
        typer.Argument(
            metavar="[STUDY] A ...",
            help="Study or record id (unless --study is given), then folders of scored runs, or "
            "NAME=FOLDER.",
        ),
    ],
    study: Annotated[
        list[str] | None, typer.Option("--study", help="Study or record id; repeatable.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the pages.")] = Path("shown"),
    context: terminal.ContextNames = None,
    records: terminal.RecordsFile = CORPUS,
    before: Annotated[
        bool, typer.Option("--systems", hidden=True)
    ] = False,  # preceded A in earlier versions
) -> None:
    """Write an HTML page with each system's report of an examination, in each context that all
    systems have (or in --context). It marks what the reference supports or contradicts, and
    comparisons with earlier examinations."""
    if study:
        studies = study
        folders = systems
    else:
        studies = systems[:1]
        folders = systems[1:]
    if not folders:
        raise ConfigError("expected a study id, and at least one folder of a scored run")
    named = terminal.named_paths(folders)
    contexts = terminal.check_contexts(context)
    terminal.check_exists(*named.values())
    from pacer.reporting.pages import show_studies

    images = records.with_name("images.parquet")
    for path in show_studies(studies, list(named.items()), contexts, records, images, out):
        echo(f"written to {path}")
