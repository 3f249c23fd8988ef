"""Stage `anchor_sample`: the stratified sample of train records that the LLM labels."""

from pacer.config import load_params
from pacer.core.io import atomic_path
from pacer.core.schemas import read_records
from pacer.labels.sampling import COLUMNS, sample_records


def main() -> None:
    anchors = load_params().anchors
    records = read_records("data/corpus/records.parquet", COLUMNS)
    sample = sample_records(records, anchors.sample_per_context, anchors.seed)
    with atomic_path("data/anchors/sample.parquet") as temporary:
        sample.write_parquet(temporary)
