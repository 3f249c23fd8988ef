"""Stage `anchors`: the commitment target of every record, by its LLM answer or by the rules."""

from pathlib import Path

from pacer.core.errors import run_cleanly
from pacer.core.seal import read_sealed, write_sealed
from pacer.labelling.targets.build_anchors import build_anchors


def main() -> None:
    audit = build_anchors(
        Path("data/corpus/records.parquet"), Path("data/anchors/llm_cache.jsonl"), Path("data/anchors/anchors.parquet")
    )
    audit["sample"] = read_sealed("data/anchors/sample_audit.json")
    audit["labelling"] = read_sealed("data/anchors/llm_audit.json")
    write_sealed("data/anchors/audit.json", audit, ["anchors.parquet"])


if __name__ == "__main__":
    run_cleanly(main)
