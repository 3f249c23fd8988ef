"""``pacer decode`` and ``pacer import-llm-rg4``; heavy imports wait until one runs."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacer.cli.terminal import (
    BACKBONES,
    CORPUS,
    FROM_STAGE,
    PARAMS,
    ContextNames,
    RecordsFile,
    check_contexts,
    check_exists,
    console,
    say,
)
from pacer.config import Decode, Features, validated
from pacer.config.profiles import load_profile
from pacer.core.errors import DataError
from pacer.core.io import check_replaceable

if TYPE_CHECKING:
    import polars as pl

    from pacer.serving.package import PackageSettings

#: The pipeline's own feature store, which `dvc repro` fills.
STORE = Path("data/features")


def decode(
    out: Annotated[Path, typer.Option(help="Output folder for the predictions; replaced if it exists.")],
    records: RecordsFile = CORPUS,
    model: Annotated[
        Path, typer.Option(help="Trained model: a folder (from training or `pacer export`), or org/name@revision.")
    ] = Path("models/calibrate"),
    backbones: Annotated[Path | None, typer.Option(help="Frozen models (default: those of --model).")] = None,
    split: Annotated[str, typer.Option(help="Split to decode: test, val or all.")] = "test",
    context: ContextNames = None,
    limit: Annotated[int | None, typer.Option(help="Maximum number of records per context.")] = None,
) -> None:
    """Write reports for the records of a corpus. An exported model comes with its decoding settings; other models use
    those in params.yaml. For a corpus other than the pipeline's, images are encoded first, into OUT.features."""
    config = load_profile(PARAMS)
    chosen = check_contexts(context)
    options = {"split": split, "limit": limit, "controls": []}
    decoding = validated(config.decode.model_dump() | options, "pacer decode", Decode)
    encoding = config.features
    from pacer.serving.layout import FINDINGS, located

    model = located(model)
    check_exists(records, model, backbones, remedy=FROM_STAGE)
    from pacer.data.schemas import read_records
    from pacer.decoding.run import OUTPUTS, decode_records, plan_runs, trained_generator, with_trained_views
    from pacer.serving.package import NOT_EXPORTED, SETTINGS, frozen_models, read_settings, trained_prompts

    check_replaceable(out, OUTPUTS)
    is_own = records.resolve() == CORPUS.resolve()
    store = STORE if is_own else out.with_name(f"{out.name}.features")
    package = read_settings(model) if (model / SETTINGS).is_file() else None
    if package is not None:
        decoding = package.decoding.model_copy(update=decoding.model_dump(include=set(NOT_EXPORTED)))
        stored = package.states.model_dump(include=set(Features.model_fields))
        encoding = encoding.model_copy(update=stored)
    table = read_records(records)
    own = table.filter(split="train")["view"] if is_own else ()
    table = with_trained_views(table, set(own if package is None else trained_prompts(model).get("view", ())))
    contexts = set(plan_runs(table, decoding)[""]["context"])
    if absent := [name for name in chosen if name not in contexts]:
        raise DataError(f"{records} has no records for context {', '.join(absent)} in split {split}; change either")
    if chosen:
        table, contexts = table.filter(table["context"].is_in(chosen)), set(chosen)
    if package is not None:
        _check_known(package, contexts, records)
    folder = nullcontext(backbones or BACKBONES) if package is None else frozen_models(model, backbones)
    with folder as frozen:
        if not is_own:
            _encode(table, records.with_name("images.parquet"), encoding, decoding.split, model, frozen, store)
        folder = BACKBONES.with_name("findings") if package is None else model / FINDINGS
        open_generator = partial(trained_generator, findings=folder if folder.is_dir() else None)
        decode_records(model, frozen, table, store, decoding, out, open_generator, about={"contexts": chosen or None})
    console.print(f"predictions written to {out}")


def _check_known(package: PackageSettings, contexts: set[str], records: Path) -> None:
    """Refuse contexts that an exported model was not trained on, and note texts that were cleaned in another way."""
    from pacer.data.schemas import read_about

    if unknown := contexts - set(package.contexts):
        raise DataError(
            f"{records} has records for {', '.join(sorted(unknown))}, but the model was trained only on "
            f"{', '.join(package.contexts)}; select from these with --context"
        )
    about = read_about(records)
    for key, value in package.texts.model_dump().items():
        if about.get(key, value) != value:
            note = f"note: {records} was built with corpus.{key}: {about[key]}"
            say(f"{note}, but the model's training reports were prepared with {value}", "yellow")


def _encode(
    records: pl.DataFrame, images: Path, recipe: Features, split: str, model: Path, backbones: Path, features: Path
) -> None:
    """Encode what the records need in the way the model was trained; existing entries of ``features`` are reused."""
    import polars as pl

    from pacer.data.schemas import of_split, read_images
    from pacer.features.encode import build_store
    from pacer.model.checkpoint import read_record

    wanted = of_split(records, split)
    ids = set(wanted["frontal"]) | set(wanted["lateral"].drop_nulls())
    paths = read_images(images).filter(pl.col("image_id").is_in(list(ids)))
    recipe = recipe.model_copy(update={"depths": read_record(model).model.features.depths})
    build_store(recipe, paths, wanted["prior_report"].drop_nulls().to_list(), backbones, features)


def import_llm_rg4(
    file: Annotated[Path, typer.Argument(help="Released second-stage weights, .pth or .ckpt.")],
    out: Annotated[Path, typer.Option(help="Folder for the checkpoint; an earlier import is replaced.")],
) -> None:
    """Convert LLM-RG4's released weights to a checkpoint for `pacer decode` or parent.start."""
    params = load_profile(PARAMS)
    check_exists(file, remedy="download LLM-RG4's released weights and pass the file's path")
    from pacer.model.checkpoint import RECORD, WEIGHTS
    from pacer.model.llm_rg4 import adopt_llm_rg4

    check_replaceable(out, (RECORD, WEIGHTS))
    weights = adopt_llm_rg4(file, params, BACKBONES, out)
    console.print(f"imported {len(weights.interface)} source-interface tensors, {len(weights.lora)} LoRA tensors")
    for name in weights.unused:
        say(f"unused: {name}")
    console.print(f"written to {out}; decode with `pacer decode --model {out}`, or set parent.start: {out}")
