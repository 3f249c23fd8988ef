"""What each stage of the pipeline will cost on this machine: counts x rates, printed before anyone waits for it.

All figures are estimates, good to a factor of two or three. Work is counted in floating-point operations, divided by
the rates below: round figures for CPU cores (float32) and for current data-centre GPUs (bfloat16), not measurements.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pacer.core.contexts import CONTEXTS, availability
from pacer.core.errors import DataError
from pacer.core.io import read_json
from pacer.params import Params, TextStandin

#: Operations per second and CPU core: large products (vision encoder), and many small ones (small language models).
CPU_LARGE, CPU_SMALL = 1.0e11, 3.0e10
#: Operations per second and multiprocessor of a current data-centre GPU at the usage that training should reach.
GPU_PER_PROCESSOR = 2.5e12
#: A decoding step on a GPU waits for memory: share of the rate above that it should reach.
DECODING_SHARE_GPU, DECODING_SHARE_CPU = 0.02, 0.3
#: Seconds to prepare one image (decode, resize), per core: at 518 pixels, growing with the area.
PREPARE_SECONDS, PREPARE_PIXELS = 0.0285, 518
#: Seconds to draw a generated radiograph.
DRAW_SECONDS = 0.002
#: Seconds that a stage takes before it does anything: imports and DVC.
START_SECONDS = 6.0
#: Least seconds of one forward and backward pass, however small the model.
PASS_SECONDS = 0.03
#: RAD-DINO's and Vicuna-7B's sizes, assumed where a model cannot be looked at yet.
RAD_DINO_WIDTH, RAD_DINO_PATCHES, VICUNA_PARAMETERS = 768, 1369, 6.7e9
#: Images of an average record: about half of the records that a phase meets have a lateral view.
IMAGES_OF_A_RECORD = 1.5
#: Tokens of an average sequence beside the image tokens: instruction, commitment and report.
TEXT_TOKENS = 140
#: Operations of CheXbert (BERT-base) on a report.
LABEL_OPERATIONS = 2 * 8.5e7 * 90


@dataclass(frozen=True)
class Machine:
    """What the estimates need to know: CPU cores, and multiprocessors of all visible GPUs (0: none)."""

    cores: int
    gpu_processors: int = 0

    def seconds(self, operations: float, *, large: bool, share: float | None = None) -> float:
        """Time of ``operations``; ``share`` of the usual rate, where the work does not reach it."""
        if self.gpu_processors:
            return operations / (self.gpu_processors * GPU_PER_PROCESSOR * (share or 1.0))
        return operations / (self.cores * (CPU_LARGE if large else CPU_SMALL) * (share or 1.0))


@dataclass(frozen=True)
class Counts:
    """Records per context and split, and images; ``measured``: from the corpus's audit rather than guessed."""

    records: dict[str, dict[str, int]]
    images: int
    measured: bool

    def split(self, name: str) -> int:
        return sum(splits.get(name, 0) for splits in self.records.values())

    @property
    def all(self) -> int:
        return sum(sum(splits.values()) for splits in self.records.values())


@dataclass(frozen=True)
class Cost:
    """One stage: amount of work in words, seconds, and bytes of its outs where these are many."""

    stage: str
    work: str
    seconds: float
    bytes: float = 0.0


def count_records(params: Params, data: Path) -> Counts | None:
    """Counts of a generated corpus from its parameters, of a corpus of files from its audit.

    Args:
        data: the folder of ``source/`` and ``corpus/``.

    Returns:
        None for a corpus of files that the stages `source` and `corpus` have not read yet.
    """
    if params.corpus.source == "files":
        return _counted(params, data)
    contexts = params.corpus.contexts
    world = params.corpus.phantom
    studies = world.patients * world.studies_per_patient
    shares = {"val": world.val_fraction, "test": world.test_fraction}
    shares["train"] = 1 - sum(shares.values())
    records = {}
    for context in (c for c in CONTEXTS if c in contexts):
        lateral, prior = availability(context)
        total = (studies - world.patients if prior else studies) * (world.lateral_fraction if lateral else 1.0)
        records[context] = {split: round(total * share) for split, share in shares.items()}
    return Counts(records, round(studies * (1 + world.lateral_fraction)), measured=False)


def _counted(params: Params, data: Path) -> Counts | None:
    """Counts from the audit, if it is that of the corpus in use."""
    try:
        source, audit = read_json(data / "source" / "source.json"), read_json(data / "corpus" / "audit.json")
        if Path(source["root"]) != Path(str(params.corpus.root)).expanduser().resolve():
            return None
        records = {c: {s: int(n["records"]) for s, n in splits.items()} for c, splits in audit["contexts"].items()}
        fits = set(records) == set(params.corpus.contexts)
        return Counts(records, int(audit["images"]["count"]), measured=True) if fits else None
    except (DataError, KeyError, TypeError, AttributeError):
        return None


def estimate(params: Params, counts: Counts, machine: Machine) -> list[Cost]:
    """The cost of every stage that takes noticeable time or space."""
    width, patches = _vision(params)
    parameters = _language(params)
    queries = params.interface.num_queries
    encode = 2 * 12 * 12 * width**2 * patches + 4 * 12 * patches**2 * width
    online = params.features.mode == "pixels"
    per_value = 4 if params.features.dtype == "float32" else 2
    bytes_per_image = 14**2 * patches if online else len(params.features.depths) * patches * width * per_value
    side = patches**0.5 * 14
    prepare = PREPARE_SECONDS * (side / PREPARE_PIXELS) ** 2 / machine.cores
    sequence = TEXT_TOKENS + queries

    costs = []
    if params.corpus.source == "phantom":
        images = round(params.corpus.phantom.patients * params.corpus.phantom.studies_per_patient * 1.6)
        costs.append(Cost("source", f"{images:,} radiographs drawn", images * DRAW_SECONDS + START_SECONDS))
    costs.append(_backbones(params, machine))
    encoding = machine.seconds(encode, large=True)
    seconds = counts.images * (prepare if online else encoding + prepare) + START_SECONDS
    work = f"{counts.images:,} images {'prepared' if online else 'encoded'}"
    costs.append(Cost("features", work, seconds, counts.images * bytes_per_image))
    for name, scale in (("warmup", 1.0), ("parent", 1.0), ("calibrate", 1.4)):
        phase = getattr(params, name)
        if name == "calibrate" and params.calibrate.gate_inputs == "none":
            continue
        samples = phase.updates * phase.batch_size * phase.accumulation
        # a frozen model is passed through forwards and backwards, without gradients of its weights
        operations = scale * samples * 4 * parameters * sequence
        least = phase.updates * phase.accumulation * PASS_SECONDS
        seconds = max(machine.seconds(operations, large=parameters > 5e7), least)
        seconds += samples * IMAGES_OF_A_RECORD * encoding if online else 0.0
        work = f"{phase.updates:,} updates of {phase.batch_size * phase.accumulation} records"
        costs.append(Cost(name, work, seconds + START_SECONDS))
    costs += _decoding(params, counts, machine, parameters)
    return costs


def _decoding(params: Params, counts: Counts, machine: Machine, parameters: float) -> list[Cost]:
    decode = params.decode
    splits = [splits.get(decode.split, 0) for splits in counts.records.values()]
    cases = sum(min(count, decode.limit) if decode.limit is not None else count for count in splits)
    if "another_patient" in decode.controls:
        cases *= 2
    tokens = (decode.min_new_tokens + decode.max_new_tokens) / 2
    share = DECODING_SHARE_GPU if machine.gpu_processors else DECODING_SHARE_CPU
    operations = cases * decode.num_beams * tokens * 2 * parameters
    seconds = machine.seconds(operations, large=parameters > 5e7, share=share) + START_SECONDS
    labels = counts.split(decode.split) + cases
    standin = params.backbones.chexbert.provider == "standin"
    operations = labels * LABEL_OPERATIONS * (0.02 if standin else 1.0)
    return [
        Cost("decode", f"{cases:,} reports with {decode.num_beams} beams, controls included", seconds),
        Cost("score", f"{labels:,} reports labelled, METEOR", machine.seconds(operations, large=True) + 25.0),
    ]


def _backbones(params: Params, machine: Machine) -> Cost:
    config, seconds, made = params.backbones, START_SECONDS, []
    if config.vision.provider == "standin":
        own = config.vision_standin
        width, patches = own.width, (own.image_size / own.patch_size) ** 2
        operations = 3 * own.steps * own.batch_size * (288 * width**2 * patches + 48 * patches**2 * width)
        seconds += max(machine.seconds(operations, large=True), own.steps * PASS_SECONDS) + own.images * DRAW_SECONDS
        made.append("vision")
    for name in ("language", "text", "chexbert"):
        if getattr(config, name).provider == "standin":
            own = getattr(config, f"{name}_standin")
            operations = 6 * own.steps * own.batch_size * TEXT_TOKENS * _parameters(own)
            seconds += max(machine.seconds(operations, large=False), own.steps * PASS_SECONDS)
            made.append(name)
    return Cost("backbones", f"{', '.join(made)} stand-ins trained" if made else "file hashes of the weights", seconds)


def _vision(params: Params) -> tuple[int, float]:
    """Width and number of patches of the vision encoder."""
    if params.backbones.vision.provider != "standin":
        return RAD_DINO_WIDTH, RAD_DINO_PATCHES
    own = params.backbones.vision_standin
    return own.width, (own.image_size // own.patch_size) ** 2


def _language(params: Params) -> float:
    """Number of parameters of the language model."""
    provider = params.backbones.language.provider
    if provider == "standin":
        return _parameters(params.backbones.language_standin)
    return 1.35e8 if provider == "gguf" else VICUNA_PARAMETERS


def _parameters(standin: TextStandin) -> float:
    """Number of parameters of a stand-in that reads or writes text."""
    return 12 * standin.layers * standin.width**2 + standin.vocabulary * standin.width
