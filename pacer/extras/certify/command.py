"""``pacer certify``: does a metric fall with faults, and not with other words?"""

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pacer.core.errors import DataError
from pacer.core.io import check_replaceable, hash_bytes, write_text
from pacer.display import terminal
from pacer.display.terminal import echo, print_table

certify = typer.Typer(
    no_args_is_help=True,
    help="Find out what a metric sees, misses and punishes for nothing (docs/certificate.md).",
)


@contextmanager
def _printing_to_stderr() -> Generator[None]:
    """Let the user's functions, and the programs that they start, print to standard error."""
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)


@certify.command()
def make(
    out: Annotated[Path, typer.Option(help="New folder for texts.csv.")] = Path("cards"),
    references: Annotated[
        Path | None,
        typer.Option(
            help="Your references; only their order, spelling and list form change (default: "
            "synthetic reports, with all kinds of faults)."
        ),
    ] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="ID column of --references.")
    ] = None,
    reference_text: Annotated[str | None, typer.Option(help="Text column of --references.")] = None,
    delimiter: terminal.DelimiterName = None,
    limit: Annotated[int, typer.Option(min=1, help="Number of references.")] = 300,
    seed: Annotated[int, typer.Option(help="Seed for all random choices.")] = 0,
) -> None:
    """Write texts.csv: references, and texts with faults or with other words for the same facts.
    Your metric scores each row: the column text against the column reference."""
    check_replaceable(out)
    from pacer.extras.certify.cards import FILE, make_cards, of_reports, of_synthetic
    from pacer.tables.reports import REFERENCES, reports_of

    if references is None:
        texts = make_cards(of_synthetic(seed, limit))
    else:
        given = reports_of(references, REFERENCES, id_column, reference_text, delimiter)
        texts = make_cards(of_reports(given.rows, seed, limit))
    write_text(out / FILE, texts.write_csv())
    echo(
        f"{len(texts):,} texts written to {out / FILE}; next: `pacer certify score {out} TABLE`, "
        "where TABLE has id and score of each, or --metric module:function"
    )


@certify.command()
def score(
    cards: Annotated[Path, typer.Argument(help="Folder from `pacer certify make`.")],
    scored: Annotated[
        list[str] | None,
        typer.Argument(help="Table with id and score, or NAME=TABLE, for each metric."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="A score of `pacer score` (exact_f1, bleu4, …), module:function, or an entry "
            "point in group pacer.scores; repeatable (default: exact_f1)."
        ),
    ] = None,
    lower_is_better: Annotated[
        list[str] | None,
        typer.Option(help="Name of a table or function with lower values for better texts."),
    ] = None,
    chexbert: Annotated[Path | None, typer.Option(help="CheXbert folder, for f1.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the certificate as JSON.")] = False,
    out: Annotated[
        Path,
        typer.Option(help="Folder for table.md and certificate.svg, replaced if they exist."),
    ] = Path("certificate"),
) -> None:
    """Print and draw, for each kind of fault, whether metrics see it, are blind to it or reward it,
    and what other words for the same facts cost."""
    paths = terminal.named_paths(scored or ())
    names = metric or ([] if paths else ["exact_f1"])
    from pacer.extras.certify.cards import COLUMNS, FILE
    from pacer.extras.certify.metrics import scores_of
    from pacer.extras.certify.verdicts import chart, judge, notes, tables
    from pacer.metrics.signature import version_of
    from pacer.tables.files import open_table

    terminal.import_from_here()  # modules of --metric
    table = open_table(cards / FILE)
    if missing := [name for name in COLUMNS if name not in table.columns]:
        raise DataError(
            f"{table.path} has no column {missing[0]}; pass the folder that `pacer certify make` "
            "wrote, with texts.csv unchanged"
        )
    texts = table.frame(COLUMNS).fill_null("").cast({"dose": int})
    with _printing_to_stderr():
        scores = scores_of(texts, paths, names, lower_is_better or (), chexbert)
    judged = {name: judge(texts, values) for name, values in scores.items()}
    printed = tables(judged)
    origin = f"pacer {version_of('pacer')}, texts {hash_bytes(texts.write_csv().encode())}\n"
    write_text(out / "table.md", "\n".join([*(table.markdown() for table in printed), origin]))
    write_text(out / "certificate.svg", chart(judged))
    if as_json:
        print(json.dumps(judged, default=asdict, indent=2))
    else:
        for table in printed:
            print_table(table)
            echo()
        echo(f"{notes(judged)}\nwritten to {out}")
