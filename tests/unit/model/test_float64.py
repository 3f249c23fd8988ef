"""Modules against the paper's equations written out by hand, in float64 and within 1e-9.

Nothing of torch computes here but the module under test: sums run over vector entries, and LayerNorm, GELU, softmax and
attention are the functions below. All parameters are moved away from their initial values, many of which are zero.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from pacer.model.batch import RefinedSources
from pacer.model.calibrate import PrefixCalibrator
from pacer.model.interface import SourceInterface
from pacer.model.refine import DepthRouter
from tests.support.models import moved

CONTEXTS = {"sn": (False, False), "sw": (False, True), "mn": (True, False), "mw": (True, True)}


def perturbed(module: nn.Module) -> nn.Module:
    """The module in float64 and eval mode, with no trained parameter where its initialisation put it."""
    return moved(module.double().eval(), 0.3, seed=2)


def random(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def weights_of(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: parameter.detach().numpy() for name, parameter in module.named_parameters()}


def close(actual: torch.Tensor, expected: np.ndarray | list | float) -> None:
    assert actual.dtype == torch.float64
    np.testing.assert_allclose(actual.detach().numpy(), np.asarray(expected), rtol=0, atol=1e-9)


# ------------------------------------------------------------------------------------------- the equations' functions


def linear(w: dict, name: str, x: np.ndarray) -> np.ndarray:
    """``W x + b`` for one vector, row by row (no bias where the layer has none)."""
    matrix = w[f"{name}.weight"]
    assert matrix.shape[1] == len(x)
    out = [math.fsum(float(a) * float(b) for a, b in zip(row, x, strict=True)) for row in matrix]
    return np.array(out) + w.get(f"{name}.bias", 0.0)


def layer_norm(w: dict, name: str, x: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    mean = sum(x) / len(x)
    variance = sum((value - mean) ** 2 for value in x) / len(x)
    return (x - mean) / math.sqrt(variance + eps) * w[f"{name}.weight"] + w[f"{name}.bias"]


def gelu(x: np.ndarray) -> np.ndarray:
    return np.array([0.5 * value * (1 + math.erf(value / math.sqrt(2))) for value in x])


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def softmax(x: list[float]) -> list[float]:
    top = max(x)
    parts = [math.exp(value - top) for value in x]
    return [part / sum(parts) for part in parts]


# ---------------------------------------------------------------------------------------------------------- the router


@pytest.mark.parametrize("variant", ["patchwise", "global"])
@pytest.mark.parametrize("d_routing", [None, 5, 11])
def test_the_router_is_the_papers_equations(variant: str, d_routing: int | None) -> None:
    router = perturbed(DepthRouter(3, 8, d_routing, variant=variant, max_scale=0.7, init_scale=0.2))
    depths, endpoint = random(2, 3, 4, 8), random(2, 4, 8, seed=2)
    refined, weights = router(depths, endpoint)
    w, v, end = weights_of(router), depths.numpy(), endpoint.numpy()
    scale = 0.7 * sigmoid(float(w["eta"]))
    expected, pi = np.zeros((2, 4, 8)), np.zeros((2, 4, 3))
    for b in range(2):
        for n in range(4):
            u = [linear(w, f"align.{k}", layer_norm(w, f"norms.{k}", v[b, k, n])) for k in range(3)]
            scores = [float(w["depth_bias"][k]) for k in range(3)]
            if variant == "patchwise":
                scores = [scores[k] + float(np.sum(w["route_vector"] * u[k])) for k in range(3)]
            pi[b, n] = softmax(scores)
            mixed = sum(pi[b, n, k] * u[k] for k in range(3))
            expected[b, n] = end[b, n] + scale * linear(w, "out", layer_norm(w, "mix_norm", mixed))
    close(weights, pi)
    close(refined, expected)


# ------------------------------------------------------------------------------------------------------- the interface


def attend(w: dict, name: str, queries: np.ndarray, source: np.ndarray, heads: int, hidden: np.ndarray) -> np.ndarray:
    """Multi-head attention of one sample: ``source`` [L, d_source] and, behind it, the bias key and the zero key.

    ``hidden`` [L]: positions that are not attended to. The two extra keys always are.
    """
    width = queries.shape[1]
    if f"{name}.in_proj_weight" in w:
        matrices = np.split(w[f"{name}.in_proj_weight"], 3)
    else:  # a source of another width has matrices of its own
        matrices = [w[f"{name}.{part}_proj_weight"] for part in "qkv"]
    projection = {}
    for part, matrix, bias in zip("qkv", matrices, np.split(w[f"{name}.in_proj_bias"], 3), strict=True):
        projection |= {f"{part}.weight": matrix, f"{part}.bias": bias}
    q = [linear(projection, "q", row) for row in queries]
    k = [linear(projection, "k", row) for row in source] + [w[f"{name}.bias_k"][0, 0], np.zeros(width)]
    v = [linear(projection, "v", row) for row in source] + [w[f"{name}.bias_v"][0, 0], np.zeros(width)]
    visible = [j for j in range(len(k)) if j >= len(source) or not hidden[j]]
    size = width // heads
    rows = []
    for query in q:
        joined = np.zeros(width)
        for head in range(heads):
            own = slice(head * size, (head + 1) * size)
            scores = [float(np.sum(query[own] * k[j][own])) / math.sqrt(size) for j in visible]
            for weight, j in zip(softmax(scores), visible, strict=True):
                joined[own] += weight * v[j][own]
        rows.append(linear(w, f"{name}.out_proj", joined))
    return np.array(rows)


def compress(
    w: dict, name: str, queries: np.ndarray, source: np.ndarray, heads: int, hidden: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    hidden = np.zeros(len(source), dtype=bool) if hidden is None else hidden
    compressed, projected = [], []
    for row in attend(w, f"{name}attention", queries, source, heads, hidden):
        x = layer_norm(w, f"{name}attention_norm", row)
        c = x + layer_norm(w, f"{name}mix_norm", linear(w, f"{name}mix", x))
        z = linear(w, f"{name}project", gelu(linear(w, f"{name}up", c)))
        compressed.append(c)
        projected.append(layer_norm(w, f"{name}project_norm", z))
    return np.array(compressed), np.array(projected)


@pytest.mark.parametrize("contexts", [["sn"], ["mw"], ["mw", "sn", "mn", "sw"]], ids="-".join)
@pytest.mark.parametrize("mask_prior_padding", [False, True])
@pytest.mark.parametrize("d_text", [6, 10])
def test_the_interface_is_the_compressors_and_the_fusion(
    contexts: list[str], mask_prior_padding: bool, d_text: int
) -> None:
    """Attention has a bias key and a zero key. Each previous report has a mask of its own, the first is all padding."""
    module = perturbed(
        SourceInterface(6, d_text, 8, num_queries=3, num_heads=2, d_hidden=7, mask_prior_padding=mask_prior_padding)
    )
    count = len(contexts)
    frontal, lateral, prior = random(count, 5, 6), random(count, 5, 6, seed=2), random(count, 4, d_text, seed=3)
    mask = torch.arange(4) < torch.arange(count).unsqueeze(1)
    available = torch.tensor([CONTEXTS[context] for context in contexts])
    rows = [own.nonzero().squeeze(1) if own.any() else None for own in available.unbind(1)]
    states = [None if own is None else given[own] for own, given in zip(rows, (lateral, prior), strict=True)]
    sources = RefinedSources(
        availability=available,
        frontal=frontal,
        lateral=states[0],
        lateral_rows=rows[0],
        prior=states[1],
        prior_mask=None if rows[1] is None else mask[rows[1]],
        prior_rows=rows[1],
    )
    found = module(sources)
    tokens, fused = found.tokens, found.fused
    w = weights_of(module)
    for b, context in enumerate(contexts):
        has_lateral, has_prior = CONTEXTS[context]
        compressed, z_frontal = compress(w, "frontal.", w["queries"], frontal[b].numpy(), 2)
        slots = [z_frontal, np.zeros((3, 8)), np.zeros((3, 8))]
        if has_lateral:
            slots[1] = compress(w, "lateral.", compressed, lateral[b].numpy(), 2)[1]
        if has_prior:
            hidden = ~mask[b].numpy() if mask_prior_padding else None
            slots[2] = compress(w, "prior.", compressed, prior[b].numpy(), 2, hidden)[1]
        close(tokens[b], slots)
        for q in range(3):
            joined = np.concatenate([slot[q] for slot in slots])
            close(fused[b, q], layer_norm(w, "fusion_norm", linear(w, "fusion", joined)))


# ------------------------------------------------------------------------------------------------------ the calibrator


@pytest.mark.parametrize("cues", ["h", "he", "hz", "hze"])
@pytest.mark.parametrize("widths", [(None, None), (3, 11)], ids=["default widths", "own widths"])
def test_the_calibrator_is_the_papers_equations(cues: str, widths: tuple[int | None, int | None]) -> None:
    d_availability, d_gate = widths
    module = perturbed(PrefixCalibrator(8, rank=3, d_availability=d_availability, d_gate=d_gate, gate_inputs=cues))
    available = torch.tensor(list(CONTEXTS.values()))
    lengths = (6, 1, 4, 2)
    mask = torch.tensor([[t < length for t in range(6)] for length in lengths])
    prefix, tokens = random(4, 6, 8), random(4, 3, 5, 8, seed=2)
    tokens[:, 1:][~available] = 0
    result = module(prefix, mask, tokens, available)
    w = weights_of(module)
    for b, (lateral, prior) in enumerate(CONTEXTS.values()):
        row = prefix[b].numpy()
        h = sum(row[t] for t in range(lengths[b])) / lengths[b]
        z_frontal, z_lateral, z_prior = (sum(slot) / 5 for slot in tokens[b].numpy())
        z = (z_frontal + lateral * z_lateral + prior * z_prior) / (1 + lateral + prior)
        e = w["availability.weight"][lateral + 2 * prior]
        # a cue that is not in use is a zero vector of its width
        cue = np.concatenate([h, z if "z" in cues else 0 * z, e if "e" in cues else 0 * e])
        gate = sigmoid(float(linear(w, "gate_out", gelu(linear(w, "gate_in", cue)))[0]))
        correction = np.zeros((6, 8))
        for t in range(lengths[b]):
            correction[t] = gate * linear(w, "up", gelu(linear(w, "down", layer_norm(w, "norm", row[t]))))
        close(result.gate[b], gate)
        close(result.residual[b], correction)
        close(result.prefix[b], row + correction)
