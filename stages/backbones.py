"""Stage `backbones`: the frozen models, each in the format of the published model or as a pointer
with hashes."""

from functools import partial
from pathlib import Path

from pacer.backbones.external import check_settings
from pacer.backbones.make_backbones import MODELS, locate_backbones, make_standins
from pacer.backbones.pointers import resolve
from pacer.config import load_params
from pacer.core.io import hash_file, hash_json, publish, scratch_directory
from pacer.core.schemas import read_images, read_records
from pacer.model.prompt import instruction


def main() -> None:
    params = load_params()
    corpus = Path("data/corpus")
    records = read_records(corpus / "records.parquet")
    images = read_images(corpus / "images.parquet")
    instruct = partial(instruction, unknown_view=params.prompt.unknown_view)
    out = Path("models/backbones")
    depends_on = [
        params.backbones.model_dump(mode="json"),
        params.prompt.unknown_view,
        hash_file(corpus / "records.parquet"),
        hash_file(corpus / "images.parquet"),
    ]
    with scratch_directory(out, hash_json(depends_on)) as directory:
        locate_backbones(params.backbones, directory)
        for role in MODELS:
            located = getattr(params.backbones, role).provider in ("hub", "local")
            check_settings(params, role, resolve(directory / role) if located else None)
        make_standins(params.backbones, records, images, instruct, directory)
        publish(directory, out)
