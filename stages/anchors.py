"""Stage `anchors`: the commitment target of every record, from its LLM answer or from the rules."""

from pathlib import Path

from pacer.commitments.targets import build_anchors
from pacer.config import load_params
from pacer.core.io import write_json


def main() -> None:
    anchors = Path("data/anchors")
    records, cache, out = Path("data/corpus/records.parquet"), anchors / "llm_cache.jsonl", anchors / "anchors.parquet"
    params = load_params()
    audit = build_anchors(records, cache, out, params.anchors.rules, params.commit.attributes)
    write_json(anchors / "audit.json", audit)
