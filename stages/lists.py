"""Stage `lists`: the list predictor, which reads the probability of each finding from the fused
tokens of the frozen parent."""

from pathlib import Path

from pacer.core.anchor import ANCHOR_SCHEMA, DESCRIBED
from pacer.core.schemas import read_records, read_table
from pacer.decoding.lists.fit import fit_list_predictor


def main() -> None:
    models = Path("models")
    data = Path("data")
    records = read_records(data / "corpus" / "records.parquet")
    anchors = read_table(data / "anchors" / "anchors.parquet", ANCHOR_SCHEMA, optional=DESCRIBED)
    fit_list_predictor(
        models / "parent",
        models / "backbones",
        records,
        data / "features",
        anchors,
        models / "lists",
    )
