"""What each stage of the pipeline will cost on this machine: counts times rates, printed before anyone waits for it.

All figures are estimates, good to a factor of two or three. The rates are round figures, not measurements.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pacer.core.contexts import CONTEXTS, availability
from pacer.core.errors import DataError
from pacer.core.io import read_json
from pacer.params import Backbones, Params, TextStandin

#: Operations per second of a CPU core (float32), and of a multiprocessor of a current data-centre GPU (bfloat16).
RATES = {
    "large": (1.0e11, 2.5e12),
    "small": (3.0e10, 2.5e12),  # many small products
    "large, decoding": (3.0e10, 5.0e10),  # a step waits for memory
    "small, decoding": (9.0e9, 5.0e10),
}
#: Seconds of a core to prepare an image of 518 x 518 pixels (decode, resize), of which there are so many patches; to
#: draw a generated radiograph; of a stage before it does anything; of one forward and backward pass, at the least.
PREPARE, PATCHES, DRAW, START, PASS = 0.0285, 1369, 0.002, 6.0, 0.03
#: Widths, and numbers of parameters, of published models: RAD-DINO, SmolLM2 (GGUF) and Vicuna-7B.
VISION_WIDTH, GGUF_PARAMETERS, LANGUAGE_PARAMETERS = 768, 1.35e8, 6.7e9
#: Images of an average record, and its tokens beside those of images: instruction, commitment and report.
IMAGES_OF_A_RECORD, TEXT_TOKENS = 1.5, 140
#: Operations of CheXbert (BERT-base) on a report.
LABEL_OPERATIONS = 2 * 8.5e7 * 90


class Machine(NamedTuple):
    """What the estimates need to know: CPU cores, and multiprocessors of all visible GPUs (0: none)."""

    cores: int
    gpu_processors: int = 0

    def seconds(self, operations: float, kind: str) -> float:
        """Time of operations of a kind of :data:`RATES`."""
        cpu, gpu = RATES[kind]
        return operations / (self.gpu_processors * gpu or self.cores * cpu)

    def training(self, operations: float, kind: str, passes: int) -> float:
        """Time of operations in so many forward and backward passes."""
        return max(self.seconds(operations, kind), passes * PASS)


class Counts(NamedTuple):
    """Records per context and split, and images; ``measured``: from the corpus's audit rather than guessed."""

    records: dict[str, dict[str, int]]
    images: int
    measured: bool

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
    """Counts of a generated corpus from its parameters, of a corpus of files from its audit below ``data``; None for
    a corpus of files that the stages `source` and `corpus` have not read yet."""
    world, records = params.corpus.phantom, {}
    if params.corpus.source == "files":
        try:
            source, audit = read_json(data / "source" / "source.json"), read_json(data / "corpus" / "audit.json")
            if Path(source["root"]) != Path(str(params.corpus.root)).expanduser().resolve():
                return None
            records = {c: {s: int(n["records"]) for s, n in splits.items()} for c, splits in audit["contexts"].items()}
            images = int(audit["images"]["count"])
        except (DataError, KeyError, TypeError, AttributeError):
            return None
        return Counts(records, images, measured=True) if set(records) == set(params.corpus.contexts) else None
    studies = world.patients * world.studies_per_patient
    shares = {"val": world.val_fraction, "test": world.test_fraction}
    shares["train"] = 1 - sum(shares.values())
    for context in (c for c in CONTEXTS if c in params.corpus.contexts):
        lateral, prior = availability(context)
        total = (studies - world.patients if prior else studies) * (world.lateral_fraction if lateral else 1.0)
        records[context] = {split: round(total * share) for split, share in shares.items()}
    return Counts(records, round(studies * (1 + world.lateral_fraction)), measured=False)


def estimate(params: Params, counts: Counts, machine: Machine) -> list[StageCost]:
    """The cost of every stage that takes noticeable time or space."""
    costs, frozen = [], params.backbones
    if params.corpus.source == "phantom":
        images = round(params.corpus.phantom.patients * params.corpus.phantom.studies_per_patient * 1.6)
        costs.append(StageCost("source", f"{images:,} radiographs drawn", images * DRAW + START))

    costs.append(_backbones(frozen, machine))
    own, width, patches = frozen.vision_standin, VISION_WIDTH, PATCHES
    if frozen.vision.provider == "standin":
        width, patches = own.width, (own.image_size // own.patch_size) ** 2
    online = params.features.mode == "pixels"
    number_bytes = 4 if params.features.dtype == "float32" else 2
    image_bytes = 14**2 * patches if online else len(params.features.depths) * patches * width * number_bytes
    encode = machine.seconds(_encoding(width, patches), "large")
    prepare = PREPARE * patches / PATCHES / machine.cores
    seconds = counts.images * (prepare + (0.0 if online else encode)) + START
    work = f"{counts.images:,} images {'prepared' if online else 'encoded'}"
    costs.append(StageCost("features", work, seconds, counts.images * image_bytes))

    provider = frozen.language.provider
    parameters = GGUF_PARAMETERS if provider == "gguf" else LANGUAGE_PARAMETERS
    if provider == "standin":
        parameters = _parameters(frozen.language_standin)
    size = "large" if parameters > 5e7 else "small"
    for name, phase, scale in (
        ("warmup", params.warmup, 1.0),
        ("parent", params.parent, 1.0),
        ("calibrate", params.calibrate, 1.4 if params.calibrate.gate_inputs != "none" else 0.0),
    ):
        if scale:
            batch = phase.batch_size * phase.accumulation
            # a frozen model is passed through forwards and backwards, without gradients of its weights
            operations = scale * phase.updates * batch * 4 * parameters * (TEXT_TOKENS + params.interface.num_queries)
            seconds = machine.training(operations, size, phase.updates * phase.accumulation) + START
            seconds += phase.updates * batch * IMAGES_OF_A_RECORD * encode if online else 0.0
            costs.append(StageCost(name, f"{phase.updates:,} updates of {batch} records", seconds))

    decode = params.decode
    references = [splits.get(decode.split, 0) for splits in counts.records.values()]
    cases = sum(count if decode.limit is None else min(count, decode.limit) for count in references)
    cases *= 2 if "another_patient" in decode.controls else 1
    tokens = cases * decode.num_beams * (decode.min_new_tokens + decode.max_new_tokens) / 2
    seconds = machine.seconds(tokens * 2 * parameters, f"{size}, decoding") + START
    costs.append(StageCost("decode", f"{cases:,} reports with {decode.num_beams} beams, controls included", seconds))
    labels = sum(references) + cases
    operations = labels * LABEL_OPERATIONS * (0.02 if frozen.chexbert.provider == "standin" else 1.0)
    seconds = machine.seconds(operations, "large") + 25.0
    return [*costs, StageCost("score", f"{labels:,} reports labelled, METEOR", seconds)]


def _backbones(frozen: Backbones, machine: Machine) -> StageCost:
    """Training of the stand-ins among the frozen models."""
    seconds, made, vision = START, [], frozen.vision_standin
    if frozen.vision.provider == "standin":
        patches = (vision.image_size // vision.patch_size) ** 2
        operations = 3 * vision.steps * vision.batch_size * _encoding(vision.width, patches)
        seconds += machine.training(operations, "large", vision.steps) + vision.images * DRAW
        made.append("vision")
    for name in ("language", "text", "chexbert"):
        if getattr(frozen, name).provider == "standin":
            own: TextStandin = getattr(frozen, f"{name}_standin")
            operations = 6 * own.steps * own.batch_size * TEXT_TOKENS * _parameters(own)
            seconds += machine.training(operations, "small", own.steps)
            made.append(name)
    return StageCost(
        "backbones", f"{', '.join(made)} stand-ins trained" if made else "file hashes of the weights", seconds
    )


def _encoding(width: int, patches: int) -> float:
    """Operations of a vision encoder of twelve blocks on an image."""
    return 288 * width**2 * patches + 48 * patches**2 * width


def _parameters(standin: TextStandin) -> float:
    """Number of parameters of a stand-in that reads or writes text."""
    return 12 * standin.layers * standin.width**2 + standin.vocabulary * standin.width
