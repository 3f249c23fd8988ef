"""``pacer audit``, ``score``, ``compare``, ``label`` and ``show``; heavy imports wait until one
runs."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from pacer.cli import terminal
from pacer.cli.terminal import BACKBONES, CORPUS, PARAMS, console, print_table, say
from pacer.config import Params, validated
from pacer.config.params import check_splits, load_profile
from pacer.core.audits import Check, number, percent
from pacer.core.errors import ConfigError, DataError
from pacer.core.io import check_replaceable, write_json, write_text

if TYPE_CHECKING:
    from pacer.config.decode import Score
    from pacer.metrics.signature import ScoreResult
    from pacer.metrics.statistics.comparison import Scores


def audit(
    params: terminal.ParamsFile = PARAMS,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the corpus; on error, only OUT.problems.csv is written."),
    ] = None,
) -> None:
    """Read a corpus, and print a summary and its problems."""
    from pacer.commitments.audit import audit_texts
    from pacer.data.build_corpus import OUTPUTS, build_corpus
    from pacer.data.source import point_to_files
    from pacer.reporting.score_tables import corpus_table

    config = load_profile(params)
    corpus = config.corpus
    # a refused corpus leaves its problems here, and a later audit removes them
    problems = Path("audit.problems.csv") if out is None else None
    if out is not None:
        check_replaceable(out, OUTPUTS)
    with tempfile.TemporaryDirectory() as scratch:
        source = Path("data/source")
        if corpus.source == "files":
            source = Path(scratch) / "source"
            point_to_files(corpus, source)
        elif not source.exists():
            raise ConfigError(
                "the phantom has not been generated yet (no data/source); run `dvc repro source` "
                "first"
            )
        read = out or Path(scratch) / "corpus"
        result = build_corpus(corpus, source, read, problems)
        checks = [Check(**line) for line in result["checks"]]
        checks += audit_texts(read / "records.parquet")
        if "train" in result["splits"]:
            try:
                check_splits(result["contexts"], config)
                splits = ("all have records", True)
            except DataError as error:
                splits = (str(error), False)
            checks += [
                Check("Splits that training needs", *splits),
                _token_limit(config, read / "records.parquet"),
            ]
    print_table(corpus_table(result))
    console.print()
    signs = {True: Text("ok"), False: Text("check", "yellow")}
    terminal.print_rows((signs[check.good], check.name, check.detail) for check in checks)
    if out is not None:
        listed = result["excluded"]["count"] + result["left_out"]["count"]
        say(
            f"\nwritten to {out}; {out / 'problems.csv'} lists what was rejected or left out "
            f"({listed:,})"
        )


def _token_limit(params: Params, records: Path) -> Check:
    """Count the train targets that the token limit cuts, if the stage `backbones` made the language
    model."""
    from pacer.backbones.pointers import provenance, resolve
    from pacer.data.audit import LEFT_OUT_LIMIT
    from pacer.data.schemas import read_records

    limit = params.trajectory.report_tokens
    name = f"Training targets over {limit} tokens"
    try:
        from pacer.backbones.tokenizer import read_tokenizer
        from pacer.training.trajectory import TrajectoryBuilder
    except ModuleNotFoundError:
        return Check(name, "unknown without the `pipeline` extra; run `make setup`", good=False)
    folder = BACKBONES / "language"
    if provenance(folder).get("provider") != params.backbones.language.provider:
        return Check(name, "unknown until you run `dvc repro backbones`", good=False)
    tokenizer = read_tokenizer(resolve(folder))
    builder, cut = TrajectoryBuilder(tokenizer, limit), 0
    train = read_records(records, ["split", "report"]).filter(split="train")
    for part in train.iter_slices(16_384):  # all ids at once would take gigabytes
        cut += sum(
            map(
                builder.is_cut,
                tokenizer(part["report"].to_list(), add_special_tokens=False)["input_ids"],
            )
        )
    detail = (
        f"{number(cut)} of {number(len(train))} ({percent(cut, len(train))}): truncated, "
        "without an end token"
    )
    detail += "; trajectory.report_tokens is the limit" if cut else ""
    return Check(name, detail, cut <= LEFT_OUT_LIMIT * len(train))


def score(
    ctx: typer.Context,
    out: Annotated[Path, typer.Option(help="Output folder for scores, signature and cases.")],
    references: Annotated[
        Path | None, typer.Option(help="Reference reports: CSV, TSV, JSON, JSONL, Parquet.")
    ] = None,
    hypotheses: Annotated[
        Path | None, typer.Option(help="A system's reports; formats as for --references.")
    ] = None,
    records: Annotated[
        Path | None, typer.Option(help="A corpus's records.parquet (with --predictions).")
    ] = None,
    predictions: Annotated[
        Path | None, typer.Option(help="Folder written by `pacer decode`.")
    ] = None,
    chexbert: Annotated[
        Path | None,
        typer.Option(help="CheXbert folder (default: none; with --records, the pipeline's)."),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="File for the reference labels; reused if present.")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Split to score, or all (default: the decoded split, else test)."),
    ] = None,
    context: terminal.ContextNames = None,
    missing: Annotated[
        str, typer.Option(help="If a report is missing: error, or empty (scored as empty).")
    ] = "error",
    missing_references: Annotated[
        str, typer.Option(help="If a reference is empty: error, or leave-out.")
    ] = "error",
    extract: Annotated[
        str, typer.Option(help="boxed: score only the last \\boxed{}; none: everything.")
    ] = "none",
    deduplicate: Annotated[
        bool, typer.Option("--deduplicate", help="Drop repeated sentences in a report.")
    ] = False,
    clean_references: Annotated[
        str,
        typer.Option(
            help="Cleaner: upstream (LLM-RG4), iu_xray (R2Gen), decimals (keeps '2.5'), none."
        ),
    ] = "none",
    clean_hypotheses: Annotated[
        str, typer.Option(help="Cleaner for the reports: as for --clean-references.")
    ] = "none",
    reference_id: Annotated[str | None, typer.Option(help="ID column of the references.")] = None,
    reference_text: Annotated[
        str | None, typer.Option(help="Text column of the references.")
    ] = None,
    hypothesis_id: Annotated[str | None, typer.Option(help="ID column of the reports.")] = None,
    hypothesis_text: Annotated[str | None, typer.Option(help="Text column of the reports.")] = None,
    columns: Annotated[
        Path | None, typer.Option(help="Table of your scores and groups, CSV or Parquet.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="Name of an entry point in group pacer.scores; repeatable."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite scores of other reports in OUT.")
    ] = False,
    without: Annotated[
        list[str] | None, typer.Option(help="Score to leave out, e.g. meteor; repeatable.")
    ] = None,
    params: Annotated[
        Path | None, typer.Option(help="Parameters (default with --records: params.yaml).")
    ] = None,
) -> None:
    """Score reports from any system, or PACER's predictions."""
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # as after Ctrl-C, METEOR and the readers end, too
    from pacer.metrics.pairing import Protocol

    settings = _settings_of(
        PARAMS if params is None and records and PARAMS.exists() else params, metric, columns
    )
    chosen = terminal.check_contexts(context)
    options = {name: ctx.params[name] for name in Protocol.model_fields}
    protocol = validated(
        options | {"context": chosen[0] if chosen else None}, "pacer score", Protocol
    )
    terminal.check_exists(chexbert, columns)
    given: dict[str, Any] = {"settings": settings, "without": without or ()}
    if references and hypotheses and not (records or predictions):
        if len(chosen) > 1:
            raise ConfigError(
                "with --references, pass one --context, or none to score all contexts"
            )
        terminal.check_exists(references, hypotheses)
        from pacer.metrics.calls import score as score_files

        given |= {
            "out": out,
            "chexbert": chexbert,
            "labels": labels,
            "force": force,
            **protocol.model_dump(),
        }
        result = score_files(references, hypotheses, **given)
    elif records and predictions and not (references or hypotheses):
        if protocol != Protocol(split=split, context=protocol.context):
            raise ConfigError(
                "options for pairing, reading or cleaning reports work only with --references and "
                "--hypotheses"
            )
        terminal.check_exists(records, predictions, remedy=terminal.FROM_STAGE)
        from pacer.metrics.calls import check_replaced
        from pacer.metrics.score import score_decoded
        from pacer.metrics.signature import ScoreInputs

        if not force:
            check_replaced(out, sorted(predictions.glob("*.jsonl")))
        inputs = ScoreInputs(chexbert or BACKBONES / "chexbert", labels)
        result = score_decoded(
            records, predictions, out, inputs, split=split, contexts=chosen, **given
        )
    else:
        raise ConfigError("pass --references and --hypotheses, or --records and --predictions")
    _print_scores(result, out, settings.convention)


def _settings_of(params: Path | None, metrics: list[str] | None, columns: Path | None) -> Score:
    from pacer.metrics.signature import DEFAULTS

    settings = DEFAULTS if params is None else load_profile(params).score
    asked = {"metrics": metrics, "columns": None if columns is None else str(columns)}
    return settings.model_copy(update={name: value for name, value in asked.items() if value})


def _print_scores(result: ScoreResult | Scores, out: Path, convention: str) -> None:
    from pacer.metrics.scores import score_of, scores_at
    from pacer.metrics.signature import reading_notes
    from pacer.metrics.statistics.intervals import group_scores, warnings
    from pacer.reporting.score_tables import (
        caution,
        convention_table,
        group_table,
        score_table,
        signature_line,
    )

    scores, cases, signature = result.scores, result.cases, result.signature
    print_table(score_table(scores))
    others = {
        f"Against the original findings ({signature.language['original_references']})": score_table(
            scores, scores_at("originals")
        ),
        "Your scores (--columns, --metric): mean over the records with a value": score_table(
            scores, list(map(score_of, signature.score_columns)), counted=signature.counted
        ),
        "By label convention": convention_table(scores),
        "Polarity of the findings, and comparison with earlier examinations": score_table(
            scores, scores_at("contents"), counted=signature.counted
        ),
    }
    for title, table in others.items():
        if table is not None and len(table.columns) > 1:
            console.print(f"\n{title}")
            print_table(table)
    for line in warnings(scores, cases, convention):
        say(line, "yellow")
    if signature.groups and signature.clinical:
        groups = group_scores(cases, convention, signature.groups)
        grouped = [score for score in groups if score.column in signature.groups]
        console.print(f"\nF1 by {', '.join(signature.groups)}; other scores are not grouped")
        print_table(group_table(grouped))
    console.print()
    for line in filter(
        None, (*reading_notes(signature), signature_line(signature), caution(signature))
    ):
        say(line)
    console.print(f"\nwritten to {out}")


def compare(
    systems: Annotated[
        list[str],
        typer.Argument(
            metavar="A B ...",
            help="Folders with scores or metrics/, or NAME=FOLDER; A is the baseline.",
        ),
    ],
    convention: Annotated[str, typer.Option(help="Label convention for F1.")] = "llm-rg4",
    max_loss: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCORE=LOSS",
            help="Exit with code 3 if the whole interval of a difference is worse than LOSS; "
            "repeatable.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for comparison.json, table.md and table.tex.")
    ] = None,
) -> None:
    """Compare two scored runs case by case, or several with the first, A. Intervals use the paired
    bootstrap; p values come from approximate randomization. --max-loss f1=0.02 fails if the whole
    interval of the change is below −0.02."""
    places, allowed = terminal.named_paths(systems), dict(map(_allowed_loss, max_loss or ()))
    if len(places) < 2:
        raise ConfigError("expected at least two folders to compare, A and B")
    terminal.check_exists(*places.values())
    from pacer.metrics.calls import compare as compare_systems

    compared = compare_systems(places, convention=convention)
    losses = compared.beyond(allowed)
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
    print(*(f"{sentence}\n" for sentence, _ in losses), sep="", end="", file=sys.stderr)
    if any(is_certain for _, is_certain in losses):
        raise typer.Exit(3)


def _allowed_loss(entry: str) -> tuple[str, float]:
    score, _, loss = entry.partition("=")
    try:
        return score, float(loss)
    except ValueError:
        raise ConfigError(f"--max-loss {entry}: expected SCORE=LOSS, such as f1=0.02") from None


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
) -> None:
    """Read the findings in reports by rules. Each mention is a row: its polarity, its place (start,
    end) in the report, its words, and the cue that decides its polarity."""
    terminal.check_exists(file)
    from pacer.metrics.calls import label_reports
    from pacer.metrics.report_files import REPORT_COLUMNS, reports_of

    reports = reports_of(file, REPORT_COLUMNS, report_id, report_text).rows
    if reports["id"].is_duplicated().any():
        raise DataError(
            f"{file}: an id has several reports; choose a column of unique ids with --report-id"
        )
    mentions = label_reports(reports)
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
    silent = len(reports) - mentions["id"].n_unique()
    print(
        f"{len(mentions):,} mentions; {silent:,} of {len(reports):,} reports have none",
        file=sys.stderr,
    )


def show(
    study: Annotated[str, typer.Argument(help="Study id, or record id.")],
    systems: Annotated[
        list[str], typer.Argument(metavar="A ...", help="Folders of scored runs, or NAME=FOLDER.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the page.")] = Path("shown"),
    context: terminal.ContextNames = None,
    records: terminal.RecordsFile = CORPUS,
    before: Annotated[
        bool, typer.Option("--systems", hidden=True)
    ] = False,  # stood before A in earlier versions
) -> None:
    """Write an HTML page with each system's report of one study, in each context that all systems
    have (or in --context). It marks what the reference supports or contradicts, and comparisons
    with earlier studies."""
    named = terminal.named_paths(systems)
    contexts = terminal.check_contexts(context)
    terminal.check_exists(*named.values())
    from pacer.reporting.pages import show_study

    path = show_study(
        study, list(named.items()), contexts, records, records.with_name("images.parquet"), out
    )
    say(f"written to {path}")
