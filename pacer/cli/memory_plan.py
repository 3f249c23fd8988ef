"""What training and decoding take of a GPU's memory, and what to set where that is more than it has.

Estimates from shapes: what PyTorch keeps for the backward pass of each module, counted (the counts are held to
allocations on a CPU by tests), and a general allowance for what CUDA and its allocator take.
"""

from __future__ import annotations

from copy import copy
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pacer.core.errors import PacerError
from pacer.core.io import read_json
from pacer.params import Params
from pacer.params.backbones import Backbones

PHASES = ("warmup", "parent", "calibrate")

#: config.json of lmsys/vicuna-7b-v1.5 and of SmolLM2-135M, as far as shapes go.
VICUNA: dict[str, Any] = {
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32000,
}
SMOLLM2: dict[str, Any] = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 49152,
    "tie_word_embeddings": True,
}
#: Width and patches of microsoft/rad-dino, width of microsoft/BiomedVLP-CXR-BERT-specialized, bytes of the former.
WIDTH, PATCHES, ENCODER = 768, 1369, 86.6e6 * 4

#: Tokens of a long record beside its visual tokens and its report: those of the instruction behind the image, of the
#: commitment and its delimiters.
INSTRUCTION, COMMITMENT = 40, 75
#: Bytes of a weight in NF4: 4 bits, and 8 bits for each block of 64, whose scales are quantised again.
NF4 = 0.5 + 1 / 64 + 4 / (64 * 256)
#: Bytes that CUDA and its libraries take; share of all else that the allocator loses between blocks.
CUDA, LOST = 1.0e9, 0.08

State = Literal["ok", "note", "missing"]


class Finding(NamedTuple):
    """One thing looked at. ``missing`` stops a run; ``note`` does not."""

    what: str
    state: State
    detail: str


class Need(NamedTuple):
    """Bytes of a GPU: frozen weights, what is trained (weights, gradients, AdamW's two moments), and what a forward
    and backward pass over the longest micro-batch, or a search, holds at most."""

    frozen: float
    trained: float
    working: float

    @property
    def all(self) -> float:
        return (self.frozen + self.trained + self.working) * (1 + LOST) + CUDA


def memory_findings(params: Params, memory: float | None) -> list[Finding]:
    """What `pacer doctor` says of each phase and ``decode``, and of the package that quantises.

    Args:
        memory: bytes of a GPU to plan for; None: of those of this machine, on which nothing is said where it has none.
    """
    processes, found = 1, list[Finding]()
    if params.train.quantization == "nf4" and find_spec("bitsandbytes") is None:
        remedy = "not installed; train.quantization: nf4 needs it: `pip install -c constraints.txt -e '.[nf4]'`"
        found.append(Finding("bitsandbytes", "missing", remedy))
    if memory is None:
        import torch

        if not torch.cuda.is_available():
            return found
        processes = torch.cuda.device_count()
        memory = min(torch.cuda.get_device_properties(number).total_memory for number in range(processes))
    language = language_config(params)
    if language is None:
        return [*found, Finding("GPU memory", "note", "not known before a Llama model is here as language model")]
    plan = MemoryPlan(params, language, processes)
    for name in (*PHASES, "decode"):
        need, remedy = plan.need(name), plan.remedy(name, memory)
        shares = f"{need.frozen / 1e9:.1f} frozen, {need.trained / 1e9:.1f} trained, {need.working / 1e9:.1f} at work"
        detail = f"about {need.all / 1e9:.1f} of {memory / 1e9:.0f} GB ({shares})"
        if remedy is None and name == "decode":
            detail += ": one record at a time is too much; take a larger GPU or a smaller language model"
        elif remedy is None:
            detail += ": split the micro-batch over more GPUs, or take smaller ones"
        elif remedy:
            detail += f": set {remedy}"
        found.append(Finding(f"GPU memory, {name}", "ok" if remedy == "" else "missing", detail))
    return found


def language_config(params: Params) -> dict[str, Any] | None:
    """Shapes of the language model of ``params``: of its files, or as published; None where neither tells them."""
    backbone = params.backbones.language
    if backbone.provider == "gguf":
        return SMOLLM2
    if backbone.provider == "standin":
        own = params.backbones.language_standin
        return {
            "hidden_size": own.width,
            "intermediate_size": round(own.width * 8 / 3),
            "num_hidden_layers": own.layers,
            "num_attention_heads": own.heads,
            "vocab_size": own.vocabulary,
        }
    from pacer.backbones.hub import locate

    try:
        config = read_json(Path(str(locate(backbone, "language"))) / "config.json")
    except PacerError:
        return VICUNA if "vicuna-7b" in str(backbone.id) else None
    told = isinstance(config, dict) and all(isinstance(config.get(key), int) for key in VICUNA)
    return config if told else None


def frozen_shapes(models: Backbones) -> tuple[int, int, int]:
    """Width and patches of the vision encoder, and width of the text encoder."""
    vision, text = models.vision_standin, models.text_standin
    width, patches = WIDTH, PATCHES
    if models.vision.provider == "standin":
        width, patches = vision.width, (vision.image_size // vision.patch_size) ** 2
    return width, patches, text.width if models.text.provider == "standin" else WIDTH


class MemoryPlan:
    """What each phase, and ``decode``, takes of each GPU.

    Args:
        language: see :func:`language_config`. processes: GPUs that a micro-batch is split over.
    """

    def __init__(self, params: Params, language: dict[str, Any], processes: int = 1):
        import torch
        from torch import nn
        from transformers import AutoConfig, AutoModelForCausalLM

        from pacer.model.assemble import wire
        from pacer.model.specification import specification_of
        from pacer.training.head import LOGITS_AT_ONCE

        self.params, self.processes, self.logits = params, processes, LOGITS_AT_ONCE["cuda"]
        self.d_vision, self.patches, d_text = frozen_shapes(params.backbones)
        self.config = AutoConfig.for_model(**{"model_type": "llama"} | language)
        with torch.device("meta"):
            frozen = AutoModelForCausalLM.from_config(self.config)
            model = wire(frozen, nn.LayerNorm(self.d_vision), d_text, specification_of("calibrate", params))
        sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
        self.added = {n: size for n, size in sizes.items() if "lora_" in n or not n.startswith("language.")}
        self.blocks = sum(size for n, size in sizes.items() if n not in self.added and ".layers." in n)
        self.rest = sum(sizes.values()) - sum(self.added.values()) - self.blocks
        self.half = params.train.precision != "float32"  # on a GPU
        self.bytes = 2 if self.half else 4

    def need(self, name: str) -> Need:
        """Of a phase, or of ``decode``."""
        if name == "decode":
            return self._decoding()
        return self._training(name, -(-getattr(self.params, name).batch_size // self.processes))

    def remedy(self, name: str, memory: float) -> str | None:
        """What to set so that a phase, or ``decode``, fits into ``memory`` bytes: nothing (empty), or the first of
        these that is enough; None: none of them is."""
        nf4, size = {"train.quantization": "nf4"}, self.params.decode.batch_size
        choices: list[dict[str, Any]] = [{}, on := {"train.checkpointing": "on"}, on | nf4]
        if name == "decode":
            smaller = [{}, *({"decode.batch_size": size >> halved} for halved in range(1, size.bit_length()))]
            choices = smaller + [nf4 | batch for batch in smaller]
        for choice in choices:
            plan = self
            for setting, value in choice.items():
                group, key = setting.split(".")
                plan = plan.changed(group, **{key: value})
            if plan.need(name).all <= memory:
                return ", ".join(f"{setting}: {value}" for setting, value in choice.items())
        return None

    def changed(self, group: str, **values: Any) -> MemoryPlan:
        """The plan with other settings of the same model."""
        other = copy(self)
        own = getattr(self.params, group).model_copy(update=values)
        other.params = self.params.model_copy(update={group: own})
        return other

    def _frozen(self) -> float:
        """The frozen language model, and the encoder where states are made when they are needed."""
        quantised = self.params.train.quantization == "nf4"
        return self.blocks * (NF4 if quantised else self.bytes) + self.rest * self.bytes + self._encoder()

    def _encoder(self) -> float:
        if self.params.features.mode != "pixels":
            return 0.0
        return ENCODER * (self.d_vision / WIDTH) ** 2 + 32 * self.patches * self.d_vision * 4 * 12

    def _training(self, name: str, records: int) -> Need:
        """A phase with so many records of a micro-batch on the GPU."""
        from pacer.training.phases import phase_of

        params, phase, whole = self.params, phase_of(name, self.params), sum(self.added.values())
        trained = sum(size for n, size in self.added.items() if phase.trainable(n))
        lora = sum(size for n, size in self.added.items() if "lora_" in n)
        # weight, gradient and AdamW's two moments; the other weights; what autocast makes of those beside frozen ones
        own = 16.0 * trained + 4 * (whole - trained) + (2 * lora if self.half else 0)

        prefix, target = 2 + params.interface.num_queries, 1 + params.trajectory.report_tokens
        if name != "warmup":
            prefix += params.prompt.before_tokens + INSTRUCTION
            target += COMMITMENT
        return Need(self._frozen(), own, self.working(name, records, prefix, target))

    def working(self, name: str, records: int, prefix: int, target: int) -> float:
        """What a phase holds of so many records with these numbers of positions, at most."""
        config, params = self.config, self.params
        width, inner, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
        block = 8 * width  # both norms compute in float32
        block += self.bytes * (2 + 2 * config.num_key_value_heads / config.num_attention_heads) * width  # of attention
        block += self.bytes * 3 * inner  # gate, the same after its activation, up
        if name == "parent":  # the dropout's mask, and what came out of it
            block += len(params.lora.targets) * (1 + self.bytes) * width
        below = (layers - 1) * (4 * width if params.train.checkpointing == "on" else block)
        kept = records * (prefix + target) * (block + below)
        if name == "calibrate":
            kept += records * prefix * width * 14
        else:
            sources = 1 if name == "warmup" else 3
            image = len(params.features.depths) * 12 + 28
            kept += records * min(sources, 2) * self.patches * self.d_vision * image
            kept += records * params.interface.num_queries * width * (20 + 10 * sources)
        # the head and the way back through a block follow each other
        rooms = 5 if name == "calibrate" and params.calibrate.lambda_cons else 2  # of logits in float32
        head = min(self.logits, records * target * config.vocab_size) * (4 * rooms + (2 if self.half else 0))
        back = records * (prefix + target) * (self.bytes * 3 * inner + 12 * width)
        if params.train.quantization == "nf4":
            back += width * inner * self.bytes  # a matrix as it was
        return kept + max(head, back)

    def _decoding(self) -> Need:
        """``decode``: keys and values of all searches, which mostly share their beams' tokens."""
        params, config, own = self.params, self.config, self.params.decode
        prefix = 2 + params.prompt.before_tokens + params.interface.num_queries + INSTRUCTION
        nodes = 1.25 * (prefix + 1.5 * own.max_new_tokens)
        head = config.hidden_size // config.num_attention_heads
        cached = 2 * config.num_hidden_layers * config.num_key_value_heads * head * self.bytes * nodes
        logits = own.num_beams * config.vocab_size * 4 * 6
        passing = prefix * (self.bytes * 3 * config.intermediate_size + 12 * config.hidden_size)
        return Need(self._frozen() + 4 * sum(self.added.values()), 0.0, own.batch_size * (cached + logits + passing))
