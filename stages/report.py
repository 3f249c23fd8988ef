"""Stage `report`: one self-contained page, with tables and figures next to it."""

from pathlib import Path

from pacer.config import load_params
from pacer.reporting.sections import build_report


def main() -> None:
    data = [Path("data") / name for name in ("corpus", "anchors", "emphasis", "pictures")]
    build_report(*data, Path("predictions"), Path("metrics"), Path("reports"), load_params())
    print("report: the page is reports/index.html")
