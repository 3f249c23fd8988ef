"""Stage `report`: one self-contained page, with tables and figures beside it."""

from pathlib import Path

from pacer.core.errors import run_cleanly
from pacer.params import load_params
from pacer.reporting.build_report import build_report


def main() -> None:
    build_report(
        records=Path("data/corpus/records.parquet"),
        corpus_audit=Path("data/corpus/audit.json"),
        anchors_audit=Path("data/anchors/audit.json"),
        training={phase: Path("metrics", phase) for phase in ("warmup", "parent", "calibrate")},
        predictions=Path("predictions"),
        metrics=Path("metrics"),
        images=Path("data/corpus/images.parquet"),
        out=Path("reports"),
        params=load_params(),
    )


if __name__ == "__main__":
    run_cleanly(main)
