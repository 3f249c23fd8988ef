"""The command ``pacer``: combines the commands of all files, and adds those about the project itself.

Heavy imports wait until a command needs them.
"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from pacer.cli.decoding import decode, import_llm_rg4
from pacer.cli.probe import probe
from pacer.cli.profiles import profile_in_use, profile_names, use_profile
from pacer.cli.reporting import Show, anchors, audit, compare, score, show
from pacer.cli.serving import export, generate, serve
from pacer.cli.studies import study
from pacer.cli.terminal import PARAMS, ParamsFile, console, say
from pacer.config.profiles import CONFIGS, load_profile
from pacer.core.errors import ConfigError, run_cleanly

app = typer.Typer(
    no_args_is_help=True,
    context_settings={"max_content_width": 100},
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="PACER: chest X-ray reports when the lateral view or the previous report may be missing. "
    "The pipeline itself runs with `dvc repro`. Any command takes --traceback. For research use only.",
)
app.add_typer(anchors, name="anchors")
app.add_typer(probe, name="probe")
app.add_typer(study, name="study")


@app.command()
def use(
    name: Annotated[
        str | None, typer.Argument(help="Profile in configs/, or your own file.yaml; none: list them.")
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Overwrite a params.yaml that equals no profile: edited, or from your own file."),
    ] = False,
) -> None:
    """Select a profile: write it to params.yaml."""
    if name is None:
        current = profile_in_use(PARAMS, CONFIGS) if PARAMS.exists() else None
        for known in profile_names(CONFIGS):
            console.print(f"{'*' if known == current else ' '} {known}")
        return
    use_profile(name, PARAMS, CONFIGS, force=force)
    console.print(f"params.yaml is now the profile {name}")


@app.command()
def doctor(params: ParamsFile = PARAMS) -> None:
    """Check what a run needs: packages, models, files, disk."""
    from pacer.cli.doctor import diagnose

    titles = diagnose(load_profile(params))
    console.print(f"{params}: {profile_in_use(params, CONFIGS) or 'valid; not equal to a profile'}")
    styles = {"ok": "green", "note": "yellow", "missing": "bold red"}
    for title, findings in titles.items():
        console.print(f"\n{title}")
        width = max(len(finding.what) for finding in findings)
        for finding in findings:
            state = Text(f"  {finding.state:8}", styles[finding.state])
            say(state.append(f"{finding.what:{width}}  {finding.detail}", "default"))
    if any(finding.state == "missing" for findings in titles.values() for finding in findings):
        raise ConfigError("`dvc repro` would stop; fix what is marked `missing` above")


for command in (audit, decode, export, generate, serve, score, compare):
    app.command()(command)
app.command(cls=Show)(show)
app.command("import-llm-rg4")(import_llm_rg4)


def main() -> None:
    """Run the console script; a PacerError is printed as one line, with exit code 1."""
    run_cleanly(app)
