"""The commands ``pacer study ...``; heavy imports wait until one runs."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacer.cli.terminal import print_rows, say

if TYPE_CHECKING:
    from pacer.studies.study import Study

STUDIES = Path("studies")
Name = Annotated[str, typer.Argument(help="Study in studies/ (`pacer study list`).")]

study = typer.Typer(no_args_is_help=True, help="Run many experiments and show them in one table (docs/experiments.md).")


@study.command()
def run(
    name: Name,
    row: Annotated[list[str] | None, typer.Option(help="Run this row alone; may be given more than once.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at the same time.")] = 1,
    devices: Annotated[
        str | None, typer.Option(envvar="CUDA_VISIBLE_DEVICES", help="GPUs to divide among them; default: all.")
    ] = None,
) -> None:
    """Make the missing runs of a study, and write its table."""
    from pacer.studies.run import run_study
    from pacer.studies.study import load_study

    chosen = load_study(STUDIES, name)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # `kill` ends a study as Ctrl-C does: tidily
    run_study(chosen, Path.cwd(), say, rows=frozenset(row or ()), jobs=jobs, devices=devices)
    _write_table(chosen)


@study.command()
def show(name: Name) -> None:
    """Write and print the table of a study from the runs that exist."""
    from pacer.studies.study import load_study

    print(_write_table(load_study(STUDIES, name)))


@study.command("list")
def list_studies() -> None:
    """List the studies and how many of their runs exist."""
    from pacer.studies.run import folders, results_folder
    from pacer.studies.study import load_study, study_names

    found = [load_study(STUDIES, name) for name in study_names(STUDIES)]
    state = results_folder(Path.cwd())
    wanted = [len(one.seeds) * sum(row.files is None for row in one.rows) for one in found]
    there = [len(list(folders(one, state))) for one in found]
    print_rows((one.name, f"{some} of {all_}", one.title) for one, some, all_ in zip(found, there, wanted, strict=True))


def _write_table(chosen: Study) -> str:
    """Write a study's table in all formats; returns it as Markdown."""
    from pacer.metrics.statistics.comparison import compare_repeats
    from pacer.studies.paired import compare_worlds
    from pacer.studies.render import markdown, write_table
    from pacer.studies.run import results_folder
    from pacer.studies.table import build_table, collect

    results = results_folder(Path.cwd())
    compare = compare_worlds if chosen.seeds_of == "world" else compare_repeats
    table = build_table(chosen, collect(chosen, Path.cwd(), results), compare)
    written = write_table(table, results / chosen.name)
    say(f"written: {', '.join(str(path.relative_to(Path.cwd())) for path in written)}")
    return markdown(table)
