"""Stage `anchors`: the commitment target of every record, from its LLM answer or from the rules."""

from pathlib import Path

from pacer.config import load_params
from pacer.core.io import write_json
from pacer.labels.targets import build_commitments


def main() -> None:
    params = load_params()
    folder = Path("data/anchors")
    records = Path("data/corpus/records.parquet")
    cache = folder / "llm_cache.jsonl"
    out = folder / "anchors.parquet"
    sides = bool(params.commit.attributes)
    audit = build_commitments(records, cache, out, params.anchors.rules, sides)
    write_json(folder / "audit.json", audit)
