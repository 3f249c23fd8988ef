"""The commands ``pacer export``, ``pacer generate`` and ``pacer serve``; heavy imports wait until one runs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacer.cli.terminal import BACKBONES, PARAMS, BackbonesFolder, ParamsFile, say
from pacer.config.profiles import load_profile
from pacer.core.errors import ConfigError

if TYPE_CHECKING:
    from pacer.serving.reporter import Reporter

ExportedModel = Annotated[Path, typer.Option("--model", help="Exported model (`pacer export`).")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda or cuda:N; default: a GPU if available.")]
Dtype = Annotated[str | None, typer.Option(help="Type of the language model: float32 or bfloat16.")]
OtherBackbones = Annotated[
    Path | None, typer.Option("--backbones", help="Frozen models, if they moved since the export.")
]


def export(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="New folder for the model.")],
    model: Annotated[Path, typer.Option(help="Trained model.")] = Path("models/calibrate"),
    backbones: BackbonesFolder = BACKBONES,
    with_backbones: Annotated[bool, typer.Option("--with-backbones", help="Copy the frozen models too.")] = False,
    features: Annotated[Path, typer.Option(help="Feature store of the model.")] = Path("data/features"),
    records: Annotated[Path, typer.Option(help="Its corpus.")] = Path("data/corpus/records.parquet"),
    metrics: Annotated[Path, typer.Option(help="Its scores, for the model card.")] = Path("metrics"),
    params: ParamsFile = PARAMS,
) -> None:
    """Write a trained model to a folder that works without the pipeline: for `pacer generate` and for Python."""
    from pacer.serving.export import export_model

    done = export_model(
        out,
        load_profile(params).decode,
        model=model,
        backbones=backbones,
        features=features,
        records=records,
        metrics=metrics,
        with_backbones=with_backbones,
    )
    frozen = f"the frozen models stay in {backbones} or where that points; --with-backbones copies them"
    if with_backbones:
        frozen = "the frozen models are in it"
    say(f"{done.parameters:,} trained parameters written to {out}; {frozen}")
    if not done.scored:
        say(f"note: {metrics} holds no scores of this model and search, and the model card has none", "yellow")


def generate(
    ctx: typer.Context,
    model: ExportedModel,
    frontal: Annotated[Path | None, typer.Option(help="Frontal image: JPEG, PNG, TIFF, BMP or DICOM.")] = None,
    lateral: Annotated[Path | None, typer.Option(help="Lateral image.")] = None,
    prior: Annotated[str | None, typer.Option(metavar="FILE|TEXT", help="Previous report.")] = None,
    indication: Annotated[str | None, typer.Option(help="Indication.")] = None,
    history: Annotated[str | None, typer.Option(help="Clinical history.")] = None,
    view: Annotated[str | None, typer.Option(help="PA or AP; default: as the DICOM file says, else unknown.")] = None,
    sections: Annotated[
        str | None, typer.Option(help="findings+impression, findings or impression; default: as the model was trained.")
    ] = None,
    all_contexts: Annotated[bool, typer.Option("--all-contexts", help="In every context the sources allow.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, depth weights of all patches included.")] = False,
    cases: Annotated[Path | None, typer.Option(help="Many cases: a table .csv or .tsv.")] = None,
    out: Annotated[Path | None, typer.Option(help="With --cases: file for the results, JSON lines.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="With --cases: leave out those that are bad.")] = False,
    batch_size: Annotated[int | None, typer.Option(min=1, help="With --cases: cases at a time.")] = None,
    device: Device = None,
    dtype: Dtype = None,
    backbones: OtherBackbones = None,
) -> None:
    """Write reports for one X-ray, or for many. For research only; not for clinical decisions."""
    mode = "one case" if cases is None else "--cases"
    of_one = ("frontal", "lateral", "prior", "indication", "history", "view", "sections", "all_contexts", "json")
    of_many = ("out", "skip_bad", "batch_size")
    mode_of = dict.fromkeys(of_one, "one case") | dict.fromkeys(of_many, "--cases")
    for option in ctx.command.params:
        name = str(option.name)
        if ctx.params[name] not in (None, False) and mode_of.get(name, mode) != mode:
            raise ConfigError(f"{option.opts[0]} is for {mode_of[name]}, not for {mode}; omit one of them")
    if cases is not None:
        if out is None:
            raise ConfigError("--cases needs --out: a file for the results, such as reports.jsonl")
        from pacer.serving.batch import read_cases, report_cases

        found = read_cases(cases)
        reporter = _load(model, device, dtype, backbones)
        from pacer.cli.reports import show_summary

        done = report_cases(reporter, found, out, batch_size=batch_size, skip_bad=skip_bad)
        show_summary(done, out, reporter.notes)
        return
    if frontal is None:
        raise ConfigError("give --frontal (with --lateral, --prior) for one case, or --cases and --out for many")
    from pacer.serving.sources import text_or_file

    previous = text_or_file(prior, "--prior")
    reporter = _load(model, device, dtype, backbones)
    from pacer.cli.reports import show_contexts, show_result
    from pacer.serving.case import Case

    case = reporter.prepare(Case(frontal, lateral, previous, indication, history, view, sections, name=frontal.name))
    results = reporter.in_all_contexts(case) if all_contexts else {case.context: reporter.generate([case])[0]}
    if json:
        from json import dumps

        made = {context: result.as_dict(weights=True) for context, result in results.items()}
        print(dumps(made if all_contexts else made[case.context], indent=2, ensure_ascii=False))
    elif all_contexts:
        show_contexts(results)
    else:
        show_result(results[case.context])


def serve(
    model: ExportedModel,
    port: Annotated[int, typer.Option(min=1, max=65535)] = 7860,
    device: Device = None,
    dtype: Dtype = None,
    backbones: OtherBackbones = None,
) -> None:
    """Show a page in the browser where you can drop an X-ray. For research only; not for clinical decisions."""
    import importlib.util
    import os
    import signal
    import sys

    if importlib.util.find_spec("uvicorn") is None:
        raise ConfigError("the page needs the extra app; install it: `pip install -c constraints.txt -e '.[app]'`")
    from pacer.serving.server import served

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        reporter = _load(model, device, dtype, backbones)
        with served(reporter, port, say) as address:
            say(f"PACER is at {address} (Ctrl-C ends it). For research only.")
            while True:
                signal.pause()
    sys.stdout.flush()
    os._exit(0)  # a report that nobody waits for may still be written, and torch aborts where Python ends around it


def _load(model: Path, device: str | None, dtype: str | None, backbones: Path | None) -> Reporter:
    from pacer.serving.reporter import Reporter

    return Reporter.from_pretrained(model, device, dtype, backbones)
