"""``pacer certify``: does a metric fall with faults, and not with other words?"""

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict
from pathlib import Path

from pacer.config.corpus import Delimiter
from pacer.core.errors import DataError
from pacer.core.io import check_replaceable, hash_bytes, write_text
from pacer.display import terminal
from pacer.display.terminal import echo, print_table


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


def make(
    out: Path = Path("cards"),
    references: Path | None = None,
    id_column: str | None = None,
    reference_text: str | None = None,
    delimiter: Delimiter | None = None,
    limit: int = 300,
    seed: int = 0,
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


def score(
    cards: Path,
    scored: list[str] | None = None,
    metric: list[str] | None = None,
    lower_is_better: list[str] | None = None,
    chexbert: Path | None = None,
    as_json: bool = False,
    out: Path = Path("certificate"),
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
