"""Stage `anchors`: the commitment target of every record, by its LLM answer or by the rules."""

from pathlib import Path

from pacer.anchors.build import build_anchors
from pacer.core.errors import run_cleanly
from pacer.core.io import atomic_path, read_json, write_json
from pacer.corpus.records import read_records


def main() -> None:
    records = read_records(Path("data/corpus/records.parquet"))
    anchors, audit = build_anchors(records, Path("data/anchors/llm_cache.jsonl"))
    with atomic_path("data/anchors/anchors.parquet") as temporary:
        anchors.write_parquet(temporary)
    audit["sample"] = read_json("data/anchors/sample_audit.json")
    audit["labelling"] = read_json("data/anchors/llm_audit.json")
    write_json("data/anchors/audit.json", audit)


if __name__ == "__main__":
    run_cleanly(main)
