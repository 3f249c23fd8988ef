"""The frozen models, the stand-ins for them, and what is stored of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from pacer.config.strict import Natural, Positive, PositiveFloat, Strict

#: Settings and origin of the bundled stand-ins.
CARD = Path(__file__).parents[1] / "backbones" / "bundled" / "card.json"


class Backbone(Strict):
    """Where one frozen model comes from."""

    provider: Literal["bundled", "standin", "hub", "local"]
    id: str | None = None
    revision: str | None = None
    path: str | None = None

    @model_validator(mode="after")
    def _located(self) -> Backbone:
        needed = {"bundled": (), "standin": (), "hub": ("id", "revision"), "local": ("path",)}
        missing = [key for key in needed[self.provider] if getattr(self, key) is None]
        if missing:
            raise ValueError(f"provider: {self.provider} needs {' and '.join(missing)}")
        return self


class Standin(Strict):
    """Size and training of a stand-in."""

    width: Positive
    heads: Positive
    steps: Positive
    batch_size: Positive
    learning_rate: PositiveFloat

    @model_validator(mode="after")
    def _divides(self) -> Self:
        if self.width % self.heads or self.width // self.heads < 4:
            raise ValueError(f"width {self.width} must be a multiple of heads ({self.heads}), with 4 per head at least")
        return self


class VisionStandin(Standin):
    """A Dinov2; image and patch size in pixels, patches N = (image_size // patch_size)^2."""

    image_size: Positive
    patch_size: Positive
    images: Annotated[int, Field(ge=2)]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.patch_size > self.image_size:
            raise ValueError(f"patch_size {self.patch_size} is larger than image_size {self.image_size}")
        return self


class TextStandin(Standin):
    """A text model of ``layers`` blocks and ``vocabulary`` tokens, trained on ``texts`` reports."""

    layers: Positive
    vocabulary: Annotated[int, Field(ge=300)]
    texts: Positive


class LanguageStandin(TextStandin):
    """A Llama; its condition takes ``slots`` positions of the prefix."""

    slots: Positive

    @model_validator(mode="after")
    def _even(self) -> Self:
        if self.width // self.heads % 2:
            raise ValueError(
                f"width {self.width}, heads {self.heads}: width / heads must be even, for rotary positions"
            )
        return self


class Backbones(Strict):
    """The group ``backbones``: the four frozen models and the settings of their stand-ins."""

    seed: Natural
    train_on: Literal["phantom", "corpus"]
    vision: Backbone
    language: Backbone
    text: Backbone
    chexbert: Backbone
    vision_standin: VisionStandin
    language_standin: LanguageStandin
    text_standin: TextStandin
    chexbert_standin: TextStandin

    @model_validator(mode="after")
    def _providers(self) -> Backbones:
        if self.chexbert.provider == "hub":
            raise ValueError("chexbert: no hub has its weights; set provider: local with path, or provider: standin")
        roles = [
            role for role in ("vision", "language", "text", "chexbert") if getattr(self, role).provider == "bundled"
        ]
        card = json.loads(CARD.read_text(encoding="utf-8"))["settings"] if roles else {}
        for role in roles:
            trained_with = _training_settings(card, role)
            for key, value in _training_settings(self.model_dump(), role).items():
                if value != trained_with[key]:
                    raise ValueError(
                        f"backbones.{key} = {value!r}, but the bundled model was made with {trained_with[key]!r}; set "
                        f"backbones.{role}.provider: standin, which trains such a model"
                    )
        return self


def _training_settings(backbones: dict[str, Any], role: str) -> dict[str, object]:
    """What a stand-in of this role is trained with, by key of the group ``backbones``."""
    standin = {f"{role}_standin.{key}": value for key, value in backbones[f"{role}_standin"].items()}
    return {"seed": backbones["seed"], "train_on": backbones["train_on"]} | standin


class Features(Strict):
    """The group ``features``: which hidden states of the frozen encoders are stored, and how."""

    mode: Literal["states", "pixels"]
    depths: Annotated[list[Positive], Field(min_length=1)]
    dtype: Literal["float32", "float16", "bfloat16"]
    precision: Literal["float32", "bfloat16"]
    batch_size: Positive
    shard_size: Positive
    workers: Natural
    prior_tokens: Annotated[int, Field(ge=2, le=100_000)]

    @model_validator(mode="after")
    def _ascending(self) -> Features:
        if self.depths != sorted(set(self.depths)):
            raise ValueError("depths must ascend without repeats; depths are counted in blocks, 1 is the first")
        return self
