"""A small Dinov2 encoder that has learnt findings and their locations: the stand-in for RAD-DINO.

With phantom data, where locations of findings are known, it is trained twice. The first training
covers the whole model: the endpoint's mean patch predicts the image's findings, and at blocks 4 and
8 (a third and two thirds of the depth) each patch predicts the findings within it. The second
covers only the last third, with a whole-image objective: every patch of the endpoint predicts the
extensive findings, and the patches of an image are pulled together, because those of deep vision
transformers become alike (over-smoothing). So the endpoint describes the whole image, and earlier
depths keep the fine local evidence: a model that reads them can gain from it.

From radiographs of a corpus, without locations, a transformer learns findings too slowly: unlike a
convolution, it has to learn that neighbouring pixels belong together, and that an opacity is an
opacity wherever it is. So a residual network first learns the findings and the words of the
reports, from radiographs of twice the size. Then the encoder learns from the network: each patch of
the endpoint predicts the network's map at its location, and the mean patch the network's outputs.
If the encoder has the sizes of the bundled one, it starts from that one's weights, at a lower
learning rate. Here nothing is done to remove fine details from the endpoint. A corpus has few
radiographs, so each one is cropped, rotated and exposed a little differently each time it is used.

In both cases the patches of each depth are trained to encode their row and column, because those of
real encoders do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BitImageProcessorPil, Dinov2Config, Dinov2Model

from pacer.config.backbones import CARD
from pacer.core.devices import gains_from_bfloat16
from pacer.core.errors import DataError
from pacer.core.findings import FINDINGS
from pacer.core.io import read_json
from pacer.phantom.render import TrainingImages
from pacer.standins.recipes import BLOCKS, Recipe
from pacer.standins.training import State, train

#: Pixels of a radiograph (RAD-DINO: 518), and of a patch.
IMAGE_SIZE, PATCH_SIZE = 112, 14
#: The depths that a model reads.
DEPTHS = (BLOCKS // 3, 2 * BLOCKS // 3, BLOCKS)
_EXTENSIVE = "atelectasis", "cardiomegaly", "edema", "enlarged mediastinum", "pleural effusion"
#: Columns of the findings that cover a large part of the image.
EXTENSIVE = [FINDINGS.index(finding) for finding in _EXTENSIVE]
#: Steps of the second training as a share of the first's.
SECOND = 0.5
#: Weight of the smoothness in the loss.
SMOOTHNESS = 10.0
#: Weight of the patches' places in the loss.
PLACE = 0.2
#: Factor of the learning rate of an encoder that starts from the bundled one.
SLOWER = 1 / 3
#: Steps of the residual network per step of the encoder.
RESIDUAL = 5
#: Share of these steps on half-size radiographs, which take a quarter of the time.
AT_HALF_SIZE = 0.85
#: Channels of the residual network's four stages; the last two share a resolution.
WIDTHS = (24, 48, 96, 192)
#: RAD-DINO's pixel statistics.
MEAN = 0.5307
STD = 0.2583


def make_vision_standin(
    recipe: Recipe, data: TrainingImages, seed: int, out: Path, size: int = IMAGE_SIZE
) -> dict[str, object]:
    """Train the encoder of radiographs [size, size] on all of the images but :func:`held_out`."""
    if len(data.images) < 2:
        raise DataError(
            "a vision stand-in needs at least two training images; the corpus has fewer"
        )
    torch.manual_seed(seed)
    model, slower = _encoder(recipe, size, data.masks is None)
    heads = nn.ModuleDict({"label": nn.Linear(recipe.width, data.labels.shape[1])})
    for depth in DEPTHS:
        heads[f"place{depth}"] = nn.Linear(recipe.width, 2)
    rows = np.arange(held_out(data), len(data.images))
    state = State(out, np.random.default_rng(seed))
    model.train()
    if data.masks is None:
        facts = _distil(model, heads, data, rows, recipe, slower, state)
    else:
        facts = _train_with_locations(model, heads, data, rows, recipe, state)
    model.eval()
    _standardise_endpoint(model, data, rows[:512])
    _save(model, size, out)
    return {
        "model": f"Dinov2, {BLOCKS} blocks, width {recipe.width}",
        "images": len(rows),
    } | facts


def held_out(data: TrainingImages) -> int:
    """Return the number of images that are not trained on, which are the first ones."""
    return max(1, len(data.images) // 10)


def _train(
    what: str,
    modules: Sequence[nn.Module],
    loss_of: Callable[[int, np.ndarray], Tensor],
    rows: np.ndarray,
    recipe: Recipe,
    state: State,
) -> list[float]:
    """Train ``modules`` in passes over the images ``rows``, and return the first losses.
    ``loss_of`` gets the number of the step and those of the images."""
    size = recipe.batch_size
    passes = math.ceil(recipe.steps * size / len(rows))
    order = np.concatenate([state.rng.permutation(rows) for _ in range(passes)])
    batches = order[: recipe.steps * size].reshape(recipe.steps, size)
    return train(
        what,
        nn.ModuleList(modules).requires_grad_(True),
        iter(enumerate(batches)),
        lambda batch: loss_of(*batch),
        recipe,
        weight_decay=0.05,
        state=state,
    )


def _train_with_locations(
    model: Dinov2Model,
    heads: nn.ModuleDict,
    data: TrainingImages,
    rows: np.ndarray,
    recipe: Recipe,
    state: State,
) -> dict[str, object]:
    """Train with the locations of findings: first the whole model, then its last third."""
    for depth in DEPTHS[:-1]:
        heads[f"patch{depth}"] = nn.Sequential(
            nn.LayerNorm(recipe.width), nn.Linear(recipe.width, len(FINDINGS))
        )
    second = recipe._replace(steps=max(1, round(SECOND * recipe.steps)))
    first_losses = _train(
        "train vision stand-in",
        [model, heads],
        lambda _, chosen: _places_loss(model, heads, data, chosen),
        rows,
        recipe,
        state,
    )
    model.requires_grad_(False)
    last = (
        model.encoder.layer[DEPTHS[1] :],
        model.layernorm,
        heads["label"],
        heads[f"place{BLOCKS}"],
    )
    _train(
        "train vision stand-in's last blocks",
        last,
        lambda _, chosen: _whole_image_loss(model, heads, data, chosen),
        rows,
        second,
        state,
    )
    return {
        "steps": [recipe.steps, second.steps],
        "first_losses": first_losses,
        "objective": "findings from the endpoint's mean patch, and from patches at blocks 4 and "
        "8; then, blocks 9 to 12 alone, extensive findings from every patch, patches alike",
    }


def _distil(
    model: Dinov2Model,
    heads: nn.ModuleDict,
    data: TrainingImages,
    rows: np.ndarray,
    recipe: Recipe,
    slower: float,
    state: State,
) -> dict[str, object]:
    """Train a residual network, and then the encoder on the network's outputs, its learning rate
    times ``slower``."""
    heads["map"] = nn.Linear(recipe.width, WIDTHS[-1])
    network = ResidualNetwork(data.labels.shape[1])
    teacher = recipe._replace(steps=RESIDUAL * recipe.steps)
    first_losses = _train(
        "train vision stand-in's teacher",
        [network],
        _findings_loss(network, data, teacher.steps),
        rows,
        teacher,
        state,
    )
    network.eval().requires_grad_(False)
    _train(
        "train vision stand-in",
        [model, heads],
        lambda _, chosen: _taught_loss(model, heads, network, data, chosen),
        rows,
        recipe._replace(learning_rate=slower * recipe.learning_rate),
        state,
    )
    return {
        "steps": [teacher.steps, recipe.steps],
        "first_losses": first_losses,
        "objective": "distilled from a residual network trained on augmented radiographs (feature "
        "map, findings, words)",
    }


def _save(model: Dinov2Model, size: int, out: Path) -> None:
    """Write the model and its image processor."""
    model.save_pretrained(out)
    processor = BitImageProcessorPil(
        size={"shortest_edge": size},
        crop_size={"height": size, "width": size},
        image_mean=[MEAN] * 3,
        image_std=[STD] * 3,
    )
    processor.save_pretrained(out)


def _encoder(recipe: Recipe, size: int, from_bundled: bool) -> tuple[Dinov2Model, float]:
    """Build the encoder; return it, and a factor of the learning rate. New weights are scaled by
    the fan-in: the library's fixed 0.02 is for wide models, slow at this width."""
    config = Dinov2Config(
        hidden_size=recipe.width,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        image_size=size,
        patch_size=PATCH_SIZE,
        layerscale_value=0.4,
        mlp_ratio=4,
    )
    bundled = read_json(CARD.parent / "vision" / "config.json")
    sizes = "hidden_size", "num_attention_heads", "image_size", "patch_size"
    if from_bundled and all(bundled[name] == getattr(config, name) for name in sizes):
        return Dinov2Model.from_pretrained(CARD.parent / "vision", dtype=torch.float32), SLOWER
    model = Dinov2Model(config)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=module.in_features**-0.5)
    return model, 1.0


def pixels_of(images: np.ndarray) -> Tensor:
    """Normalise images: uint8 [B, H, W] -> [B, 3, H, W]."""
    grey = (torch.from_numpy(images).float() / 255 - MEAN) / STD
    return grey.unsqueeze(1).expand(-1, 3, -1, -1)


def states_of(model: Dinov2Model, pixels: Tensor) -> Any:
    """Return the encoder's outputs for pixels of its size or of twice that."""
    size: Any = model.config.image_size
    times = pixels.shape[-1] // size
    return model(
        pixel_values=F.avg_pool2d(pixels, times) if times > 1 else pixels, output_hidden_states=True
    )


def _label_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean loss of the findings plus that of the words, if there are any."""
    first = len(FINDINGS)
    loss = F.binary_cross_entropy_with_logits(logits[:, :first], targets[:, :first])
    if logits.shape[1] > first:
        loss = loss + F.binary_cross_entropy_with_logits(logits[:, first:], targets[:, first:])
    return loss


def _varied(pixels: Tensor) -> Tensor:
    """Vary radiographs [B, C, H, W]: crop each randomly to 75 to 100% of its sides, rotate it by
    up to 10 degrees, and change brightness and contrast; left and right are never swapped."""
    count = len(pixels)
    scale = torch.empty(count).uniform_(0.75, 1)
    turn = torch.empty(count).uniform_(-math.pi / 18, math.pi / 18)
    place = torch.empty(2, count).uniform_(-1, 1) * (1 - scale)
    along, across = scale * turn.cos(), scale * turn.sin()
    moves = torch.stack([along, -across, place[0], across, along, place[1]], 1).unflatten(1, (2, 3))
    grid = F.affine_grid(moves, [count, 1, *pixels.shape[2:]], align_corners=False)
    cut = F.grid_sample(pixels[:, :1], grid, padding_mode="border", align_corners=False).expand_as(
        pixels
    )
    exposure = torch.empty(2, count, 1, 1, 1).uniform_(-0.2, 0.2)
    return cut * (1 + exposure[0]) + exposure[1]


def _findings_loss(
    network: ResidualNetwork, data: TrainingImages, steps: int
) -> Callable[[int, np.ndarray], Tensor]:
    """Return the loss function of findings on varied radiographs, at half size in the first part of
    the steps."""

    def loss_of(step: int, rows: np.ndarray) -> Tensor:
        grey = pixels_of(data.images[rows])[:, :1]
        if step < round(AT_HALF_SIZE * steps):
            grey = F.avg_pool2d(grey, 2)
        logits = network(_varied(grey))[1]
        return _label_loss(logits, torch.from_numpy(data.labels[rows]))

    return loss_of


def _taught_loss(
    model: Dinov2Model,
    heads: nn.ModuleDict,
    network: ResidualNetwork,
    data: TrainingImages,
    rows: np.ndarray,
) -> Tensor:
    """Return the loss of predicting the network's map from the endpoint's patches, and its findings
    from their mean."""
    pixels = _varied(pixels_of(data.images[rows]))
    places, answers = network(pixels[:, :1])
    outputs = states_of(model, pixels)
    patches = patches_at(outputs, BLOCKS)
    places = F.adaptive_avg_pool2d(places, math.isqrt(patches.shape[1])).flatten(2).transpose(1, 2)
    loss = F.mse_loss(heads["map"](patches), F.layer_norm(places, places.shape[-1:]))
    loss = loss + PLACE * _place_loss(heads, outputs)
    return loss + _label_loss(heads["label"](patches.mean(1)), answers.sigmoid())


def _places_loss(
    model: Dinov2Model, heads: nn.ModuleDict, data: TrainingImages, rows: np.ndarray
) -> Tensor:
    """Return the loss of findings from the endpoint's mean patch, and of those in each patch at
    earlier depths."""
    outputs = model(pixel_values=pixels_of(data.images[rows]), output_hidden_states=True)
    assert data.masks is not None
    labels = torch.from_numpy(data.labels[rows])
    masks = torch.from_numpy(data.masks[rows])
    masks = masks.flatten(2).transpose(1, 2)  # [B, N, F]
    loss = F.binary_cross_entropy_with_logits(
        heads["label"](outputs.last_hidden_state[:, 1:].mean(1)), labels
    )
    for name, head in heads.items():
        if name.startswith("patch"):
            logits = head(outputs.hidden_states[int(name.removeprefix("patch"))][:, 1:])
            # few patches contain a finding: upweight them, or the head always predicts none
            per_patch = F.binary_cross_entropy_with_logits(logits, masks, reduction="none")
            loss = loss + (per_patch * (1 + 4 * masks)).mean() * 2
    return loss + PLACE * _place_loss(heads, outputs)


def patches_at(outputs: Any, depth: int) -> Tensor:
    """Return the patch states at a depth, those of the last block after the final norm [B, N,
    d]."""
    return (outputs.last_hidden_state if depth == BLOCKS else outputs.hidden_states[depth])[:, 1:]


def places_of(count: int) -> Tensor:
    """Return row and column of each of ``count`` patches, from -1 to 1 [N, 2]."""
    line = torch.linspace(-1, 1, math.isqrt(count))
    return torch.stack(torch.meshgrid(line, line, indexing="ij"), -1).flatten(0, 1)


def _place_loss(heads: nn.ModuleDict, outputs: Any, depths: Sequence[int] = DEPTHS) -> Tensor:
    """Return the squared error of the places predicted from patches, summed over depths."""
    loss = torch.zeros(())
    for depth in depths:
        predicted = heads[f"place{depth}"](patches_at(outputs, depth))
        loss = loss + F.mse_loss(predicted, places_of(predicted.shape[1]).expand_as(predicted))
    return loss


def _whole_image_loss(
    model: Dinov2Model, heads: nn.ModuleDict, data: TrainingImages, rows: np.ndarray
) -> Tensor:
    """Return the loss of extensive findings from every patch of the endpoint and from their mean,
    plus the variance of patches within an image relative to that between images."""
    outputs = model(pixel_values=pixels_of(data.images[rows]))
    patches = patches_at(outputs, BLOCKS)
    labels = torch.from_numpy(data.labels[rows])[:, EXTENSIVE]
    loss = PLACE * _place_loss(heads, outputs, DEPTHS[-1:])
    # without the mean of each place, so that only the image's own part remains
    patches = patches - patches.mean(0, keepdim=True) + patches.mean((0, 1))
    mean = patches.mean(1, keepdim=True)
    for states in (patches, mean):
        logits = heads["label"](states)[..., EXTENSIVE]
        loss = loss + F.binary_cross_entropy_with_logits(logits, labels[:, None].expand_as(logits))
    variance_inside = (patches - mean).square().mean()
    variance_between = (mean - mean.mean(0)).square().mean()
    return loss + SMOOTHNESS * variance_inside / variance_between.clamp(min=1e-6)


@torch.no_grad()
def _standardise_endpoint(model: Dinov2Model, data: TrainingImages, rows: np.ndarray) -> None:
    """Fold per-channel standardisation of the patch states into the final LayerNorm, so that the
    small interface does not miss channels of little variance."""
    parts = np.array_split(rows, max(1, len(rows) // 64))
    endpoints = [
        states_of(model, pixels_of(data.images[part])).last_hidden_state[:, 1:] for part in parts
    ]
    states = torch.cat(endpoints).flatten(0, 1)
    mean, std = states.mean(0), states.std(0).clamp(min=1e-3)
    model.layernorm.weight.div_(std)
    model.layernorm.bias.sub_(mean).div_(std)


class ResidualNetwork(nn.Module):
    """Grey radiographs [B, 1, H, W] -> map [B, 192, H / 16, W / 16] and findings' logits [B, F]
    from the map's mean.

    Residual blocks after He et al., "Deep Residual Learning for Image Recognition", 2016; each
    starts as its skip connection. On processors with bfloat16 multiplication it computes in
    bfloat16, in a third of the time.
    """

    def __init__(self, findings: int):
        super().__init__()
        first, second, third, fourth = WIDTHS
        self.stem = nn.Sequential(
            nn.Conv2d(1, first, 7, 2, 3, bias=False),
            nn.BatchNorm2d(first),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        )
        shapes = (
            (first, first, 1),
            (first, second, 2),
            (second, second, 1),
            (second, third, 2),
            (third, third, 1),
        )
        shapes += (third, fourth, 1), (fourth, fourth, 1)
        self.body = nn.Sequential(*(_Block(*shape) for shape in shapes))
        self.label = nn.Linear(fourth, findings)
        self.in_bfloat16 = gains_from_bfloat16()

    def forward(self, grey: Tensor) -> tuple[Tensor, Tensor]:
        with torch.autocast("cpu", torch.bfloat16, self.in_bfloat16):
            places = self.body(self.stem(grey.contiguous(memory_format=torch.channels_last)))
        places = places.float()
        return places, self.label(places.mean((2, 3)))


class _Block(nn.Module):
    def __init__(self, width_in: int, width: int, stride: int):
        super().__init__()
        self.first = nn.Conv2d(width_in, width, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(width)
        nn.init.zeros_(self.second_norm.weight)
        self.skip = nn.Identity()
        if width != width_in:
            self.skip = nn.Sequential(
                nn.Conv2d(width_in, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, places: Tensor) -> Tensor:
        added = F.relu(self.first_norm(self.first(places)))
        return F.relu(self.skip(places) + self.second_norm(self.second(added)))
