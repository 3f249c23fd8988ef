"""The frozen models, their stand-ins, and which of their hidden states are stored
(``features``)."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from pacer.config.strict import Natural, Positive, PositiveFloat, Strict

#: Settings and origin of the bundled stand-ins.
CARD = Path(__file__).parents[1] / "backbones" / "bundled" / "card.json"

#: The frozen models, slowest stand-in first.
ROLES = ("vision", "language", "chexbert", "text")
_LOCATED_BY = {"bundled": (), "standin": (), "hub": ("id", "revision"), "local": ("path",)}


class Backbone(Strict):
    """The source of a frozen model."""

    provider: Literal["bundled", "standin", "hub", "local"]
    id: str | None = None
    revision: str | None = None
    path: str | None = None

    @model_validator(mode="after")
    def _located(self) -> Self:
        missing = [key for key in _LOCATED_BY[self.provider] if getattr(self, key) is None]
        if missing:
            raise ValueError(f"provider = {self.provider!r} needs {' and '.join(missing)}")
        return self


class Standin(Strict):
    """Size and training of a stand-in."""

    width: Positive
    heads: Positive
    steps: Positive
    batch_size: Positive
    learning_rate: PositiveFloat


class VisionStandin(Standin):
    """A Dinov2; image and patch size in pixels, patches N = (image_size // patch_size)^2."""

    image_size: Positive
    patch_size: Positive
    images: Annotated[int, Field(ge=2)]


class TextStandin(Standin):
    """A text model of ``layers`` blocks and ``vocabulary`` tokens, trained on ``texts`` reports."""

    layers: Positive
    vocabulary: Annotated[int, Field(ge=300)]
    texts: Positive


class LanguageStandin(TextStandin):
    """A Llama; its condition takes ``slots`` positions of the prefix."""

    slots: Positive


class Backbones(Strict):
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
    def _providers(self) -> Self:
        if self.chexbert.provider == "hub":
            raise ValueError(
                "chexbert: not on the Hub; set provider: standin, or provider: local with a path"
            )
        card = json.loads(CARD.read_text(encoding="utf-8"))["settings"]
        values = self.model_dump()
        for role in ROLES:
            if values[role]["provider"] != "bundled":
                continue
            made_with = _training_settings(card, role)
            for key, value in _training_settings(values, role).items():
                if value != made_with[key]:
                    raise ValueError(
                        f"backbones.{key} = {value!r}, but the bundled model was trained with "
                        f"{made_with[key]!r}; set backbones.{role}.provider: standin to train a "
                        "model with this value"
                    )
        return self


def _training_settings(backbones: dict[str, Any], role: str) -> dict[str, Any]:
    """Return the settings that a stand-in of this role is trained with, by key of the group
    ``backbones``."""
    standin = {
        f"{role}_standin.{key}": value for key, value in backbones[f"{role}_standin"].items()
    }
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
    def _ascending(self) -> Self:
        if self.depths != sorted(set(self.depths)):
            raise ValueError(
                "depths must be in ascending order without repeats; they count blocks, starting at "
                "1"
            )
        return self
