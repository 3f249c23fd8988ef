"""``pacer study``: tables of experiments; heavy imports wait until a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pacer.core.stops import signals_handled_by
from pacer.display.terminal import echo

if TYPE_CHECKING:
    from pacer.extras.studies.repository import Repository
    from pacer.extras.studies.study import Study

STUDIES = Path("studies")


def run(
    name: str,
    row: list[str] | None = None,
    queue: bool = False,
) -> None:
    """Run the experiments that a table still lacks, and write the table. After Ctrl-C, run it again
    to continue."""
    from pacer.extras.studies.repository import Repository
    from pacer.extras.studies.run import run_study
    from pacer.extras.studies.study import load_study

    chosen = load_study(STUDIES, name)
    repository = Repository(Path.cwd())
    try:
        with signals_handled_by(_stop):  # after the imports, because polars sets its own handler
            run_study(chosen, repository, echo, frozenset(row or ()), queue)
    except KeyboardInterrupt:
        echo("stopped; run the same command again to continue")
        raise typer.Exit(130) from None
    if queue:
        echo(f"next: `dvc queue start --jobs 2`; when it is done, `pacer study show {name}`")
    else:
        _write_table(chosen, repository)


def _stop(number: int, frame: object) -> None:
    """Treat the signals of clusters and of a closed terminal like Ctrl-C."""
    raise KeyboardInterrupt


def show(name: str) -> None:
    """Write and print a table from its finished experiments."""
    from pacer.extras.studies.repository import Repository
    from pacer.extras.studies.study import load_study

    print(_write_table(load_study(STUDIES, name), Repository(Path.cwd())))


def _write_table(chosen: Study, repository: Repository) -> str:
    """Write a table of experiments as Markdown and LaTeX, and return the Markdown."""
    from pacer.extras.studies.table import build_tables, collect, write_tables

    folder = repository.results / chosen.name
    text = write_tables(build_tables(chosen, collect(chosen, repository)), folder)
    echo(f"wrote table.md and table.tex to {folder.relative_to(Path.cwd())}")
    return text
