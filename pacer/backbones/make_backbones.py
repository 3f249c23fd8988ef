"""Bring the four frozen models into one directory: made, unpacked, or pointed to."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from pacer.backbones.gguf import convert_gguf
from pacer.backbones.hub import point_to_hub
from pacer.backbones.standins.chexbert import make_chexbert_standin
from pacer.backbones.standins.data import Instruct, TrainingData, load_data, training_text
from pacer.backbones.standins.language import make_language_standin
from pacer.backbones.standins.text import make_text_standin
from pacer.backbones.standins.vision import make_vision_standin
from pacer.params import Backbones
from pacer.rules.version import Version

MODELS = ("vision", "language", "text", "chexbert")


def locate_backbones(config: Backbones, out: Path) -> None:
    """Make all models that are not stand-ins (first, so that missing weights fail before any training).

    Raises:
        BackboneError: weights are missing; the message says what to download or where to put them.
    """
    for name in MODELS:
        backbone = getattr(config, name)
        if backbone.provider == "gguf":
            convert_gguf(backbone, out / name)
        elif backbone.provider != "standin":
            point_to_hub(backbone, out / name, name)


def make_standins(
    config: Backbones, records: pl.DataFrame, images: pl.DataFrame, instruct: Instruct, out: Path, rules: Version
) -> None:
    """Train every model whose provider is ``standin``.

    Args:
        records, images: the corpus (used with ``train_on: corpus``).
        instruct: makes the instruction text that the language model will meet downstream.
        rules: version of the rules that label the corpus (used with ``train_on: corpus``).
    """
    wanted = [name for name in MODELS if getattr(config, name).provider == "standin"]
    if not wanted:
        return
    data = load_data(config, records, images, rules)
    makers = {
        "vision": partial(_vision, config, data),
        "language": partial(_language, config, data, instruct),
        "text": partial(_text, config, data),
        "chexbert": partial(_chexbert, config, data),
    }
    for name in wanted:
        makers[name](out / name)


def _vision(config: Backbones, data: TrainingData, out: Path) -> None:
    own = config.vision_standin
    images = data.images(own.images, own.image_size, own.image_size // own.patch_size)
    make_vision_standin(own, images, config.seed, out, data.origin)


def _language(config: Backbones, data: TrainingData, instruct: Instruct, out: Path) -> None:
    own = config.language_standin
    texts = [training_text(text, instruct) for text in data.texts(own.texts)]
    make_language_standin(own, data.tokenizer(own.vocabulary), texts, config.seed, out, data.origin)


def _text(config: Backbones, data: TrainingData, out: Path) -> None:
    texts = data.texts(config.text_standin.texts)
    statuses = np.array([text.statuses for text in texts])
    labels = np.isin(statuses, (1, 3)).astype(np.int64)
    make_text_standin(config.text_standin, [t.cleaned for t in texts], labels, config.seed, out, data.origin)


def _chexbert(config: Backbones, data: TrainingData, out: Path) -> None:
    texts = data.texts(config.chexbert_standin.texts)
    statuses = np.array([text.statuses for text in texts])
    make_chexbert_standin(config.chexbert_standin, [t.raw for t in texts], statuses, config.seed, out, data.origin)
