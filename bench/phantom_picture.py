"""The picture of docs/phantom.md: a normal chest and every finding of the phantom, in both views.

`make release` draws it (bench/release.py) from the studies of data/source. Each pair is of the
first study that has this finding alone.
"""

from pathlib import Path

import polars as pl
from PIL import Image, ImageDraw, ImageFont

from pacer.core.findings import FINDINGS

SOURCE = Path("data/source")
#: Pixels of a radiograph of the default profile, of the line of text above it, and of the gap
#: between two pairs; pairs in a row.
SIDE, LINE, GAP, ROW = 112, 16, 6, 4
#: Findings that are also shown where the lateral view alone has them.
ONLY_LATERAL = ("pleural effusion", "fracture")


def shown() -> dict[str, dict]:
    """Return the study that shows each finding, and a normal one, with both views."""
    views = pl.read_parquet("data/corpus/records.parquet").filter(context="mn")
    truth = pl.read_parquet(SOURCE / "truth.parquet").join(
        views.select("study_id", "frontal", "lateral"), on="study_id", maintain_order="left"
    )
    alone = truth.filter(pl.sum_horizontal(FINDINGS) == 1)
    hidden = pl.col("lateral_only").list.len() + pl.col("prior_only").list.len()
    studies = {"normal": truth.filter(pl.sum_horizontal(FINDINGS) == 0)}
    studies |= {name: alone.filter(pl.col(name), hidden == 0) for name in FINDINGS}
    studies |= {
        f"{name}, lateral only": alone.filter(pl.col("lateral_only").list.contains(name))
        for name in ONLY_LATERAL
    }
    return {name: found.row(0, named=True) for name, found in studies.items()}


def draw_phantom(out: Path) -> None:
    pairs = shown()
    width, height = 2 * SIDE + GAP, SIDE + LINE
    sheet = Image.new("L", (ROW * width - GAP, -(-len(pairs) // ROW) * height), 255)
    draw = ImageDraw.Draw(sheet)
    for number, (name, study) in enumerate(pairs.items()):
        left, upper = number % ROW * width, number // ROW * height
        draw.text((left, upper), name, fill=0, font=ImageFont.load_default(12))
        for place, view in enumerate(("frontal", "lateral")):
            with Image.open(SOURCE / "images" / study[view]) as image:
                sheet.paste(image.convert("L"), (left + place * SIDE, upper + LINE))
    sheet.save(out, optimize=True)
