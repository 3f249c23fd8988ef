"""The objective of all phases once more: sample by sample, token by token, from the paper's
equations, in float64.

Nothing of `pacer` computes here. A model is its parameters by name; the language model is that of
transformers, without padding, and with LoRA's products added to its matrices.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

#: The lateral view and the previous report of each context.
AVAILABLE = {"sn": (False, False), "sw": (False, True), "mn": (True, False), "mw": (True, True)}
#: Row of the availability embedding.
ROW = {"sn": 0, "mn": 1, "sw": 2, "mw": 3}


@dataclass
class Token:
    """A predicted token with its weights; ``consistent``: it is in Omega_cons."""

    id: int
    omega: float
    s: float
    consistent: bool


@dataclass
class Sample:
    """One training example: ids around the Q visual tokens, BOS of the target, its tokens, and the
    states it observes.

    ``frontal`` and ``lateral`` are [K, N, d_v], ``prior`` is [L, d_text]; absent ones are None.
    ``seen`` [L] bool: the positions of the previous report that are attended to.
    """

    context: str
    before: list[int]
    after: list[int]
    bos: int
    target: list[Token]
    kappa: float
    frontal: Tensor
    lateral: Tensor | None
    prior: Tensor | None
    seen: Tensor | None = None


@dataclass
class Weights:
    """Parameters by name, and the numbers that are no parameters; ``cues`` of the gate.
    ``language``: a model without LoRA, in which these parameters compute."""

    values: dict[str, Tensor]
    language: nn.Module
    heads: int
    lora_scale: float
    max_scale: float
    endpoint_eps: float
    cues: str = "hze"

    def __getitem__(self, name: str) -> Tensor:
        return self.values[name]

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def linear(self, name: str, x: Tensor) -> Tensor:
        """``W x + b`` of each row."""
        return F.linear(x, self[f"{name}.weight"], self.values.get(f"{name}.bias"))

    def layer_norm(self, name: str, x: Tensor, eps: float = 1e-5) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], self[f"{name}.weight"], self[f"{name}.bias"], eps)

    def of_language(self) -> dict[str, Tensor]:
        """The language model's own parameters, with LoRA's low-rank products."""
        merged = {}
        for name, value in self.values.items():
            own = name.removeprefix("language.").replace(".base_layer", "")
            if ".base_layer.weight" in name:
                down, up = (
                    self[name.replace("base_layer", f"lora_{part}.default")] for part in "AB"
                )
                value = value + self.lora_scale * up @ down
            if own != name and ".lora_" not in name:
                merged[own] = value
        return merged


# Refine and the source interface


def refine(w: Weights, states: Tensor) -> Tensor:
    """Equations (depth-alignment) to (depth-residual) for one image [K, N, d_v]."""
    endpoint = w.layer_norm("endpoint_norm", states[-1], w.endpoint_eps)
    aligned = [
        w.linear(f"router.align.{k}", w.layer_norm(f"router.norms.{k}", own))
        for k, own in enumerate(states)
    ]
    patches = []
    for n in range(states.shape[1]):
        scores = list(w["router.depth_bias"])
        if "router.route_vector" in w:  # not in the variant `global`
            scores = [
                score + w["router.route_vector"] @ own[n]
                for score, own in zip(scores, aligned, strict=True)
            ]
        pi = torch.stack(scores).softmax(0)
        mixed = torch.stack([pi[k] * own[n] for k, own in enumerate(aligned)]).sum(0)
        delta = w.linear("router.out", w.layer_norm("router.mix_norm", mixed))
        patches.append(endpoint[n] + w.max_scale * torch.sigmoid(w["router.eta"]) * delta)
    return torch.stack(patches)


def attend(w: Weights, name: str, queries: Tensor, source: Tensor, seen: Tensor | None) -> Tensor:
    """Attention of [Q, d_v] over [L, d_source], a learnt key and value, and a key and value of
    zeros."""
    width, source = queries.shape[1], source if seen is None else source[seen]
    if f"{name}.in_proj_weight" in w:
        matrices = w[f"{name}.in_proj_weight"].split(width)
    else:
        matrices = [w[f"{name}.{part}_proj_weight"] for part in "qkv"]
    biases, zero = (
        w[f"{name}.in_proj_bias"].split(width),
        torch.zeros(1, width, dtype=torch.float64),
    )
    q = queries @ matrices[0].T + biases[0]
    k = torch.cat([source @ matrices[1].T + biases[1], w[f"{name}.bias_k"][0], zero])
    v = torch.cat([source @ matrices[2].T + biases[2], w[f"{name}.bias_v"][0], zero])
    size = width // w.heads
    heads = []
    for head in range(w.heads):
        own = slice(head * size, (head + 1) * size)
        heads.append((q[:, own] @ k[:, own].T / math.sqrt(size)).softmax(-1) @ v[:, own])
    return w.linear(f"{name}.out_proj", torch.cat(heads, 1))


def compress(
    w: Weights, name: str, queries: Tensor, source: Tensor, seen: Tensor | None = None
) -> Tensor:
    x = w.layer_norm(
        f"{name}.attention_norm", attend(w, f"{name}.attention", queries, source, seen)
    )
    return x + w.layer_norm(f"{name}.mix_norm", w.linear(f"{name}.mix", x))


def project(w: Weights, name: str, compressed: Tensor) -> Tensor:
    hidden = w.linear(f"{name}.project", F.gelu(w.linear(f"{name}.up", compressed)))
    return w.layer_norm(f"{name}.project_norm", hidden)


def source_tokens(w: Weights, sample: Sample) -> list[Tensor | None]:
    """Z_s [Q, d] of each source; None: absent."""
    frontal = compress(w, "interface.frontal", w["interface.queries"], refine(w, sample.frontal))
    tokens: list[Tensor | None] = [project(w, "interface.frontal", frontal), None, None]
    if sample.lateral is not None:
        lateral = compress(w, "interface.lateral", frontal, refine(w, sample.lateral))
        tokens[1] = project(w, "interface.lateral", lateral)
    if sample.prior is not None:
        prior = compress(w, "interface.prior", frontal, sample.prior, sample.seen)
        tokens[2] = project(w, "interface.prior", prior)
    return tokens


# The sequence, Calibrate, and the language model


def embedded(
    w: Weights, sample: Sample, tokens: list[Tensor | None], warmup: bool
) -> tuple[Tensor, Tensor]:
    """Input embeddings of the prefix E_P and of the target E_T."""
    present = next(own for own in tokens if own is not None)
    visual = present
    if not warmup:
        slots = [torch.zeros_like(present) if own is None else own for own in tokens]
        visual = w.layer_norm(
            "interface.fusion_norm", w.linear("interface.fusion", torch.cat(slots, 1))
        )
    words = w["language.model.embed_tokens.weight"]
    prefix = torch.cat([words[[sample.bos, *sample.before]], visual, words[sample.after]])
    return prefix, words[[sample.bos, *(token.id for token in sample.target)]]


def calibrate(w: Weights, sample: Sample, prefix: Tensor, tokens: list[Tensor | None]) -> Tensor:
    """The gated residual ``g B(E_P)`` of the prefix, equations (prefix-summaries) to
    (prefix-route)."""
    observed = [own.mean(0) for own in tokens if own is not None]
    h, z = prefix.mean(0), torch.stack(observed).mean(0)
    by_cue = {"h": h, "z": z, "e": w["calibrator.availability.weight"][ROW[sample.context]]}
    # one that is not in use is a zero vector of its width
    cues = torch.cat([cue if name in w.cues else 0 * cue for name, cue in by_cue.items()])
    g = torch.sigmoid(w.linear("calibrator.gate_out", F.gelu(w.linear("calibrator.gate_in", cues))))
    low = F.gelu(w.linear("calibrator.down", w.layer_norm("calibrator.norm", prefix)))
    return g * w.linear("calibrator.up", low)


def log_probabilities(w: Weights, inputs: Tensor, first: int) -> Tensor:
    """Of the next token [n, V], at position ``first`` and those behind it."""
    output = functional_call(w.language, w.of_language(), kwargs={"inputs_embeds": inputs[None]})
    return output.logits[0, first:-1].log_softmax(-1)


# The objective


def objective(
    w: Weights,
    samples: list[Sample],
    *,
    warmup: bool = False,
    lambda_tlw: float = 0.0,
    lambda_cons: float = 0.0,
    lambda_drift: float = 0.0,
) -> Tensor:
    """Equation (complete-objective) of a batch; without the last two weights,
    (trajectory-objective)."""
    above, below, stressed, emphasised = 0.0, 1e-3, 0.0, 1e-3
    divergences, drifts = [], []
    for sample in samples:
        tokens = source_tokens(w, sample)
        prefix, target = embedded(w, sample, tokens, warmup)
        corrected = prefix
        if "calibrator.up.weight" in w:
            residual = calibrate(w, sample, prefix, tokens)
            corrected = prefix + residual
            drifts += [(row * row).sum() / len(row) for row in residual]
        log_p = log_probabilities(w, torch.cat([corrected, target]), len(prefix))
        with torch.no_grad():
            log_p0 = log_probabilities(w, torch.cat([prefix, target]), len(prefix))
        below = below + sample.kappa
        for place, token in enumerate(sample.target):
            loss = -log_p[place, token.id]
            above, below = above + token.omega * loss, below + token.omega
            stressed, emphasised = stressed + token.s * loss, emphasised + token.s
            if token.consistent:
                divergences.append(
                    (torch.exp(log_p0[place]) * (log_p0[place] - log_p[place])).sum()
                )
    total = above / below + lambda_tlw * stressed / emphasised
    if lambda_cons:
        total = total + lambda_cons * torch.stack(divergences).mean()
    if lambda_drift:
        total = total + lambda_drift * torch.stack(drifts).mean()
    return total
