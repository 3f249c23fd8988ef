"""Stage `anchors`: the commitment target of every record, by its LLM answer or by the rules."""

from pathlib import Path

from pacer.commitments.targets import build_anchors
from pacer.core.errors import run_cleanly
from pacer.core.io import read_json, write_json


def main() -> None:
    audit = build_anchors(
        Path("data/corpus/records.parquet"), Path("data/anchors/llm_cache.jsonl"), Path("data/anchors/anchors.parquet")
    )
    audit["sample"] = read_json("data/anchors/sample_audit.json")
    audit["labelling"] = read_json("data/anchors/llm_audit.json")
    write_json("data/anchors/audit.json", audit)


if __name__ == "__main__":
    run_cleanly(main)
