"""The frozen models and the stand-ins for them."""

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
        return self

    @model_validator(mode="after")
    def _as_bundled(self) -> Backbones:
        own = self.model_dump()
        roles = [role for role in ("vision", "language", "text", "chexbert") if own[role]["provider"] == "bundled"]
        made = json.loads(CARD.read_text(encoding="utf-8"))["settings"] if roles else {}
        for role in roles:
            for key in ("seed", "train_on", f"{role}_standin"):
                if own[key] != made[key]:
                    raise ValueError(
                        f"backbones.{_difference(key, own[key], made[key])}; set backbones.{role}.provider: standin, "
                        "which trains such a model"
                    )
        return self


def _difference(key: str, own: Any, made: Any) -> str:
    """The first value that differs from the bundled model's."""
    if isinstance(own, dict):
        key, own, made = next((f"{key}.{name}", own[name], made[name]) for name in own if own[name] != made[name])
    return f"{key} = {own!r}, but the bundled model was made with {made!r}"
