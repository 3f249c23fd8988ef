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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BitImageProcessorPil, Dinov2Config, Dinov2Model

from pacer.config.backbones import CARD, VisionStandin
from pacer.core.devices import gains_from_bfloat16
from pacer.core.errors import DataError
from pacer.core.findings import FINDINGS
from pacer.core.io import read_json
from pacer.phantom.render import TrainingImages
from pacer.standins.training import train

BLOCKS = 12
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
#: Largest number of images that the linear probes are fitted on.
PROBED = 1600
#: Weight of their ridge penalty.
RIDGE = 0.1
#: Rows and columns of the thumbnails, which serve as the baseline of an encoder's probes.
THUMBNAIL = 16
#: Number of images of which the places of patches are predicted.
_PLACED = 200
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


@dataclass
class _Training:
    """The encoder in training, with its heads and its data."""

    config: VisionStandin
    data: TrainingImages
    #: Numbers of the images to train on.
    rows: np.ndarray
    rng: np.random.Generator
    #: Folder for the state of an interrupted training.
    out: Path
    model: Dinov2Model
    heads: nn.ModuleDict

    def minimise(
        self,
        loss_of: Callable[[int, np.ndarray], Tensor],
        steps: int,
        modules: Sequence[nn.Module],
        name: str = "train vision stand-in",
        learning_rate_factor: float = 1.0,
    ) -> list[float]:
        """Train ``modules`` for a number of steps, and return the first losses. ``loss_of`` gets
        the number of the step and those of the images."""
        size = self.config.batch_size
        epochs = math.ceil(steps * size / len(self.rows))
        order = np.concatenate([self.rng.permutation(self.rows) for _ in range(epochs)])
        changes = {
            "steps": steps,
            "learning_rate": learning_rate_factor * self.config.learning_rate,
        }
        return train(
            name,
            nn.ModuleList(modules).requires_grad_(True),
            enumerate(order[: steps * size].reshape(steps, size)),
            lambda batch: loss_of(*batch),
            self.config.model_copy(update=changes),
            self.rng,
            self.out,
            weight_decay=0.05,
        )


class _Trained(NamedTuple):
    #: Number of steps of each of the two parts of the training.
    steps: list[int]
    first_losses: list[float]
    #: The objectives in words, for the provenance.
    objective: str


def make_vision_standin(
    config: VisionStandin, data: TrainingImages, seed: int, out: Path
) -> dict[str, object]:
    """Train the encoder, and measure what linear probes of its depths find on a held-out tenth."""
    if len(data.images) < 2:
        raise DataError(
            "a vision stand-in needs at least two training images; the corpus has fewer"
        )
    torch.manual_seed(seed)
    model, from_bundled = _encoder(config, data.masks is None)
    heads = nn.ModuleDict({"label": nn.Linear(config.width, data.labels.shape[1])})
    for depth in DEPTHS:
        heads[f"place{depth}"] = nn.Linear(config.width, 2)
    held_out, rows = np.split(np.arange(len(data.images)), [max(1, len(data.images) // 10)])
    rng = np.random.default_rng(seed)
    training = _Training(config, data, rows, rng, out, model, heads)
    model.train()
    if data.masks is None:
        trained = _distil(training, SLOWER if from_bundled else 1.0)
    else:
        trained = _train_with_locations(training)
    model.eval()
    _standardise_endpoint(model, data, rows[:512])
    held_out_place = _place_probes(model, data, rows[:_PLACED], held_out[:_PLACED])
    _save(model, config, out)
    return {
        "model": f"Dinov2, {BLOCKS} blocks, width {config.width}",
        "images": len(rows),
        "steps": trained.steps,
        "first_losses": trained.first_losses,
        "objective": trained.objective,
        "held_out_auroc": _probes(model, data, rows[:PROBED], held_out),
        "held_out_place": held_out_place,
    }


def _train_with_locations(training: _Training) -> _Trained:
    """Train with the locations of findings: first the whole model, then its last third."""
    config = training.config
    data = training.data
    model = training.model
    heads = training.heads
    for depth in DEPTHS[:-1]:
        heads[f"patch{depth}"] = nn.Sequential(
            nn.LayerNorm(config.width), nn.Linear(config.width, len(FINDINGS))
        )
    steps = [config.steps, max(1, round(SECOND * config.steps))]
    first_losses = training.minimise(
        lambda _, rows: _places_loss(model, heads, data, rows), steps[0], [model, heads]
    )
    model.requires_grad_(False)
    training.minimise(
        lambda _, rows: _whole_image_loss(model, heads, data, rows),
        steps[1],
        [
            model.encoder.layer[DEPTHS[1] :],
            model.layernorm,
            heads["label"],
            heads[f"place{BLOCKS}"],
        ],
        name="train vision stand-in's last blocks",
    )
    return _Trained(
        steps,
        first_losses,
        "findings from the endpoint's mean patch, and from patches at blocks 4 and 8; then, "
        "blocks 9 to 12 alone, extensive findings from every patch, patches alike",
    )


def _distil(training: _Training, learning_rate_factor: float) -> _Trained:
    """Train a residual network, and then the encoder on the network's outputs."""
    config = training.config
    data = training.data
    model = training.model
    heads = training.heads
    heads["map"] = nn.Linear(config.width, WIDTHS[-1])
    network = ResidualNetwork(data.labels.shape[1])
    steps = [RESIDUAL * config.steps, config.steps]
    first_losses = training.minimise(
        _findings_loss(network, data, steps[0]),
        steps[0],
        [network],
        name="train vision stand-in's teacher",
    )
    network.eval().requires_grad_(False)
    training.minimise(
        lambda _, rows: _taught_loss(model, heads, network, data, rows),
        steps[1],
        [model, heads],
        learning_rate_factor=learning_rate_factor,
    )
    return _Trained(
        steps,
        first_losses,
        "distilled from a residual network trained on augmented radiographs (feature map, "
        "findings, words)",
    )


def _save(model: Dinov2Model, config: VisionStandin, out: Path) -> None:
    """Write the model and its image processor."""
    model.save_pretrained(out)
    processor = BitImageProcessorPil(
        size={"shortest_edge": config.image_size},
        crop_size={"height": config.image_size, "width": config.image_size},
        image_mean=[MEAN] * 3,
        image_std=[STD] * 3,
    )
    processor.save_pretrained(out)


def _encoder(config: VisionStandin, from_bundled: bool) -> tuple[Dinov2Model, bool]:
    """Build the encoder; return it, and whether it has the bundled encoder's weights. New weights
    are scaled by the fan-in: the library's fixed 0.02 is for wide models, slow at this width."""
    bundled = read_json(CARD.parent / "vision" / "config.json")
    sizes = {
        "hidden_size": config.width,
        "num_attention_heads": config.heads,
        "image_size": config.image_size,
    }
    if from_bundled and (sizes | {"patch_size": config.patch_size}).items() <= bundled.items():
        return Dinov2Model.from_pretrained(CARD.parent / "vision", dtype=torch.float32), True
    model = Dinov2Model(
        Dinov2Config(
            hidden_size=config.width,
            num_hidden_layers=BLOCKS,
            num_attention_heads=config.heads,
            image_size=config.image_size,
            patch_size=config.patch_size,
            layerscale_value=0.4,
            mlp_ratio=4,
        )
    )
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=module.in_features**-0.5)
    return model, False


def _pixels(images: np.ndarray) -> Tensor:
    """Normalise images: uint8 [B, H, W] -> [B, 3, H, W]."""
    grey = (torch.from_numpy(images).float() / 255 - MEAN) / STD
    return grey.unsqueeze(1).expand(-1, 3, -1, -1)


def _states(model: Dinov2Model, pixels: Tensor) -> Any:
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
        grey = _pixels(data.images[rows])[:, :1]
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
    pixels = _varied(_pixels(data.images[rows]))
    places, answers = network(pixels[:, :1])
    outputs = _states(model, pixels)
    patches = _patches(outputs, BLOCKS)
    places = F.adaptive_avg_pool2d(places, math.isqrt(patches.shape[1])).flatten(2).transpose(1, 2)
    loss = F.mse_loss(heads["map"](patches), F.layer_norm(places, places.shape[-1:]))
    loss = loss + PLACE * _place_loss(heads, outputs)
    return loss + _label_loss(heads["label"](patches.mean(1)), answers.sigmoid())


def _places_loss(
    model: Dinov2Model, heads: nn.ModuleDict, data: TrainingImages, rows: np.ndarray
) -> Tensor:
    """Return the loss of findings from the endpoint's mean patch, and of those in each patch at
    earlier depths."""
    outputs = model(pixel_values=_pixels(data.images[rows]), output_hidden_states=True)
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


def _patches(outputs: Any, depth: int) -> Tensor:
    """Return the patch states at a depth, those of the last block after the final norm [B, N,
    d]."""
    return (outputs.last_hidden_state if depth == BLOCKS else outputs.hidden_states[depth])[:, 1:]


def _places(count: int) -> Tensor:
    """Return row and column of each of ``count`` patches, from -1 to 1 [N, 2]."""
    line = torch.linspace(-1, 1, math.isqrt(count))
    return torch.stack(torch.meshgrid(line, line, indexing="ij"), -1).flatten(0, 1)


def _place_loss(heads: nn.ModuleDict, outputs: Any, depths: Sequence[int] = DEPTHS) -> Tensor:
    """Return the squared error of the places predicted from patches, summed over depths."""
    loss = torch.zeros(())
    for depth in depths:
        predicted = heads[f"place{depth}"](_patches(outputs, depth))
        loss = loss + F.mse_loss(predicted, _places(predicted.shape[1]).expand_as(predicted))
    return loss


def _whole_image_loss(
    model: Dinov2Model, heads: nn.ModuleDict, data: TrainingImages, rows: np.ndarray
) -> Tensor:
    """Return the loss of extensive findings from every patch of the endpoint and from their mean,
    plus the variance of patches within an image relative to that between images."""
    outputs = model(pixel_values=_pixels(data.images[rows]))
    patches = _patches(outputs, BLOCKS)
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
        pixels = _pixels(data.images[part])
        pooled["thumbnails"].append(F.adaptive_avg_pool2d(pixels[:, :1], THUMBNAIL).flatten(1))
        outputs = _states(model, pixels)
        for depth in DEPTHS:
            states = _patches(outputs, depth)
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
    fitted_states = _states(model, _pixels(data.images[rows]))
    tested_states = _states(model, _pixels(data.images[tested]))
    shares = {}
    for depth in DEPTHS:
        share = position_r2(_patches(fitted_states, depth), _patches(tested_states, depth))
        shares[f"block {depth}"] = round(share, 3)
    return shares


def position_r2(learnt: Tensor, tested: Tensor) -> float:
    """Return R² of the prediction of a patch's row and column from its state in images ``tested``
    [B, N, d], by least squares fitted on ``learnt``."""
    inputs, tests = (F.pad(states, (0, 1), value=1.0).double() for states in (learnt, tested))
    wanted = _places(inputs.shape[1]).to(inputs)
    solution = torch.linalg.lstsq(inputs.flatten(0, 1), wanted.repeat(len(inputs), 1)).solution
    error = (tests @ solution - wanted).square().mean() / (wanted - wanted.mean(0)).square().mean()
    return 1 - float(error)


@torch.no_grad()
def _standardise_endpoint(model: Dinov2Model, data: TrainingImages, rows: np.ndarray) -> None:
    """Fold per-channel standardisation of the patch states into the final LayerNorm, so that the
    small interface does not miss channels of little variance."""
    parts = np.array_split(rows, max(1, len(rows) // 64))
    endpoints = [
        _states(model, _pixels(data.images[part])).last_hidden_state[:, 1:] for part in parts
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
