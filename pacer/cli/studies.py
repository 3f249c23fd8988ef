"""The commands ``pacer study ...``; heavy imports wait until one runs."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacer.cli.terminal import print_rows, say
from pacer.config.profiles import names_in
from pacer.core.io import write_text

if TYPE_CHECKING:
    from pacer.studies.study import Study

STUDIES = Path("studies")
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Name = Annotated[str, typer.Argument(help="Study in studies/ (`pacer study list`).")]

study = typer.Typer(
    no_args_is_help=True, help="Run many experiments and collect their results in one table (docs/experiments.md)."
)


@study.command()
def run(
    name: Name,
    row: Annotated[list[str] | None, typer.Option(help="Run only this row; repeatable.")] = None,
    replicate: Annotated[
        list[str] | None, typer.Option(help="Run only the replicate with this value; repeatable.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Number of parallel runs.")] = 1,
    devices: Annotated[
        str | None, typer.Option(envvar="CUDA_VISIBLE_DEVICES", help="GPUs to divide among the runs (default: all).")
    ] = None,
    print_only: Annotated[
        bool, typer.Option("--print", help="Only print a command for each missing run, for use on a cluster.")
    ] = False,
) -> None:
    """Run whatever is missing from a study, and write its table. After Ctrl-C, run it again to continue."""
    from pacer.studies.run import commands, run_study
    from pacer.studies.study import load_study

    chosen = load_study(STUDIES, name)
    if print_only:
        for line in commands(chosen, Path.cwd(), lambda note: typer.echo(note, err=True)):
            print(line)
        return
    # after the imports: polars sets its own handler; `kill` and a closed terminal stop a study like Ctrl-C
    for number in _STOPPING:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # not under nohup
            signal.signal(number, _stop)
    try:
        only = {"rows": frozenset(row or ()), "replicates": frozenset(replicate or ())}
        run_study(chosen, Path.cwd(), say, **only, jobs=jobs, devices=devices)
    except KeyboardInterrupt:
        say("stopped; run the same command again to continue")
        raise typer.Exit(130) from None
    _write_table(chosen)


def _stop(number: int, frame: object) -> None:
    """Stop once, however many signals arrive."""
    for again in _STOPPING:
        signal.signal(again, signal.SIG_IGN)
    raise KeyboardInterrupt


@study.command()
def show(name: Name) -> None:
    """Write and print the table of a study from the runs that exist."""
    from pacer.studies.study import load_study

    print(_write_table(load_study(STUDIES, name)))


@study.command("list")
def list_studies() -> None:
    """List the studies, how many of their runs are done, and unfinished runs."""
    from pacer.studies.run import finished, results_folder, stopped
    from pacer.studies.study import load_study
    from pacer.studies.worktree import Repository

    repository, state = Repository(Path.cwd()), results_folder(Path.cwd())
    rows = []
    for known in (load_study(STUDIES, name) for name in names_in(STUDIES, "studies")):
        wanted = len(known.replicates) * sum(row.files is None for row in known.rows)
        rows.append((known.name, f"{len(list(finished(known, repository, state)))} of {wanted}", known.title))
    print_rows(rows)
    for _, name, experiment in stopped(state):
        say(f"{experiment} is unfinished; if no study is running, resume with `pacer study run {name}`")


def _write_table(chosen: Study) -> str:
    """Write a study's table as Markdown and LaTeX, and return the Markdown."""
    from pacer.metrics.statistics.comparison import compare_repeats
    from pacer.studies.run import results_folder
    from pacer.studies.table import build_table, collect, study_curve, write_table
    from pacer.studies.worktree import Repository

    state = results_folder(Path.cwd())
    runs = collect(chosen, Repository(Path.cwd()), state)
    text = write_table(*build_table(chosen, runs, compare_repeats), state / chosen.name)
    folder = (state / chosen.name).relative_to(Path.cwd())
    if chart := study_curve(chosen, runs):
        write_text(folder / "curve.svg", chart)
    say(f"wrote table.md{', curve.svg' if chart else ''} and table.tex to {folder}")
    return text
