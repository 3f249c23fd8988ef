"""``pacer decode``, ``export``, ``generate`` and ``serve``; heavy imports wait until one runs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from pacer.config import Decode, Features, validated
from pacer.config.params import load_profile
from pacer.core.contexts import SOURCES, Context
from pacer.core.errors import CheckpointError, ConfigError, DataError
from pacer.core.findings import FINDINGS
from pacer.core.io import check_replaceable
from pacer.display import terminal
from pacer.display.terminal import BACKBONES, CORPUS, PARAMS, chips, console, echo

if TYPE_CHECKING:
    import polars as pl

    from pacer.serving.case import Case, Result
    from pacer.serving.package import PackageSettings
    from pacer.serving.reporter import Reporter

#: The pipeline's own feature store, which `dvc repro` fills.
STORE = Path("data/features")


def decode(
    out: Path,
    records: Path = CORPUS,
    model: Path = Path("models/calibrate"),
    backbones: Path | None = None,
    split: str = "test",
    context: list[str] | None = None,
    limit: int | None = None,
) -> None:
    """Write reports for the records of a corpus. An exported model comes with its decoding
    settings; other models use those in params.yaml. For a corpus other than the pipeline's, images
    are encoded first, into OUT.features."""
    config = load_profile(PARAMS)
    chosen = terminal.check_contexts(context)
    options = {"split": split, "limit": limit, "controls": []}
    decoding = validated(config.decode.model_dump() | options, "pacer decode", Decode)
    encoding = config.features
    from pacer.serving.layout import READING, located

    model = located(model)
    terminal.check_exists(records, model, backbones, remedy=terminal.FROM_STAGE)
    from pacer.decoding.run import OUTPUTS, decode_records, trained_generator
    from pacer.serving.package import NOT_EXPORTED, SETTINGS, frozen_models, read_settings

    check_replaceable(out, OUTPUTS)
    package = read_settings(model) if (model / SETTINGS).is_file() else None
    if package is not None:
        not_exported = decoding.model_dump(include=set(NOT_EXPORTED))
        decoding = package.decoding.model_copy(update=not_exported)
        stored = package.states.model_dump(include=set(Features.model_fields))
        encoding = encoding.model_copy(update=stored)
    table = _records_to_decode(records, model, package, decoding, chosen)
    if package is None:
        findings = BACKBONES.with_name("lists")
        opened = nullcontext(backbones or BACKBONES)
    else:
        findings = model / READING
        opened = frozen_models(model, backbones)
    is_own = records.resolve() == CORPUS.resolve()
    features = STORE if is_own else out.with_name(f"{out.name}.features")
    with opened as frozen:
        if not is_own:
            images = records.with_name("images.parquet")
            _encode(table, images, encoding, decoding.split, model, frozen, features)
        decode_records(
            model,
            frozen,
            table,
            features,
            decoding,
            out,
            partial(trained_generator, findings=findings if findings.is_dir() else None),
            about={"contexts": chosen or None},
        )
    console.print(f"predictions written to {out}")


def _records_to_decode(
    path: Path,
    model: Path,
    package: PackageSettings | None,
    decoding: Decode,
    chosen: Sequence[str],
) -> pl.DataFrame:
    """Return the records of the ``chosen`` contexts (empty: all); views without training records
    become unknown. Raises a DataError if a chosen context has no records, or the model was not
    trained on one."""
    from pacer.core.schemas import read_records
    from pacer.decoding.run import MAIN, plan_runs, with_trained_views
    from pacer.serving.package import trained_prompts

    table = read_records(path)
    views = set[str]()
    if package is not None:
        views = set(trained_prompts(model).get("view", ()))
    elif path.resolve() == CORPUS.resolve():
        views = set(table.filter(split="train")["view"])
    table = with_trained_views(table, views)
    contexts = set[str](plan_runs(table, decoding)[MAIN]["context"])
    if absent := [name for name in chosen if name not in contexts]:
        raise DataError(
            f"{path} has no records for context {', '.join(absent)} in split {decoding.split}; "
            "change --context or --split"
        )
    if chosen:
        table = table.filter(table["context"].is_in(chosen))
        contexts = set(chosen)
    if package is not None:
        _check_known(package, contexts, path)
    return table


def _check_known(package: PackageSettings, contexts: set[str], records: Path) -> None:
    """Refuse contexts that an exported model was not trained on, and print a note if texts were
    prepared differently in its training."""
    from pacer.core.schemas import read_about

    if unknown := contexts - set(package.contexts):
        raise DataError(
            f"{records} has records for {', '.join(sorted(unknown))}, but the model was trained "
            f"only on {', '.join(package.contexts)}; select from these with --context"
        )
    about = read_about(records)
    for key, value in package.texts.model_dump().items():
        if about.get(key, value) != value:
            note = f"note: {records} was built with corpus.{key}: {about[key]}"
            echo(f"{note}, but the model's training reports were prepared with {value}", "yellow")


def _encode(
    records: pl.DataFrame,
    images: Path,
    recipe: Features,
    split: str,
    model: Path,
    backbones: Path,
    features: Path,
) -> None:
    """Encode the images and reports that the records need, with the settings of the model's
    training. Existing entries of ``features`` are reused."""
    import polars as pl

    from pacer.core.schemas import of_split, read_images
    from pacer.features.encode import build_store
    from pacer.model.checkpoint import read_record

    wanted = of_split(records, split)
    ids = set(wanted["frontal"]) | set(wanted["lateral"].drop_nulls())
    paths = read_images(images).filter(pl.col("image_id").is_in(list(ids)))
    recipe = recipe.model_copy(update={"depths": read_record(model).model.features.depths})
    build_store(recipe, paths, wanted["prior_report"].drop_nulls().to_list(), backbones, features)


def export(
    out: Path,
    model: Path = Path("models/calibrate"),
    with_backbones: bool = False,
) -> None:
    """Write a trained model of this pipeline to a folder that works without the pipeline: for
    `pacer generate`, `pacer serve` and Python."""
    if not model.exists():
        raise CheckpointError(
            f"{model} does not exist; train a model with `dvc repro`, or pass one with --model"
        )
    decode = load_profile(PARAMS).decode
    from pacer.serving.package import add_cautions, export_model

    findings = Path("models/lists")
    export_model(
        out,
        decode,
        model=model,
        backbones=BACKBONES,
        features=Path("data/features"),
        records=Path("data/corpus/records.parquet"),
        findings=findings if findings.is_dir() else None,
        with_backbones=with_backbones,
    )
    add_cautions(out, model, Path("metrics"))
    if with_backbones:
        models = "it includes the frozen models"
    else:
        models = (
            f"the frozen models stay where they are ({BACKBONES}); --with-backbones copies them"
        )
    echo(f"model written to {out}; {models}")
    echo(f"to share it: `hf upload ORG/NAME {out} --private`; others load it as ORG/NAME@REVISION")


def generate(
    model: Path,
    frontal: Path | None = None,
    lateral: Path | None = None,
    prior: str | None = None,
    indication: str | None = None,
    history: str | None = None,
    view: str | None = None,
    commitment: str | None = None,
    as_json: bool = False,
    all_contexts: bool = False,
    cases: Path | None = None,
    out: Path | None = None,
    batch_size: int | None = None,
    backbones: Path | None = None,
) -> None:
    """Write reports for one X-ray, or for many. For research only; not for clinical decisions."""
    from pacer.serving.case import Case, notes_of
    from pacer.serving.layout import check_exported, located

    model = located(model)
    check_exported(model)
    if cases is not None:
        sources = (frontal, lateral, prior, indication, history, view, commitment)
        if out is None or as_json or all_contexts or any(sources):
            raise ConfigError(
                "--cases needs --out and reads the sources from its table; omit the single-case "
                "options"
            )
        _generate_many(model, cases, out, batch_size, backbones)
        return
    if frontal is None or out is not None:
        raise ConfigError(
            "for one case, pass --frontal [--lateral] [--prior]; for many, --cases and --out"
        )
    case = Case(
        frontal,
        lateral,
        prior,
        indication,
        history,
        view,
        name=frontal.name,
        commitment=commitment,
    )
    results = _generate_one(model, case, all_contexts, batch_size, backbones)
    if as_json:
        written = [result.as_dict() for result in results.values()]
        print(json.dumps(written, indent=2, ensure_ascii=False))
    else:
        for result in results.values():
            _show_result(result)
        _show_notes(notes_of(results.values()))


def _generate_one(
    model: Path, case: Case, all_contexts: bool, batch_size: int | None, backbones: Path | None
) -> dict[Context, Result]:
    from pacer.serving.case import load_image

    if case.prior is not None and os.path.isfile(case.prior):
        raise DataError('--prior is a file name, but must be text; pass --prior "$(cat FILE)"')
    for place, image in case.images().items():  # reject bad images before loading the model
        load_image(image, f"{case.name}, {place}")
    reporter = _load(model, backbones, batch_size)
    if all_contexts:
        return reporter.in_all_contexts(case)
    result = reporter.generate([case])[0]
    return {result.context: result}


def _generate_many(
    model: Path, table: Path, out: Path, batch_size: int | None, backbones: Path | None
) -> None:
    from pacer.serving.batch import read_cases, report_cases

    if out.exists():
        raise DataError(
            f"{out} already exists; remove it, or choose a different file for the results"
        )
    cases = read_cases(table)
    reporter = _load(model, backbones, batch_size)
    truncated = report_cases(reporter, cases, out)
    echo(f"{len(cases):,} reports written to {out}")
    if truncated:
        echo(
            f"note: reports that reached the token limit: {truncated:,}; their ends may be missing",
            "yellow",
        )
    _show_notes(reporter.notes)


def _show_result(result: Result) -> None:
    """Print one report with its commitment, probabilities and gate."""
    console.print(Text(f"{result.context.upper()}: {SOURCES[result.context]}; view {result.view}"))
    if result.commitment is not None:
        echo(Text("\nCommitment  ").append_text(chips(result.commitment)))
    console.print(Text(f"\n{result.report}\n"))
    if result.probabilities is not None:
        present = sorted(zip(result.probabilities.positive, FINDINGS, strict=True), reverse=True)
        listed = ", ".join(f"{finding} {chance:.2f}" for chance, finding in present)
        console.print(Text(f"Probabilities: {listed}"))
    gate = "" if result.gate is None else f"gate {result.gate:.3f}; "
    console.print(Text(f"{gate}{result.tokens} tokens\n"))


def _show_notes(notes: Iterable[str]) -> None:
    from pacer.serving.case import NOTICE

    for note in notes:
        echo(f"note: {note}", "yellow")
    echo(NOTICE, "bold")


def serve(
    model: Path,
    port: int = 7860,
    backbones: Path | None = None,
) -> None:
    """Serve a local web page that writes a report for an X-ray. For research only; not for clinical
    decisions."""
    import signal
    import sys

    from pacer.serving.layout import check_exported, located

    model = located(model)
    check_exported(model)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        reporter = _load(model, backbones)
        from pacer.serving.page import Page

        with Page(reporter, port, echo) as page:
            echo(
                f"PACER is running at http://127.0.0.1:{port}/ (Ctrl-C to stop). For research only."
            )
            page.serve_forever()
    sys.stdout.flush()
    os._exit(0)  # a report may still be in progress, and torch aborts if Python exits meanwhile


def _load(model: Path, backbones: Path | None, batch_size: int | None = None) -> Reporter:
    from pacer.serving.reporter import Reporter

    return Reporter(model, backbones=backbones, batch_size=batch_size)
