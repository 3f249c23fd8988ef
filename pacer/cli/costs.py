"""What the long stages of the pipeline will cost on this machine: operations over a rate, printed before anyone waits.

Rates of a CPU core were measured, on two cores. No GPU was at hand: a GPU's rates are assumptions. What comes out is
good to a factor of two or three.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal, NamedTuple

from pacer.cli.memory_plan import INSTRUCTION, PATCHES, VICUNA, frozen_shapes, language_config
from pacer.core.contexts import CONTEXTS, availability
from pacer.core.errors import DataError
from pacer.core.io import read_json
from pacer.corpus.audit import PAPER_RECORDS
from pacer.model.precision import count_parameters
from pacer.params import Params
from pacer.params.backbones import Backbones, TextStandin

#: Floating-point operations a second of a CPU core in float32: of models of more than 50 million parameters
#: (bench/results/{features,train,decode}.md) and of smaller ones (metrics/parent/metrics.json, the default profile's).
LARGE, SMALL = 8.4e10, 2.5e10
#: The same in the training of a vision stand-in, measured at width 96.
VISION = 4.4e10
#: Operations a radiograph of 224 pixels of the network that teaches such a stand-in on a corpus, for each of its own
#: steps: five, most of them at half the size.
TEACHER = 5 * 0.36 * 7.9e8
#: The same of a GPU's multiprocessor in bfloat16, assumed: a third of the H200's data sheet; and a tenth of that in
#: decoding, where a step waits for memory, and in float32, in which CheXbert computes.
GPU, SLOW_GPU = 2.5e12, 2.5e11
#: Bytes a second of a decoding step on a CPU, which reads all weights however few records there are
#: (bench/results/decode.md).
WEIGHTS = 9.6e9
#: Core-seconds to decode and resize a radiograph of 3,000 x 2,500 pixels for RAD-DINO, and bytes a second of writing
#: features with checksums (bench/results/features.md; DVC is assumed to hash them as fast) and of reading them for
#: training (bench/results/loader.md).
PREPARE, WRITE, READ = 1 / 31.6, 7.4e8, 1.58e9
#: Positions of a sequence beside the visual ones, and of a report alone; time of a Calibrate step over a Commit step
#: (bench/results/train.md).
TEXT, REPORT, CALIBRATE = 156, 60, 1.27
#: Parameters of CheXbert's blocks; observations to attribute in a report (docs/training.md: the phantom's).
CHEXBERT, OBSERVED = 8.5e7, 2.6
#: Seconds before a stage does anything, and, at the least, of a forward and backward pass and of a step of decoding
#: (assumed).
START, PASS, STEP = 6.0, 0.03, 0.01


class Machine(NamedTuple):
    """What the estimates need to know: CPU cores, and multiprocessors of all visible GPUs (0: none)."""

    cores: int
    gpu_processors: int = 0

    def seconds(self, operations: float, core: float = LARGE, gpu: float = GPU) -> float:
        """Time of so many operations."""
        return operations / (self.gpu_processors * gpu or self.cores * core)


class Counts(NamedTuple):
    """Records per context and split, and images: ``counted`` by the corpus's audit, ``expected`` of a generated corpus,
    or ``published`` of MIMIC-RG4."""

    records: dict[str, dict[str, int]]
    images: int
    origin: Literal["counted", "expected", "published"]

    @property
    def all(self) -> int:
        return sum(sum(splits.values()) for splits in self.records.values())


class StageCost(NamedTuple):
    """One stage: amount of work in words, seconds, and bytes of its outs where these are many."""

    stage: str
    work: str
    seconds: float
    bytes: float = 0.0


def count_records(params: Params, data: Path) -> Counts | None:
    """Counts of a generated corpus from its parameters; of a corpus of files from its audit below ``data``, before
    there is one the published counts of MIMIC-RG4, which PhysioNet's files come near; None for other files before their
    audit."""
    corpus = params.corpus
    if corpus.source == "phantom":
        return _expected(params)
    try:
        source, audit = read_json(data / "source" / "source.json"), read_json(data / "corpus" / "audit.json")
        if Path(source["root"]) == Path(str(corpus.root)).expanduser().resolve():
            records = {c: {s: int(n["records"]) for s, n in splits.items()} for c, splits in audit["contexts"].items()}
            if set(records) == set(corpus.contexts):
                return Counts(records, int(audit["images"]["count"]), "counted")
    except (DataError, KeyError, TypeError, AttributeError):
        pass
    if corpus.format not in ("rg4", "mimic_cxr"):
        return None
    records = {str(c): {s: min(n, corpus.limit or n) for s, n in PAPER_RECORDS[c].items()} for c in corpus.contexts}
    return Counts(records, _most(records, 0) + _most(records, 1), "published")


def _expected(params: Params) -> Counts:
    """Of a generated corpus."""
    world, records = params.corpus.phantom, {}
    studies = world.patients * world.studies_per_patient
    shares = {"val": world.val_fraction, "test": world.test_fraction}
    shares["train"] = 1 - sum(shares.values())
    for context in (c for c in CONTEXTS if c in params.corpus.contexts):
        lateral, prior = availability(context)
        total = (studies - world.patients if prior else studies) * (world.lateral_fraction if lateral else 1.0)
        records[context] = {split: round(total * share) for split, share in shares.items()}
    return Counts(records, round(studies * (1 + world.lateral_fraction)), "expected")


def _most(records: dict[str, dict[str, int]], source: int) -> int:
    """Records of the largest context with a source (0: frontal, 1: lateral, 2: previous report). Smaller contexts are
    taken to hold the same examinations: so MIMIC-RG4 has 269,402 images."""
    return max((sum(n.values()) for c, n in records.items() if (True, *availability(c))[source]), default=0)


def estimate(params: Params, counts: Counts, machine: Machine) -> list[StageCost]:
    """The cost of every stage that takes noticeable time or space."""
    frozen, features, decode = params.backbones, params.features, params.decode
    queries, online = params.interface.num_queries, features.mode == "pixels"
    width, patches, text_width = frozen_shapes(frozen)
    number = 4 if features.dtype == "float32" else 2
    image_bytes = 14**2 * patches if online else len(features.depths) * patches * width * number
    stored = counts.images * image_bytes + _most(counts.records, 2) * features.prior_tokens * (text_width * number + 1)
    encode = machine.seconds(_encoding(width, patches))
    seconds = counts.images * PREPARE * patches / PATCHES / machine.cores + 2 * stored / WRITE
    work = f"{counts.images:,} images {'prepared' if online else 'encoded'}, stored, hashed by DVC"
    seconds += 0.0 if online else counts.images * encode
    costs = [_backbones(frozen, machine.cores), StageCost("features", work, seconds + START, stored)]

    if params.emphasis.source == "computed":
        reports = max(splits.get("train", 0) + splits.get("val", 0) for splits in counts.records.values())
        size = _parameters(frozen.chexbert_standin) if frozen.chexbert.provider == "standin" else CHEXBERT
        seconds = machine.seconds(reports * OBSERVED * params.emphasis.steps * 4 * size * REPORT, SMALL, SLOW_GPU)
        costs.append(StageCost("emphasis", f"{reports:,} reports attributed, if no more are distinct", seconds + START))

    def with_images(seconds: float, images: float) -> float:
        """Time of work whose features are read meanwhile, or encoded before."""
        return max(seconds, images * image_bytes / READ) + (images * encode if online else 0.0) + START

    parameters = count_parameters(language_config(params) or VICUNA)
    views = sum(1 + availability(context)[0] for context in counts.records) / len(counts.records)
    phases = ("warmup", REPORT, 1.0), ("parent", TEXT, views), ("calibrate", TEXT * CALIBRATE, views)
    for name, text, images in phases:
        if name == "calibrate" and params.calibrate.trains == "calibrator" and params.calibrate.gate_inputs == "none":
            continue
        phase = getattr(params, name)
        records = phase.batch_size * phase.accumulation
        # validation, without a way back, takes half as long
        contexts = counts.records if name != "warmup" else counts.records.keys() & {"sn"}
        limit = params.train.validation_records or sys.maxsize
        checked = sum(min(counts.records[context].get("val", 0), limit) for context in contexts)
        checked *= -(-phase.updates // params.train.validation_interval)
        # a frozen model is passed through forwards and backwards, without gradients of its weights
        operations = (4 * phase.updates * records + 2 * checked) * parameters * (text + queries)
        seconds = machine.seconds(operations, LARGE if parameters > 5e7 else SMALL)
        seconds = max(seconds, phase.updates * phase.accumulation * PASS)
        work = f"{phase.updates:,} updates of {records} records"
        costs.append(StageCost(name, work, with_images(seconds, phase.updates * records * images)))
    if params.calibrate.source_cache == "on" and costs[-1].stage == "calibrate":
        slots = sum(sum(splits.values()) * (1 + sum(availability(c))) for c, splits in counts.records.items())
        costs[-1] = costs[-1]._replace(bytes=slots * queries * width * 4)  # float32

    cases = {c: min(splits.get(decode.split, 0), decode.limit or sys.maxsize) for c, splits in counts.records.items()}
    again = {"another_patient": cases, "no_lateral": {"mn"}, "no_prior": {"sw"}}
    runs = [sum(cases.values()), *(sum(cases[c] for c in cases if c in again[name]) for name in decode.controls)]
    prefix = queries + params.prompt.before_tokens + INSTRUCTION
    positions = sum(runs) * (prefix + decode.num_beams * decode.max_new_tokens)
    seconds = machine.seconds(positions * 2 * parameters, LARGE, SLOW_GPU)
    steps = sum(-(-reports // decode.batch_size) for reports in runs) * decode.max_new_tokens
    if not machine.gpu_processors:  # whose assumed rate holds the wait for the weights
        seconds += steps * parameters * 4 / WEIGHTS
    seconds = max(seconds, steps * STEP)
    beams = f"{decode.num_beams} beams of up to {decode.max_new_tokens} tokens"
    work = f"{sum(runs):,} reports with {beams}, controls included"
    return [*costs, StageCost("decode", work, with_images(seconds, sum(runs) * views))]


def _backbones(frozen: Backbones, cores: int) -> StageCost:
    """Training of the stand-ins among the frozen models, side by side on the CPU, each on one thread."""
    vision, alone = frozen.vision_standin, {}
    if frozen.vision.provider == "standin":
        patches = (vision.image_size // vision.patch_size) ** 2
        operations = _encoding(vision.width, patches)
        if frozen.train_on == "corpus":
            operations += TEACHER * (vision.image_size / 224) ** 2
        alone["vision"] = 3 * vision.steps * vision.batch_size * operations / VISION
    for name in ("language", "text", "chexbert"):
        if getattr(frozen, name).provider == "standin":
            own: TextStandin = getattr(frozen, f"{name}_standin")
            operations = 6 * own.steps * own.batch_size * REPORT * _parameters(own)
            alone[name] = operations / SMALL
    if not alone:
        return StageCost("backbones", "weights hashed", START)
    seconds = max(sum(alone.values()) / cores, *alone.values())
    return StageCost("backbones", f"{', '.join(alone)} stand-ins trained", seconds + START)


def duration(seconds: float) -> str:
    """In words."""
    if seconds < 5400:
        return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 100 * 3600 else f"{seconds / 86400:,.0f} days"


def _encoding(width: int, patches: int) -> float:
    """Operations of a vision encoder of twelve blocks on an image."""
    return 288 * width**2 * patches + 48 * patches**2 * width


def _parameters(standin: TextStandin) -> float:
    """Number of parameters of a stand-in that reads or writes text."""
    return 12 * standin.layers * standin.width**2 + standin.vocabulary * standin.width
