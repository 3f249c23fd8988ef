"""The command ``pacer``: joins the commands of the rooms, and has those about the project itself.

Heavy imports wait until a command needs them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table as Grid
from rich.text import Text

from pacer.baselines.commands import baseline
from pacer.core.errors import ConfigError, run_cleanly
from pacer.decoding.commands import decode
from pacer.params import load_params
from pacer.profiles import profile_in_use, profile_names, use_profile
from pacer.reporting.commands import anchors, audit, compare, score
from pacer.serving.commands import export, generate, serve
from pacer.terminal import PARAMS, ParamsFile, console, print_rows
from pacer.training.commands import import_llm_rg4

if TYPE_CHECKING:
    from pacer.studies.study import Study

CONFIGS, STUDIES = Path("configs"), Path("studies")

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="PACER: chest X-ray reports when the lateral view or the previous report may be missing. "
    "The pipeline itself runs with `dvc repro`. Any command takes --traceback. For research use only.",
)
study = typer.Typer(no_args_is_help=True, help="Run many experiments and set them in one table (docs/studies.md).")
app.add_typer(anchors, name="anchors")
app.add_typer(study, name="study")
app.add_typer(baseline, name="baseline")


@app.command()
def use(
    name: Annotated[str | None, typer.Argument(help="Profile in configs/; none: list them.")] = None,
    force: Annotated[bool, typer.Option(help="Overwrite a params.yaml that was edited by hand.")] = False,
) -> None:
    """Put a profile in use: copy configs/NAME.yaml over params.yaml."""
    if name is None:
        current = profile_in_use(PARAMS, CONFIGS) if PARAMS.exists() else None
        for known in profile_names(CONFIGS):
            console.print(f"{'*' if known == current else ' '} {known}")
        return
    use_profile(name, PARAMS, CONFIGS, force=force)
    console.print(f"params.yaml is now the profile {name}")


@app.command()
def doctor(params: ParamsFile = PARAMS) -> None:
    """Show what this machine has, what a run lacks, and what each stage will cost."""
    from pacer.doctor import diagnose

    diagnosis = diagnose(load_params(params))
    styles = {"ok": "green", "note": "yellow", "missing": "bold red"}
    for title, findings in (("Machine", diagnosis.machine), ("Corpus", diagnosis.data), ("Weights", diagnosis.weights)):
        console.print(f"\n{title}")
        print_rows((Text(f"  {f.state}", styles[f.state]), f.what, f.detail) for f in findings)
    counts = diagnosis.counts
    if counts is None:
        console.print("\nCost: not known before the stage `corpus` has read the corpus (`dvc repro corpus`)")
    else:
        origin = "counted" if counts.measured else "expected"
        console.print(f"\nCost, estimated to a factor of two or three ({counts.all:,} records {origin})")
        rows = [
            (f"  {c.stage}", _duration(c.seconds), _size(c.bytes) if c.bytes else "", c.work) for c in diagnosis.costs
        ]
        print_rows([*rows, ("  all", _duration(sum(c.seconds or 0.0 for c in diagnosis.costs)), "", "")])
    if not diagnosis.healthy:
        raise ConfigError("a run would stop: see what is marked `missing` above")


for command in (audit, decode, export, generate, serve, score, compare):
    app.command()(command)
app.command("import-llm-rg4")(import_llm_rg4)


@study.command("run")
def run_one_study(
    name: Annotated[str, typer.Argument(help="Study in studies/ (`pacer study list`).")],
    row: Annotated[list[str] | None, typer.Option(help="Run this row alone; may be given more than once.")] = None,
) -> None:
    """Make the runs of a study that are not there yet, one after another, and write its table."""
    import signal

    from pacer.params.baselines import BaselineParams
    from pacer.studies.pipeline import BASELINE_PARAMS
    from pacer.studies.plan import KINDS
    from pacer.studies.run import run_study
    from pacer.studies.study import load_study

    chosen = load_study(STUDIES, name)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # `kill` ends a study as Ctrl-C does: tidily
    run_study(
        chosen,
        Path.cwd(),
        lambda line: console.print(Text(line), soft_wrap=True),
        kinds={**KINDS, BASELINE_PARAMS: BaselineParams},
        rows=frozenset(row or ()),
    )
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


def main() -> None:
    """Entry point of the console script: a PacerError is one line and exit code 1."""
    run_cleanly(app)


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _size(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count < 1e12 else f"{count / 1e12:.2f} TB"
