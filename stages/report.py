"""Stage `report`: one self-contained page, with tables and figures next to it."""

from pathlib import Path

from pacer.config import load_params
from pacer.reporting.results import read_results
from pacer.reporting.sections import build_report


def main() -> None:
    data = [Path("data") / name for name in ("corpus", "anchors", "emphasis", "pictures")]
    build_report(
        read_results(*data, Path("predictions"), Path("metrics"), load_params()), Path("reports")
    )
    print("report: the page is reports/index.html")
