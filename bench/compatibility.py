"""What other tools make of the same images and reports: the tables of docs/compatibility.md.

    python bench/compatibility.py       # a quarter of an hour, 6.5 GB in a temporary folder

The tools run in an environment of their own, which is made below the temporary folder and removed
afterwards: their versions below, PACER's dependencies as in `constraints.txt`, and PACER from this
clone. torch and torchvision must be of one kind, both for CPUs or both for CUDA. DCMTK has no
package for pip: its program `dcm2pnm` is used if it is on the PATH (Debian: `apt install dcmtk`).
`bench/other_tools.py` calls the tools.
"""

import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from measuring import ROOT, options_of

PAGE = ROOT / "docs" / "compatibility.md"
#: The tools, beside those that PACER itself uses.
TOOLS = [
    "SimpleITK==2.5.7",
    "highdicom==0.28.2",
    "dcm2niix==1.0.20260724",
    "nibabel==5.4.2",  # reads what dcm2niix writes
    "monai==1.6.1",
    "torchxrayvision==1.5.7",
    "torch==2.13.0",
    "torchvision==0.28.0",
    "sacrebleu==2.6.0",
    "rouge-score==0.1.2",
]
#: Without its dependencies: BLEU and ROUGE need none but rouge-score and torch, the rest gigabytes.
RADEVAL = "RadEval==2.2.1"
#: Heads of the tables.
IMAGES = {
    "monochrome1": "MONOCHROME1, 12 bits",
    "slope": "negative slope and a window",
    "jpeg2000": "JPEG 2000, 12 bits",
    "tiff": "TIFF, 16 bits, WhiteIsZero",
}
PAIRS = ("identical, three words", "empty report", "ordinary", "the three as a corpus")


def block(name: str) -> re.Pattern[str]:
    """Return the pattern of a part of the page that is written here."""
    return re.compile(f"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(lines) + "\n"


def image_row(row: str, cells: dict[str, str]) -> list[str]:
    return [row, *(cells[column] for column in IMAGES)]


def score_rows(row: str, scores: dict[str, list[str]]) -> list[list[str]]:
    return [[row, name, *cells] for name, cells in scores.items()]


def with_results(page: str, results: dict[str, Any]) -> str:
    """Return the page with the tables and the versions of the results."""
    images = [image_row(*item) for item in results["images"].items()]
    scores = [line for item in results["scores"].items() for line in score_rows(*item)]
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    parts = {
        "images": table(["Read by", *IMAGES.values()], images),
        "scores": table(["Package", "Score", *PAIRS], scores),
        "versions": textwrap.fill(f"Versions: {versions}.", 120) + "\n",
    }
    for name, text in parts.items():
        page = block(name).sub(lambda found, text=text: found[1] + text + found[2], page)
    return page


def run_tools(folder: Path) -> dict[str, Any]:
    """Install the tools below a folder, and return what they give."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own = project["dependencies"] + project["optional-dependencies"]["dicom"]
    subprocess.run([sys.executable, "-m", "venv", folder / "tools"], check=True)
    python = folder / "tools" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet"]
    subprocess.run([*install, "-c", ROOT / "constraints.txt", *own, *TOOLS], check=True)
    subprocess.run([*install, "--no-deps", RADEVAL], check=True)
    # the package `radeval` imports itself as `RadEval`
    (spelled,) = (folder / "tools").glob("lib/*/site-packages/radeval")
    spelled.with_name("RadEval").symlink_to("radeval")
    (folder / "images").mkdir()
    done = subprocess.run(
        [python, ROOT / "bench" / "other_tools.py", folder / "images"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def main() -> None:
    options_of(__doc__)
    with TemporaryDirectory() as folder:
        results = run_tools(Path(folder))
    page = with_results(PAGE.read_text(encoding="utf-8"), results)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
