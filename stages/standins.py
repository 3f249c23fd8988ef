"""Stage `standins`: the small models that are trained here; none if all four are bundled or come
from elsewhere."""

from functools import partial
from pathlib import Path

from pacer.backbones.external import check_backbone
from pacer.config import load_params
from pacer.config.backbones import ROLES
from pacer.core.instruction import instruction
from pacer.core.io import hash_file, hash_json, publish, scratch_directory
from pacer.core.schemas import read_images, read_records
from pacer.standins.make import make_standins


def main() -> None:
    params = load_params()
    for role in ROLES:
        check_backbone(params, role)  # missing weights end the run before any training
    corpus = Path("data/corpus")
    records = read_records(corpus / "records.parquet")
    images = read_images(corpus / "images.parquet")
    instruct = partial(instruction, unknown_view=params.prompt.unknown_view)
    out = Path("models/standins")
    depends_on = [
        params.backbones.model_dump(mode="json"),
        params.prompt.unknown_view,
        hash_file(corpus / "records.parquet"),
        hash_file(corpus / "images.parquet"),
    ]
    with scratch_directory(out, hash_json(depends_on)) as directory:
        make_standins(params.backbones, records, images, instruct, directory)
        publish(directory, out)
