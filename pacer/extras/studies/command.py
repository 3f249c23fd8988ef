"""``pacer study``: tables of experiments; heavy imports wait until a command runs."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pacer.config.params import names_in
from pacer.core.errors import ConfigError
from pacer.display import terminal
from pacer.display.terminal import echo

if TYPE_CHECKING:
    from pacer.extras.studies.repository import Repository
    from pacer.extras.studies.study import Study

STUDIES = Path("studies")
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
    # after the imports, because polars sets its own handler; `kill` and a closed terminal stop the
    # experiments like Ctrl-C
    for number in _STOPPING:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # not under nohup
            signal.signal(number, _stop)
    try:
        run_study(chosen, repository, echo, frozenset(row or ()), queue)
    except KeyboardInterrupt:
        echo("stopped; run the same command again to continue")
        raise typer.Exit(130) from None
    if queue:
        echo(f"next: `dvc queue start --jobs 2`; when it is done, `pacer study show {name}`")
    else:
        _write_table(chosen, repository)


def _stop(number: int, frame: object) -> None:
    """Stop once, however many signals arrive."""
    for again in _STOPPING:
        signal.signal(again, signal.SIG_IGN)
    raise KeyboardInterrupt


def show(name: str) -> None:
    """Write and print a table from its finished experiments."""
    from pacer.extras.studies.repository import Repository
    from pacer.extras.studies.study import load_study

    print(_write_table(load_study(STUDIES, name), Repository(Path.cwd())))


def list_studies() -> None:
    """List the tables of experiments, and how many of their runs are done."""
    from pacer.extras.studies.repository import Repository
    from pacer.extras.studies.run import finished, plan
    from pacer.extras.studies.study import load_study

    repository = Repository(Path.cwd())
    rows = []
    for known in (load_study(STUDIES, name) for name in names_in(STUDIES, "studies")):
        wanted = len(known.replicates) * sum(row.files is None for row in known.rows)
        try:
            done = f"{len(list(finished(plan(known, repository), repository)))} of {wanted}"
        except ConfigError:  # a row does not fit the parameters in use; `run` and `show` name it
            done = "needs other parameters"
        rows.append((known.name, done, known.title))
    terminal.print_rows(rows)


def _write_table(chosen: Study, repository: Repository) -> str:
    """Write a table of experiments as Markdown and LaTeX, and return the Markdown."""
    from pacer.extras.studies.table import build_tables, collect, write_tables

    folder = repository.results / chosen.name
    text = write_tables(build_tables(chosen, collect(chosen, repository)), folder)
    echo(f"wrote table.md and table.tex to {folder.relative_to(Path.cwd())}")
    return text
