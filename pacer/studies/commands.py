"""The commands ``pacer study …``; heavy imports wait until one runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

if TYPE_CHECKING:
    from pacer.studies.study import Study

STUDIES = Path("studies")

study = typer.Typer(no_args_is_help=True, help="Run many experiments and set them in one table (docs/studies.md).")
console = Console(highlight=False)


@study.command("run")
def run_one_study(
    name: Annotated[str, typer.Argument(help="Study in studies/ (`pacer study list`).")],
    row: Annotated[list[str] | None, typer.Option(help="Run this row alone; may be given more than once.")] = None,
) -> None:
    """Make the runs of a study that are not there yet, one after another, and write its table."""
    import signal

    from pacer.baselines.config import BaselineParams
    from pacer.studies.pipeline import BASELINE_PARAMS
    from pacer.studies.plan import KINDS
    from pacer.studies.run import run_study
    from pacer.studies.study import load_study

    chosen = load_study(STUDIES, name)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # `kill` ends a study as Ctrl-C does: tidily
    run_study(chosen, Path.cwd(), lambda line: console.print(Text(line), soft_wrap=True),
              kinds={**KINDS, BASELINE_PARAMS: BaselineParams}, rows=frozenset(row or ()))
    _write_study(chosen)


@study.command("show")
def show_study(name: Annotated[str, typer.Argument(help="Study in studies/ (`pacer study list`).")]) -> None:
    """Write and print the table of a study from the runs that exist."""
    from pacer.studies.study import load_study

    print(_write_study(load_study(STUDIES, name)))


@study.command("list")
def list_studies() -> None:
    """List the studies and how many of their runs exist."""
    from pacer.studies.run import folders, results_folder
    from pacer.studies.study import load_study, study_names

    grid = Grid(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for known in study_names(STUDIES):
        found = load_study(STUDIES, known)
        wanted = len(found.seeds) * sum(row.files is None for row in found.rows)
        there = len(list(folders(found, results_folder(Path.cwd()))))
        grid.add_row(known, f"{there} of {wanted}", Text(found.title))
    console.print(grid)


@study.command("restore")
def restore_study() -> None:
    """Put the workspace back as it was before a study that was killed."""
    from pacer.studies.run import restore_workspace

    restore_workspace(Path.cwd(), lambda line: console.print(Text(line), soft_wrap=True))


def _write_study(chosen: Study) -> str:
    """Write a study's table in all formats; returns it as Markdown."""
    from pacer.studies.paired import compare
    from pacer.studies.render import markdown, write_table
    from pacer.studies.run import results_folder
    from pacer.studies.table import build_table, collect

    results = results_folder(Path.cwd())
    table = build_table(chosen, collect(chosen, Path.cwd(), results), compare)
    written = write_table(table, results / chosen.name)
    console.print(Text(f"written: {', '.join(str(path.relative_to(Path.cwd())) for path in written)}"), soft_wrap=True)
    return markdown(table)
