"""``pacer decode``; imports wait for the command."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacer.cli.terminal import BACKBONES, PARAMS, ContextNames, ParamsFile, RecordsFile, check_contexts, console, say
from pacer.config import Decode, Features, validated
from pacer.config.profiles import load_profile
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    import polars as pl

    from pacer.serving.package import PackageSettings

STORE = Path("data/features")


def decode(
    records: RecordsFile,
    out: Annotated[Path, typer.Option(help="Folder for the predictions; replaced.")],
    model: Annotated[Path, typer.Option(help="Trained model, of the pipeline or exported.")] = Path("models/calibrate"),
    backbones: Annotated[
        Path | None, typer.Option(help="Frozen models; default: models/backbones, or those of the exported model.")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="Feature store; default: data/features, with --images OUT.features.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="images.parquet of the corpus: its images are encoded into --features first.")
    ] = None,
    split: Annotated[str, typer.Option(help="Split to decode: test, val or all.")] = "test",
    context: ContextNames = None,
    limit: Annotated[int | None, typer.Option(help="Maximum records per context.")] = None,
    params: ParamsFile = PARAMS,
) -> None:
    """Write reports for a set of records, without controls; an exported model brings its own decoding settings, others
    have those of params.yaml."""
    from pacer.core.io import check_replaceable
    from pacer.data.schemas import read_records
    from pacer.decoding.run import OUTPUTS, decode_records, plan_runs
    from pacer.serving.package import SETTINGS, frozen_models, read_settings

    check_replaceable(out, OUTPUTS)
    store = features or (STORE if images is None else out.with_name(f"{out.name}.features"))
    if images is not None and store.resolve() == STORE.resolve():
        raise ConfigError(
            f"--features {store} is the pipeline's store; name another folder for the features of --images"
        )
    config = load_profile(params)
    search, encoding = config.decode.model_dump(), config.features.model_dump()
    package = read_settings(model) if (model / SETTINGS).is_file() else None
    if package is not None:
        search |= package.search.model_dump()
        encoding |= package.states.model_dump(include=set(encoding))
    search = validated(search | {"split": split, "limit": limit, "controls": []}, "pacer decode", Decode)
    table = read_records(records)
    chosen = check_contexts(context)
    found = set(plan_runs(table, search)[""]["context"])
    if absent := [name for name in chosen if name not in found]:
        raise DataError(f"{records} has no record of context {', '.join(absent)} in split {split}; choose others")
    if chosen:
        table, found = table.filter(table["context"].is_in(chosen)), set(chosen)
    if package is not None:
        _check_known(package, found, records)
    own = nullcontext(backbones or BACKBONES) if package is None else frozen_models(model, backbones)
    with own as frozen:
        if images is not None:
            _encode(table, images, Features(**encoding), search.split, model, frozen, store)
        decode_records(model, frozen, table, store, search, out, about={"contexts": chosen or None})
    console.print(f"predictions written to {out}")


def _check_known(package: PackageSettings, contexts: set[str], records: Path) -> None:
    """Refuse contexts that an exported model was not trained on, and say where texts are cleaned in another way."""
    from pacer.data.schemas import read_about

    if unknown := contexts - set(package.contexts):
        known = [name for name in package.contexts if name in contexts]
        way = f"add {' '.join(f'--context {name}' for name in known)}" if known else "none of them can be decoded"
        names = ", ".join(name for name in CONTEXTS if name in unknown)
        raise DataError(
            f"{records} has records of {names}, but the model was trained on {', '.join(package.contexts)}; {way}"
        )
    about = read_about(records)
    for key, own in package.texts.model_dump().items():
        if about.get(key, own) != own:
            say(f"note: {records} was made with corpus.{key}: {about[key]}, the model's texts with {own}", "yellow")


def _encode(
    records: pl.DataFrame, images: Path, recipe: Features, split: str, model: Path, backbones: Path, features: Path
) -> None:
    """Encode what the records need, as the model was trained; what ``features`` holds already is reused."""
    import polars as pl

    from pacer.data.schemas import of_split, read_images
    from pacer.features.encode import build_store
    from pacer.model.checkpoint import read_record

    wanted = of_split(records, split)
    ids = set(wanted["frontal"]) | set(wanted["lateral"].drop_nulls())
    paths = read_images(images).filter(pl.col("image_id").is_in(list(ids)))
    recipe = recipe.model_copy(update={"depths": read_record(model).model.features.depths})
    build_store(recipe, paths, wanted["prior_report"].drop_nulls().to_list(), backbones, features)
