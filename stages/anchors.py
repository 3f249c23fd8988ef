"""Stage `anchors`: the commitment target of every record, from its LLM answer or from the rules."""

from pathlib import Path

from pacer.commitments.targets import build_anchors
from pacer.config import load_params
from pacer.core.io import write_json


def main() -> None:
    params, folder, records = (
        load_params(),
        Path("data/anchors"),
        Path("data/corpus/records.parquet"),
    )
    cache, out = folder / "llm_cache.jsonl", folder / "anchors.parquet"
    audit = build_anchors(records, cache, out, params.anchors.rules, params.commit.attributes)
    write_json(folder / "audit.json", audit)
