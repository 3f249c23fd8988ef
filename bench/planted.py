"""Does the probe give planted systems the right verdicts? Six systems of known behaviour, over five
synthetic datasets.

``python bench/planted.py WORK`` generates each dataset, makes its probe, lets every system write a
report for every row, and prints how often each verdict was given, and how often wrongly by
:data:`RIGHT`, which was committed before the first run. In every report each finding is flipped
with probability .1 and the wording is drawn, so twins differ.
"""

import random
import re
import zlib
from collections import Counter
from collections.abc import Callable
from functools import cache
from math import ceil
from pathlib import Path
from statistics import NormalDist

import numpy as np
import polars as pl
from measuring import options_of, table
from PIL import Image

from pacer.config import load_params
from pacer.core.findings import FINDINGS
from pacer.core.schemas import read_images, read_records
from pacer.corpus.build_corpus import build_corpus
from pacer.extras.probe.command import make
from pacer.extras.probe.make import COVERED, ELSEWHERE, GIVEN, INPUTS, Box, Boxes, boxes_of_truth
from pacer.extras.probe.use import FindingUse, Verdict, read_probe, system_use
from pacer.phantom.generate import generate_phantom
from pacer.statistics.halves import Difference
from pacer.text.rules import extract_anchor

SEEDS, PATIENTS, LIMIT, SIZE = (101, 102, 103, 104, 105), 400, 500, 56
FLIPPED, BLIND = 0.1, 0.3
CENTRAL = ("cardiomegaly", "edema", "enlarged mediastinum")
SIDED = tuple(finding for finding in FINDINGS if finding not in CENTRAL)
CONSTANT = ("atelectasis", "cardiomegaly", "lung opacity", "pleural effusion", "support devices")
#: System -> right verdict of each finding, if there are enough records. "Cannot tell" is always
#: allowed, any other verdict is forbidden. Two verdicts: either is right, because the rate at which
#: noise affirms the finding is the .1 above which it counts as said.
RIGHT: dict[str, dict[str, tuple[str, ...]]] = {
    "blind": dict.fromkeys(FINDINGS, (Verdict.WITHOUT,)),
    "constant": {
        name: (Verdict.WITHOUT,) if name in CONSTANT else (Verdict.UNCLEAR, Verdict.WITHOUT)
        for name in FINDINGS
    },
    "copier": dict.fromkeys(FINDINGS, (Verdict.WITHOUT,)),
    "text only": dict.fromkeys(FINDINGS, (Verdict.WITHOUT,)),
    "true region": {
        name: (Verdict.THERE,) if name in SIDED else (Verdict.UNCLEAR,) for name in FINDINGS
    },
    "wrong region": {
        name: (Verdict.NOT_THERE,) if name in SIDED else (Verdict.UNCLEAR,) for name in FINDINGS
    },
}
#: Half the width of an interval with which "no effect" is found nine times in ten where there is
#: none: the interval reaches 1.96 deviations, the strictest of thirteen tests 2.89, and the
#: estimate stays within 1.645 of them nine times in ten.
ENOUGH = 0.1 * 1.96 / (2.89 + 1.645)
#: The wrong region: a corner outside the body.
CORNER = Box(0.0, 0.93, 0.06, 0.07)
#: What the text-only system concludes from an indication.
CONCLUDES = {
    "breath|dyspnea|overload": ("cardiomegaly", "edema", "pleural effusion"),
    "fever|cough|infection": ("pneumonia", "lung opacity", "consolidation"),
    "intubated|line|hypoxia": ("support devices", "atelectasis"),
    "fall|accident|wall": ("fracture", "pneumothorax"),
    "weight|hemoptysis|staging": ("lung lesion", "enlarged mediastinum"),
    "exposure|discomfort": ("pleural abnormality",),
}
SHORT = {
    Verdict.THERE: "there",
    Verdict.NOT_THERE: "not there",
    Verdict.WITHOUT: "without",
    Verdict.UNCLEAR: "?",
}
AFFIRMED = ("there is {} .", "{} is seen .", "{} is present .", "the study shows {} .")
DENIED = ("there is no {} .", "no {} .", "no evidence of {} .")


def dataset(seed: int, folder: Path) -> None:
    """Generate a synthetic dataset, nearly all of it test, with its probe."""
    corpus = load_params().corpus
    sizes = {"patients": PATIENTS, "val_fraction": 0.01, "test_fraction": 0.98}
    world = corpus.phantom.model_copy(update=sizes)
    generate_phantom(world, seed, folder / "source", SIZE)
    corpus = corpus.model_copy(update={"phantom": world, "seed": seed})
    build_corpus(corpus, folder / "source", folder / "corpus")
    # Typer's function: all other options must be given, too
    make(folder / "probe", folder / "corpus", "test", None, LIMIT, seed, None)


@cache
def grey(file: str) -> np.ndarray:
    return np.asarray(Image.open(file).convert("L"), dtype=float)


class Pictures:
    """What can be read in a picture of a probe: findings whose region is as in the picture that it
    was made of."""

    def __init__(self, folder: Path, key: pl.DataFrame):
        records = read_records(folder / "corpus" / "records.parquet")
        self.boxes: Boxes = boxes_of_truth(folder / "corpus" / "truth.parquet", records)
        images = read_images(folder / "corpus" / "images.parquet")
        self.paths = dict(images.select("image_id", "path").iter_rows())
        self.given = {row["record_id"]: row for row in key.filter(twin=GIVEN).iter_rows(named=True)}

    def read(self, row: dict, region: Box | None) -> set[str]:
        """Return the findings whose own region, or for all of them the one ``region``, is
        unchanged."""
        found: set[str] = set()
        covered = row["twin"] in (COVERED, ELSEWHERE)
        for view in ("frontal", "lateral"):
            base = (self.given[row["record_id"]] if covered else row)[view]
            if base in self.paths:
                change = np.abs(grey(row[f"{view}_file"]) - grey(self.paths[base]))
                for finding, places in self.boxes.get(base, {}).items():
                    parts = [part(change, box) for box in (places if region is None else [region])]
                    if np.median(np.concatenate(parts)) < 4:
                        found.add(finding)
        return found


def part(pixels: np.ndarray, box: Box) -> np.ndarray:
    height, width = pixels.shape
    left, top = int(box.x * width), int(box.y * height)
    right = max(int((box.x + box.width) * width), left + 1)
    bottom = max(int((box.y + box.height) * height), top + 1)
    return pixels[top:bottom, left:right].ravel()


def systems(pictures: Pictures) -> dict[str, Callable[[dict, random.Random], set[str]]]:
    """System -> what it affirms, from a row of the key."""

    def copied(row: dict, _: random.Random) -> set[str]:
        return set(extract_anchor(row["prior_report"] or "").positive)

    def concluded(row: dict, draw: random.Random) -> set[str]:
        text = f"{row['indication']} {row['history']}".lower()
        names = [
            name for words, found in CONCLUDES.items() if re.search(words, text) for name in found
        ]
        return copied(row, draw) | set(names)

    return {
        "blind": lambda _, draw: {name for name in FINDINGS if draw.random() < BLIND},
        "constant": lambda _, __: set(CONSTANT),
        "copier": copied,
        "text only": concluded,
        "true region": lambda row, _: pictures.read(row, None),
        "wrong region": lambda row, _: pictures.read(row, CORNER),
    }


def report(affirmed: set[str], draw: random.Random) -> str:
    """Write a report with noise: each finding flipped with probability :data:`FLIPPED`, wording and
    order drawn."""
    stated = [name for name in FINDINGS if (name in affirmed) != (draw.random() < FLIPPED)]
    absent = [name for name in FINDINGS if name not in stated]
    denied = draw.sample(absent, min(3, len(absent)))
    lines = [draw.choice(AFFIRMED).format(name) for name in stated]
    lines += [draw.choice(DENIED).format(name) for name in denied]
    return " ".join(draw.sample(lines, len(lines)))


def judged(folder: Path, seed: int) -> dict[str, list[FindingUse]]:
    """Return the verdicts on every system in one dataset."""
    key = read_probe(folder / "probe")
    inputs = pl.read_csv(folder / "probe" / INPUTS, infer_schema=False)
    files = inputs.select("probe_id", frontal_file="frontal", lateral_file="lateral")
    rows = key.join(files, on="probe_id").to_dicts()
    found = {}
    for name, affirms in systems(Pictures(folder, key)).items():
        draw = random.Random(zlib.crc32(f"{seed} {name}".encode()))
        texts = [report(affirms(row, draw), draw) for row in rows]
        file = folder / f"{name.replace(' ', '-')}.csv"
        pl.DataFrame({"probe_id": [row["probe_id"] for row in rows], "report": texts}).write_csv(
            file
        )
        found[name] = system_use(name, key, file).findings
    return found


def records_needed(effect: Difference, tests: int) -> int | None:
    """Return the number of records at which a difference of rates of 0.2 would be detected with a
    power of 0.8 by the strictest of the ``tests``, with the observed spread, but a variance of at
    least 0.16; None: the spread is not known."""
    if effect.low is None or effect.high is None:
        return None
    normal = NormalDist()
    deviation = (effect.high - effect.low) / (2 * normal.inv_cdf(0.975))
    variance = max((effect.counts[0] or 0) * deviation**2, 0.2 * (1 - 0.2))
    reach = normal.inv_cdf(1 - 0.05 / (2 * tests)) + normal.inv_cdf(0.8)
    return ceil(variance * reach**2 / 0.2**2)


def has_enough(one: FindingUse, right: str, tests: int) -> bool:
    """Whether a cell has enough records for its right verdict; ``tests``: the number of findings
    of its system and dataset."""
    if right == Verdict.UNCLEAR:
        return False
    effect = one.effects.get("any picture" if right == Verdict.WITHOUT else "place")
    if right == Verdict.THERE:
        needed = None if effect is None else records_needed(effect, tests)
        return effect is not None and needed is not None and (effect.counts[0] or 0) >= needed
    known = effect and effect.low is not None and effect.high is not None
    return bool(known and (effect.high - effect.low) / 2 <= ENOUGH)


def summary(found: list[dict[str, list[FindingUse]]]) -> list[str]:
    """Return the table as lines of Markdown: a row a system, a column a finding, then the counts
    that decide."""
    lines = []
    for system, right in RIGHT.items():
        uses = [use for dataset in found for use in dataset[system]]
        cells = []
        for finding in FINDINGS:
            counts = Counter(SHORT[use.verdict] for use in uses if use.finding == finding)
            cells.append(", ".join(f"{count} {word}" for word, count in counts.most_common()))
        forbidden = [
            use for use in uses if use.verdict not in (*right[use.finding], Verdict.UNCLEAR)
        ]
        able = [
            use.verdict == right[use.finding][0]
            for dataset in found
            for use in dataset[system]
            if len(right[use.finding]) == 1
            and has_enough(use, right[use.finding][0], len(dataset[system]))
        ]
        lines.append([system, *cells, str(len(forbidden)), f"{sum(able)} of {len(able)}"])
    return table(["System", *FINDINGS, "forbidden", "right, with enough records"], lines)


def main() -> None:
    work = {"type": Path, "help": "folder for the datasets; those that are there are used again"}
    found, options = [], options_of(__doc__, work=work)
    for seed in SEEDS:
        folder = options.work / f"{seed}"
        if not (folder / "probe").is_dir():
            dataset(seed, folder)
        found.append(judged(folder, seed))
    print("\n".join(summary(found)))


if __name__ == "__main__":
    main()
