"""``pacer decode``; imports wait for the command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacer.cli.terminal import BACKBONES, PARAMS, BackbonesFolder, ParamsFile, RecordsFile, console
from pacer.core.errors import ConfigError
from pacer.params import load_params, parse_params

if TYPE_CHECKING:
    import polars as pl

    from pacer.params import Params

STORE = Path("data/features")


def decode(
    records: RecordsFile,
    out: Annotated[Path, typer.Option(help="Folder for the predictions; replaced.")],
    model: Annotated[Path, typer.Option(help="Trained model.")] = Path("models/calibrate"),
    backbones: BackbonesFolder = BACKBONES,
    features: Annotated[
        Path | None, typer.Option(help="Feature store; default: data/features, with --images OUT.features.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="images.parquet of the corpus: its images are encoded into --features first.")
    ] = None,
    split: Annotated[str, typer.Option(help="Split to decode: test or val.")] = "test",
    limit: Annotated[int | None, typer.Option(help="Records a context at most.")] = None,
    params: ParamsFile = PARAMS,
) -> None:
    """Write reports for a set of records, with the decoding settings of params.yaml and without controls."""
    from pacer.core.io import check_replaceable
    from pacer.decoding.run import OUTPUTS, decode_records
    from pacer.records.schemas import read_records

    check_replaceable(out, OUTPUTS)
    settings = load_params(params).model_dump()
    settings["decode"] |= {"split": split, "limit": limit, "controls": []}
    checked = parse_params(settings, "pacer decode")
    table = read_records(records)
    if images is None:
        store = features or STORE
    else:
        store = features or out.with_name(f"{out.name}.features")
        if store.resolve() == STORE.resolve():
            raise ConfigError(f"--features {store} is the pipeline's own store; give --images a folder of its own")
        _encode(table, images, checked, model, backbones, store)
    decode_records(model, backbones, table, store, checked.decode, out)
    console.print(f"predictions written to {out}")


def _encode(records: pl.DataFrame, images: Path, params: Params, model: Path, backbones: Path, features: Path) -> None:
    """Encode what the records need, as the model was trained; what ``features`` holds already is reused."""
    import polars as pl

    from pacer.encoding.build_store import build_store
    from pacer.model.checkpoint import read_record
    from pacer.records.schemas import read_images

    depths = read_record(model).model.features.depths
    wanted = records.filter(pl.col("split") == params.decode.split)
    ids = set(wanted["frontal"]) | set(wanted["lateral"].drop_nulls())
    paths = read_images(images).filter(pl.col("image_id").is_in(list(ids)))
    recipe = params.features.model_copy(update={"depths": depths})
    build_store(recipe, paths, wanted["prior_report"].drop_nulls().to_list(), backbones, features)
