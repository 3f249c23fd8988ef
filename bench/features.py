"""What the features stage costs beside the bare encoder, what stored types lose, and that memory does not grow.

    python bench/features.py [--preset cpu|gpu] [--parts speed memory types] [--run DIRECTORY] [--out FILE]

``speed``: images/s of the stage from JPG files, beside the bare forward of the encoder on the same prepared batches, in
turns, and beside each of its parts alone. The encoder has RAD-DINO's shape (ViT-B/14 at 518 pixels) and random weights.
``memory``: peak resident memory of stores of 1x and 10x images, each in a process of its own, with a small encoder.
``types``: bytes of an image by ``features.dtype`` and the error that the type brings to the states, to what Refine
makes of them, and to the logits of the reference reports. That needs trained models: those of a finished run
(``--run``, default: this directory); without one the part is left out, and said so.

Results are Markdown on the console or in ``--out``. Where a bar is missed, the exit code is 1.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from measuring import hardware, megabytes, ratio, table
from PIL import Image
from preparation import film
from torch import Tensor
from transformers import BertConfig, BertModel, BitImageProcessorPil, Dinov2Config, Dinov2Model

from pacer.anchors.table import ANCHOR_SCHEMA
from pacer.encoding import build_store as build
from pacer.encoding.shards import write_tensors
from pacer.features.encoder import ImageEncoder
from pacer.features.online import open_features
from pacer.features.rounding import DTYPES, as_stored
from pacer.model.assemble import load_model, load_tokenizer
from pacer.model.checkpoint import RECORD
from pacer.model.collate import FeatureSource as Source
from pacer.parallel.prefetch import prefetch
from pacer.parallel.threads import share_cores
from pacer.params import Features, load_params
from pacer.records.schemas import read_records, read_table
from pacer.training.examples import Examples
from pacer.training.record_table import RecordTable

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Preset:
    """Sizes of one machine's measurement.

    Attributes:
        edge: pixels of the encoder's input. hidden, layers, heads: of the encoder. film: width and height of the JPG
            files. files: distinct ones. images: of the store, each one of the files. bare: images of the bare forward.
        precision: ``features.precision``. few, many: images of the small stores whose memory is compared.
        limits: least shares: of the bare forward, and of the slowest part.
    """

    device: str
    edge: int
    hidden: int
    layers: int
    heads: int
    film: tuple[int, int]
    files: int
    images: int
    bare: int
    batch_size: int
    shard_size: int
    workers: int
    precision: str
    turns: int
    few: int
    many: int
    limits: tuple[float, float]


VIT_B = {"edge": 518, "hidden": 768, "layers": 12, "heads": 12, "film": (3000, 2500)}
PRESETS = {
    "cpu": Preset(
        "cpu",
        **VIT_B,
        files=6,
        images=24,
        bare=12,
        batch_size=4,
        shard_size=8,
        workers=1,
        precision="float32",
        turns=3,
        few=600,
        many=6000,
        limits=(0.95, 0.0),
    ),
    "gpu": Preset(
        "cuda",
        **VIT_B,
        files=32,
        images=2048,
        bare=1024,
        batch_size=64,
        shard_size=512,
        workers=14,
        precision="bfloat16",
        turns=3,
        few=600,
        many=6000,
        limits=(0.95, 0.85),
    ),
}


def miniature(preset: Preset) -> Preset:
    """The same measurement in seconds on a CPU; its figures mean nothing."""
    return replace(
        preset,
        device="cpu",
        edge=28,
        hidden=16,
        layers=3,
        heads=2,
        film=(40, 30),
        files=2,
        images=8,
        bare=4,
        batch_size=2,
        shard_size=4,
        workers=2,
        turns=1,
        few=8,
        many=16,
        limits=(0.0, 0.0),
    )


#: Most that the larger store's peak may be above the smaller one's.
FLAT = 1.1


def write_backbones(folder: Path, edge: int, hidden: int, layers: int, heads: int) -> Path:
    """A random encoder with its image processor, and a small BERT."""
    torch.manual_seed(0)
    Dinov2Model(
        Dinov2Config(
            hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, image_size=edge, patch_size=14
        )
    ).save_pretrained(folder / "vision")
    BitImageProcessorPil(
        size={"shortest_edge": edge},
        crop_size={"height": edge, "width": edge},
        image_mean=[0.5307] * 3,
        image_std=[0.2583] * 3,
    ).save_pretrained(folder / "vision")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "edema"]
    BertModel(
        BertConfig(
            vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
        )
    ).save_pretrained(folder / "text")
    (folder / "text" / "vocab.txt").write_text("\n".join(words) + "\n")
    return folder


def settings(preset: Preset, **changes: Any) -> Features:
    layers = preset.layers
    depths = [layers // 3, 2 * layers // 3, layers]
    return Features(
        **{
            "mode": "states",
            "depths": depths,
            "dtype": "bfloat16",
            "precision": preset.precision,
            "batch_size": preset.batch_size,
            "shard_size": preset.shard_size,
            "workers": preset.workers,
            "prior_tokens": 8,
        }
        | changes
    )


# -- speed ----------------------------------------------------------------------------------------------------------


@contextmanager
def moment_of_the_plan() -> Iterator[list[float]]:
    """When the stage announces its plan: models are loaded then, and the first batch is encoded."""
    times: list[float] = []
    announce = build.announce

    def noting(*arguments: Any) -> None:
        announce(*arguments)
        times.append(time.perf_counter())

    build.announce = noting
    try:
        yield times
    finally:
        build.announce = announce


def stage_rate(preset: Preset, folder: Path, images: pl.DataFrame, turn: int) -> float:
    """Images/s of the stage from its plan to its end; the batch that the plan was measured on does not count."""
    out = folder / f"store-{turn}"
    with moment_of_the_plan() as planned:
        build.build_store(settings(preset), images, [], folder, out)
    seconds = time.perf_counter() - planned[0]
    shutil.rmtree(out)
    return (len(images) - preset.batch_size) / seconds


def bare_rate(preset: Preset, encoder: ImageEncoder, batches: Sequence[Tensor]) -> float:
    """Images/s of the encoder alone on prepared batches."""
    _wait(preset)
    started = time.perf_counter()
    for batch in batches:
        encoder.encode(batch)
    _wait(preset)
    return sum(map(len, batches)) / (time.perf_counter() - started)


def preparation_rate(preset: Preset, encoder: ImageEncoder, paths: Sequence[str]) -> float:
    """Images/s of decoding and resizing with the stage's threads."""
    started = time.perf_counter()
    for _ in prefetch(encoder.preparation.levels, paths, preset.workers):
        pass
    return len(paths) / (time.perf_counter() - started)


def writing_rate(preset: Preset, states: Tensor, folder: Path) -> float:
    """Images/s of writing batches of states, checksums included."""
    stored = {"states": states.bfloat16()}
    batches = [stored] * max(preset.shard_size // len(states), 1)
    started = time.perf_counter()
    write_tensors(folder / "shard", len(batches) * len(states), batches)
    return len(batches) * len(states) / (time.perf_counter() - started)


def measure_speed(preset: Preset, missed: list[str]) -> list[str]:
    """The stage beside the bare encoder and its own parts."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_backbones(Path(temporary), preset.edge, preset.hidden, preset.layers, preset.heads)
        files = [str(folder / f"{seed}.jpg") for seed in range(preset.files)]
        for seed, path in enumerate(files):
            film(seed, 1).resize(preset.film).save(path, quality=95)
        # a third of the free disk, if that is less than the preset asks for
        image_bytes = (preset.edge // 14) ** 2 * preset.hidden * len(settings(preset).depths) * 2
        count = min(preset.images, max(shutil.disk_usage(folder).free // 3 // image_bytes, 2 * preset.batch_size))
        paths = [files[i % len(files)] for i in range(count)]
        images = pl.DataFrame({"image_id": [str(i) for i in range(count)], "path": paths})
        encoder = ImageEncoder(folder / "vision", settings(preset).depths, preset.device, preset.precision)
        prepared = torch.stack([encoder.preparation(path) for path in files]).to(preset.device)
        batches = [
            prepared[[i % len(files) for i in range(start, start + preset.batch_size)]]
            for start in range(0, preset.bare, preset.batch_size)
        ]
        states = encoder.encode(batches[0]).cpu()
        rates: dict[str, list[float]] = {"stage": [], "bare": [], "prepare": [], "write": []}
        for turn in range(preset.turns):
            rates["bare"].append(bare_rate(preset, encoder, batches))
            rates["stage"].append(stage_rate(preset, folder, images, turn))
            rates["prepare"].append(preparation_rate(preset, encoder, paths))
            rates["write"].append(writing_rate(preset, states, folder))
    share, told = ratio(rates["stage"], rates["bare"])
    slowest = min(("bare", "prepare", "write"), key=lambda part: statistics.median(rates[part]))
    of_slowest, told_slowest = ratio(rates["stage"], rates[slowest])
    if slowest == "bare" and share < preset.limits[0]:
        missed.append(f"the stage is at {share:.2f} of the bare forward, not {preset.limits[0]}")
    if of_slowest < preset.limits[1]:
        missed.append(f"the stage is at {of_slowest:.2f} of {slowest}, not {preset.limits[1]}")
    words = {
        "stage": "the stage, from JPG files to checked shards",
        "bare": "bare forward of the encoder",
        "prepare": f"decoding and resizing, {preset.workers} thread(s)",
        "write": "writing with checksums",
    }
    rows = [[words[part], f"{statistics.median(found):,.2f}"] for part, found in rates.items()]
    return [
        f"Encoder: {preset.layers} layers of width {preset.hidden} at {preset.edge} pixels, {preset.precision}; "
        f"grey JPG files of {preset.film[0]:,} x {preset.film[1]:,}; batches of {preset.batch_size}; median of "
        f"{preset.turns} turns.",
        "",
        *table(["", "images/s"], rows),
        f"The stage over the bare forward: {told}; over the slowest part ({words[slowest]}): {told_slowest}.",
        "",
    ]


def _wait(preset: Preset) -> None:
    if preset.device == "cuda":
        torch.cuda.synchronize()


# -- memory ---------------------------------------------------------------------------------------------------------


def peak_of_store(images: int) -> None:
    """Build a store of small images and print the peak resident bytes and the seconds of the build."""
    preset = Preset("cpu", 56, 32, 3, 2, (90, 80), 8, images, 0, 32, 256, 1, "float32", 1, 0, 0, (0, 0))
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_backbones(Path(temporary), preset.edge, preset.hidden, preset.layers, preset.heads)
        table = small_images(folder, images)
        started = time.perf_counter()
        build.build_store(settings(preset), table, [], folder, folder / "store")
        seconds = time.perf_counter() - started
    # not getrusage: its peak is inherited from the process that started this one
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print("peak", int(status["VmHWM"].split()[0]) * 1024, f"{seconds:.3f}")


def small_images(folder: Path, count: int) -> pl.DataFrame:
    files = []
    for seed in range(8):
        files.append(str(folder / f"{seed}.png"))
        Image.fromarray(np.random.default_rng(seed).integers(0, 256, (90, 80), dtype=np.uint8)).save(files[-1])
    return pl.DataFrame({"image_id": [f"{i:07d}" for i in range(count)], "path": [files[i % 8] for i in range(count)]})


def measure_memory(preset: Preset, missed: list[str]) -> list[str]:
    """Peak resident memory against the number of images."""
    rows, peaks = [], []
    for count in (preset.few, preset.many):
        output = subprocess.run(
            [sys.executable, __file__, "--peak-of-store", str(count)], check=True, text=True, capture_output=True
        ).stdout
        peak, seconds = output.split("peak ", 1)[1].split()
        peaks.append(int(peak))
        rows.append([f"{count:,}", megabytes(int(peak)), seconds, f"{1e3 * float(seconds) / count:.2f}"])
    if peaks[1] > FLAT * peaks[0]:
        missed.append(f"the peak of {preset.many:,} images is {peaks[1] / peaks[0]:.2f} of that of {preset.few:,}")
    more = (peaks[1] - peaks[0]) / (preset.many - preset.few)
    return [
        *table(["images", "peak resident, MB", "seconds", "ms an image"], rows),
        f"An image more takes {more:,.0f} bytes more: its id, path and key.",
        "",
    ]


# -- types ----------------------------------------------------------------------------------------------------------


class Rounded:
    """Features whose image and text states went through a stored type."""

    def __init__(self, exact: Source, dtype: torch.dtype):
        self.exact, self.dtype = exact, dtype

    def depth_states(self, image_ids: Sequence[str]) -> Tensor:
        return self._through(self.exact.depth_states(image_ids))

    def prior_states(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        states, mask = self.exact.prior_states(texts)
        return self._through(states), mask

    def _through(self, states: Tensor) -> Tensor:
        return as_stored(states, self.dtype, [""] * len(states)).float()


@dataclass
class Found:
    """What one type gives: states, Refine's output, and logits at the positions that predict the reference."""

    states: Tensor
    refined: Tensor
    logits: Tensor


def exact_features(run: Path, folder: Path, images: pl.DataFrame, priors: Iterable[str]) -> Source:
    """A store of these images and texts in float32."""
    config = load_params(run / "params.yaml").features.model_copy(update={"mode": "states", "dtype": "float32"})
    build.build_store(config, images, list(priors), run / "models/backbones", folder / "exact")
    return open_features(folder / "exact", run / "models/backbones", "cpu")


@torch.no_grad()
def found_with(features: Source, examples: Examples, model: Any, batches: Sequence[Sequence[int]]) -> Found:
    states, refined, logits = [], [], []
    examples.features = features
    for rows in batches:
        batch = examples.batch(rows, [True] * len(rows), 0.35)
        states.append(batch.frontal.float())
        refined.append(model.refine(batch.frontal.float())[0])
        inputs = model.calibrate(model.embed(batch), batch)[0]
        logits.append(model.target_logits(model.hidden(inputs), batch))
    return Found(torch.cat(states), torch.cat(refined), torch.cat(logits))


def measure_types(run: Path, cases: int = 96) -> list[str]:
    """Bytes and errors by stored type, with the models of a finished run."""
    if not (run / "models/calibrate" / RECORD).exists():
        return [f"Left out: {run} holds no finished run; `dvc repro` makes one.", ""]
    model, record = load_model(run / "models/calibrate", run / "models/backbones", torch.float32)
    model.eval()
    records = read_records(run / "data/corpus/records.parquet").filter(pl.col("split") == "test")
    records = records.filter(pl.int_range(pl.len()).over("context") < cases // 4)
    used = pl.concat([records["frontal"], records["lateral"]]).drop_nulls().unique(maintain_order=True)
    images = pl.read_parquet(run / "data/corpus/images.parquet").filter(pl.col("image_id").is_in(used.implode()))
    anchors = read_table(run / "data/anchors/anchors.parquet", ANCHOR_SCHEMA)
    table_ = RecordTable.of(records, records.select("record_id").join(anchors, on="record_id", maintain_order="left"))
    with tempfile.TemporaryDirectory() as temporary:
        images = images.with_columns(path=pl.Series([str(run / path) for path in images["path"]]))
        exact = exact_features(run, Path(temporary), images, records["prior_report"].drop_nulls().unique())
        examples = Examples(table_, load_tokenizer(run / "models/backbones"), exact, record.model)
        numbers = iter(range(len(table_)))
        batches = list(iter(lambda: list(islice(numbers, 8)), []))
        truth = found_with(exact, examples, model, batches)
        rows = []
        for name, dtype in DTYPES.items():
            own = found_with(Rounded(exact, dtype), examples, model, batches)
            error = relative(own.states, truth.states)
            paper = 3 * 1369 * 768 * dtype.itemsize
            changed = float((own.logits.argmax(-1) != truth.logits.argmax(-1)).float().mean())
            rows.append(
                [
                    name,
                    megabytes(paper),
                    f"{error:.2e}",
                    f"{relative(own.refined, truth.refined):.2e}",
                    f"{relative(own.logits, truth.logits):.2e}",
                    f"{100 * changed:.2f} %",
                ]
            )
    return [
        f"{len(table_)} test records of {run.name if run != ROOT else 'the default profile'}; relative errors "
        "(norm over norm) against float32. Bytes: an image of RAD-DINO's shape.",
        "",
        *table(
            ["stored type", "MB an image", "states", "Refine's output", "logits", "most likely token differs"], rows
        ),
    ]


def relative(one: Tensor, other: Tensor) -> float:
    return float((one - other).norm() / other.norm())


PARTS = ("speed", "memory", "types")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", choices=PRESETS, default="cpu")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), help="of the encoder; default: the preset's")
    parser.add_argument("--miniature", action="store_true", help="tiny shapes on the CPU: does it run?")
    parser.add_argument("--run", type=Path, default=ROOT)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--peak-of-store", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    share_cores(1)
    if arguments.peak_of_store:
        peak_of_store(arguments.peak_of_store)
        return
    preset, missed = PRESETS[arguments.preset], []
    preset = miniature(preset) if arguments.miniature else preset
    preset = replace(preset, precision=arguments.precision or preset.precision)
    lines = [
        "# The features stage",
        "",
        f"`{' '.join(['python bench/features.py', *sys.argv[1:]])}`, {date.today()}, "
        f"{hardware(torch.device(preset.device))}, torch {torch.__version__}.",
        "",
    ]
    parts = {
        "speed": lambda: measure_speed(preset, missed),
        "memory": lambda: measure_memory(preset, missed),
        "types": lambda: measure_types(arguments.run.resolve()),
    }
    for part in arguments.parts:
        lines += [f"## {part.capitalize()}", "", *parts[part]()]
    text = "\n".join(lines)
    if arguments.out:
        arguments.out.write_text(text)
    print(text)
    if missed:
        sys.exit(f"missed: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
