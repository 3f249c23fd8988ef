"""The command ``pacer``: all commands, and those about the project itself; heavy imports wait until one runs."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from pacer.cli.models import decode, export, generate, import_llm_rg4, serve
from pacer.cli.probe import probe
from pacer.cli.reporting import audit, compare, label, score, show
from pacer.cli.studies import study
from pacer.cli.terminal import PARAMS, ParamsFile, console, say
from pacer.config.profiles import CONFIGS, load_profile, names_in, profile_text
from pacer.core.errors import ConfigError, called_by_command, run_cleanly
from pacer.core.io import write_text

app = typer.Typer(
    no_args_is_help=True,
    context_settings={"max_content_width": 100},
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="PACER: chest X-ray reports when the lateral view or the previous report may be missing. "
    "Run the pipeline itself with `dvc repro`. Every command accepts --traceback. For research use only.",
)
app.add_typer(probe, name="probe")
app.add_typer(study, name="study")


@app.callback()
def begin(context: typer.Context) -> None:
    """Let messages name options until the command ends."""
    context.with_resource(called_by_command())


@app.command()
def use(
    name: Annotated[
        str | None, typer.Argument(help="Profile in configs/, or a .yaml file; omit it to list the profiles.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite params.yaml even if it was edited and matches no profile.")
    ] = False,
) -> None:
    """Select a profile and write it to params.yaml."""
    names = names_in(CONFIGS, "profiles")
    if name is None:
        console.print("\n".join(names))
        return
    is_path = name.endswith(".yaml")
    if not is_path and name not in names:
        raise ConfigError(f"unknown profile {name!r}; {CONFIGS}/ contains {', '.join(names)}")
    chosen = Path(name) if is_path else CONFIGS / f"{name}.yaml"
    load_profile(chosen)  # an invalid profile is not written
    if PARAMS.exists() and not force:
        _check_unedited(name)
    write_text(PARAMS, profile_text(chosen))
    console.print(f"params.yaml now has the values of {chosen}")


def _check_unedited(name: str) -> None:
    """Refuse to overwrite a params.yaml that equals no profile, or does not load, as after a change of the keys."""
    try:
        if _profile_in_use(PARAMS) is not None:
            return
        reason = f"{PARAMS} matches no profile in {CONFIGS} (it was edited, or written from your own file)"
    except ConfigError as error:
        reason = f"{error} ({PARAMS} was edited, or comes from a different version)"
    raise ConfigError(
        f"{reason}; `pacer use {name} --force` overwrites it; to keep a copy, first `cp {PARAMS} {CONFIGS}/mine.yaml`"
    )


def _profile_in_use(params: Path) -> str | None:
    """Return the profile with the same values as ``params``; None if it has been edited."""
    values = load_profile(params)
    names = names_in(CONFIGS, "profiles")
    return next((name for name in names if load_profile(CONFIGS / f"{name}.yaml") == values), None)


@app.command()
def doctor(params: ParamsFile = PARAMS) -> None:
    """Check what a run needs: packages, models, files, disk."""
    from pacer.cli.doctor import diagnose

    config, lacking = load_profile(params), False
    console.print(f"{params}: {_profile_in_use(params) or 'valid; it matches no profile'}")
    styles = {"ok": "green", "note": "yellow", "missing": "bold red"}
    for title, findings in diagnose(config):
        console.print(f"\n{title}")
        width = max(len(finding.what) for finding in findings)
        lacking |= any(finding.state == "missing" for finding in findings)
        for finding in findings:
            state = Text(f"  {finding.state:8}", styles[finding.state])
            say(state.append(f"{finding.what:{width}}  {finding.detail}", "default"))
    if lacking:
        raise ConfigError("`dvc repro` would fail; fix everything marked `missing` above")


for command in (audit, decode, export, generate, serve, score, compare, label, show):
    app.command()(command)
app.command("import-llm-rg4")(import_llm_rg4)


def main() -> None:
    """Run the console script; a PacerError is printed as one line, with exit code 1."""
    run_cleanly(app)
