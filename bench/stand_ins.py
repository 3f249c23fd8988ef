"""Making the stand-ins that come with the package: half-precision weights in ``bundled/``, and
their card.

They replace the models that real corpora need downloaded;
:func:`~pacer.backbones.make_backbones.unpack` reads them.
"""

import shutil
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import torch
from safetensors.torch import load_file, save_file
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, Dinov2Model

from pacer.backbones.make_backbones import WEIGHTS
from pacer.backbones.observations import CHECKPOINT
from pacer.backbones.pointers import PROVENANCE, provenance
from pacer.backbones.tokenizer import read_tokenizer
from pacer.config import Backbone
from pacer.config.backbones import CARD, ROLES, Backbones
from pacer.config.params import load_profile
from pacer.core.anchor import CLOSE_REPORT, OPEN_REPORT
from pacer.core.errors import run_cleanly
from pacer.core.findings import FINDINGS
from pacer.core.instruction import instruction
from pacer.core.io import hash_file, write_json
from pacer.phantom.render import TrainingImages
from pacer.standins.data import Instruct, PhantomData, load_data
from pacer.standins.language import BOS, EOS, SLOTS, encode, prefix_slots
from pacer.standins.make import make_standins
from pacer.standins.recipes import RECIPES
from pacer.standins.vision import (
    DEPTHS,
    IMAGE_SIZE,
    PATCH_SIZE,
    held_out,
    patches_at,
    pixels_of,
    places_of,
    states_of,
)
from pacer.text.rules import extract_anchor

#: The world of the lists that the language model must follow, which no training uses, their number,
#: and the tokens written for each.
_LISTS_WORLD, _LISTS, _MOST_WRITTEN = 2_000_003, 300, 200

#: Largest number of images that the linear probes are fitted on.
PROBED = 1600
#: Weight of their ridge penalty.
RIDGE = 0.1
#: Rows and columns of the thumbnails, which serve as the baseline of an encoder's probes.
THUMBNAIL = 16
#: Number of images of which the places of patches are predicted.
_PLACED = 200


def main() -> None:
    """Train the models of the default profile again, replacing those in the package (``make
    stand-ins``). ``git diff`` of the card shows how their quality and first losses differ."""
    params = load_profile("configs/phantom.yaml")
    config = params.backbones.model_copy(
        update={role: Backbone(provider="standin") for role in ROLES}
    )
    instruct = partial(instruction, unknown_view=params.prompt.unknown_view)
    models = {}
    with TemporaryDirectory() as scratch:
        make_standins(config, pl.DataFrame(), pl.DataFrame(), instruct, Path(scratch))
        for role in ROLES:
            out = CARD.parent / role
            shutil.rmtree(out, ignore_errors=True)
            _halve(Path(scratch, role), out)
            training = provenance(Path(scratch, role))
            if role == "language":
                training["held_out_contradictions"] = contradictions(Path(scratch, role), instruct)
            if role == "vision":
                training |= probed(Path(scratch, role), config)
            files = {file.name: hash_file(file) for file in sorted(out.iterdir())}
            data = training.pop("data")
            models[role] = {"training": training, "files": files}
            del training["provider"], training["seed"]
    settings = {"seed": config.seed, "train_on": config.train_on}
    write_json(CARD, {"data": data, "settings": settings, "models": models})


@torch.inference_mode()
def contradictions(folder: Path, instruct: Instruct) -> dict[str, float]:
    """Return the share of greedily written reports that contradict the given commitment, by what
    the prefix holds: the sentences that state its findings (``agreeing``), noise (``uninformed``),
    or another report's (``contrary``).

    Args:
        folder: a language stand-in. instruct: as in its training.
    """
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = read_tokenizer(folder).backend_tokenizer
    texts = PhantomData(_LISTS_WORLD).texts(_LISTS)
    own = [encode(tokenizer, text, instruct) for text in texts]
    heard = {
        "agreeing": [one.stated for one in own],
        "uninformed": [[] for _ in own],
        "contrary": [one.stated for one in own[1:] + own[:1]],
    }
    embedding, shares = model.get_input_embeddings(), {}
    for name, of_case in heard.items():
        inputs, rng = [], np.random.default_rng(0)
        for one, sentences in zip(own, of_case, strict=True):
            before = embedding(torch.tensor([BOS, *one.before]))
            slotted = prefix_slots(embedding.weight, sentences, SLOTS, rng)
            after = [*one.after[True], BOS, *one.target[True][: one.commitment]]
            inputs.append(torch.cat([before, slotted, embedding(torch.tensor(after))]))
        mask = pad_sequence([torch.ones(len(one)) for one in inputs], True, 0.0, "left")
        padded = pad_sequence(inputs, True, 0.0, "left")
        limits = {"max_new_tokens": _MOST_WRITTEN, "pad_token_id": EOS, "eos_token_id": EOS}
        written = model.generate(
            inputs_embeds=padded, attention_mask=mask.long(), do_sample=False, **limits
        )
        wrong = []
        for text, tokens in zip(texts, written.tolist(), strict=True):
            report = tokenizer.decode(tokens).rpartition(OPEN_REPORT)[2].partition(CLOSE_REPORT)[0]
            wrong.append(bool(text.anchor.contradicted(extract_anchor(report))))
        shares[name] = round(fmean(wrong), 4)
    return shares


def probed(folder: Path, config: Backbones) -> dict[str, dict]:
    """Return what linear probes read from the states of a vision stand-in in the images that it was
    not trained on: findings, and the places of patches."""
    images = RECIPES[config.standins]["vision"].examples
    data = load_data(config, pl.DataFrame(), pl.DataFrame()).images(
        images, IMAGE_SIZE, IMAGE_SIZE // PATCH_SIZE
    )
    tested, rows = np.split(np.arange(images), [held_out(data)])
    model = Dinov2Model.from_pretrained(folder, dtype=torch.float32).eval()
    return {
        "held_out_auroc": _probes(model, data, rows[:PROBED], tested),
        "held_out_place": _place_probes(model, data, rows[:_PLACED], tested[:_PLACED]),
    }


@torch.no_grad()
def _probes(
    model: Dinov2Model, data: TrainingImages, rows: np.ndarray, tested: np.ndarray
) -> dict[str, dict]:
    """Return, by block and finding, the area under the ROC curve of a ridge regression on mean and
    maximum of the patch states, fitted on images ``rows``. The last block's states are the
    endpoint. The entry ``thumbnails`` has the areas of a regression on the images' thumbnails.
    Findings without both classes in ``tested`` are left out."""
    names = ["thumbnails"] + [f"block {depth}" for depth in DEPTHS]
    pooled: dict[str, list[Tensor]] = {name: [] for name in names}
    everything = np.concatenate([rows, tested])
    for part in np.array_split(everything, max(1, len(everything) // 64)):
        pixels = pixels_of(data.images[part])
        pooled["thumbnails"].append(F.adaptive_avg_pool2d(pixels[:, :1], THUMBNAIL).flatten(1))
        outputs = states_of(model, pixels)
        for depth in DEPTHS:
            states = patches_at(outputs, depth)
            pooled[f"block {depth}"].append(torch.cat([states.mean(1), states.amax(1)], 1))
    areas: dict[str, dict] = {}
    fitted = len(rows)
    labels = torch.from_numpy(data.labels[everything])
    for name, parts in pooled.items():
        inputs = torch.cat(parts).double()
        inputs = (inputs - inputs[:fitted].mean(0)) / inputs[:fitted].std(0).clamp(min=1e-6)
        inputs = F.pad(inputs, (0, 1), value=1.0)
        targets = labels[:fitted].double()
        products = (
            inputs[:fitted].T @ inputs[:fitted]
            + RIDGE * fitted * torch.eye(inputs.shape[1]).double()
        )
        scores = inputs[fitted:] @ torch.linalg.solve(products, inputs[:fitted].T @ targets)
        # without the words
        columns = zip(FINDINGS, data.labels[tested].T > 0.5, scores.numpy().T, strict=False)
        areas[name] = {
            finding: round(float(roc_auc_score(present, score)), 3)
            for finding, present, score in columns
            if 0 < present.sum() < len(present)
        }
    return areas


@torch.no_grad()
def _place_probes(
    model: Dinov2Model, data: TrainingImages, rows: np.ndarray, tested: np.ndarray
) -> dict[str, float]:
    """Return :func:`position_r2` of each depth, fitted on images ``rows``."""
    fitted_states = states_of(model, pixels_of(data.images[rows]))
    tested_states = states_of(model, pixels_of(data.images[tested]))
    shares = {}
    for depth in DEPTHS:
        share = position_r2(patches_at(fitted_states, depth), patches_at(tested_states, depth))
        shares[f"block {depth}"] = round(share, 3)
    return shares


def position_r2(learnt: Tensor, tested: Tensor) -> float:
    """Return R² of the prediction of a patch's row and column from its state in images ``tested``
    [B, N, d], by least squares fitted on ``learnt``."""
    inputs, tests = (F.pad(states, (0, 1), value=1.0).double() for states in (learnt, tested))
    wanted = places_of(inputs.shape[1]).to(inputs)
    solution = torch.linalg.lstsq(inputs.flatten(0, 1), wanted.repeat(len(inputs), 1)).solution
    error = (tests @ solution - wanted).square().mean() / (wanted - wanted.mean(0)).square().mean()
    return 1 - float(error)


def _halve(folder: Path, out: Path) -> None:
    """Copy a trained model, converting its weights to half precision."""
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns(PROVENANCE, WEIGHTS, CHECKPOINT))
    if (folder / CHECKPOINT).exists():
        weights = torch.load(folder / CHECKPOINT, weights_only=True)["model_state_dict"]
    else:
        weights = load_file(folder / WEIGHTS)
    halved = {
        name: (w.half() if w.is_floating_point() else w).contiguous() for name, w in weights.items()
    }
    save_file(halved, out / WEIGHTS, metadata={"format": "pt"})
    (out / WEIGHTS).chmod(0o644)  # safetensors creates files that only the owner can read


if __name__ == "__main__":
    run_cleanly(main)
