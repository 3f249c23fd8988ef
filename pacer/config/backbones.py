"""The frozen models, their stand-ins, and which of their hidden states are stored
(``features``)."""

import json
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from pacer.config.strict import Natural, Positive, Strict

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


class Backbones(Strict):
    removed: ClassVar = {
        f"{role}_standin": "delete it; backbones.standins chooses the training of all stand-ins"
        for role in ROLES
    }

    seed: Natural
    train_on: Literal["phantom", "corpus"]
    standins: Literal["tiny", "small", "corpus"]
    vision: Backbone
    language: Backbone
    text: Backbone
    chexbert: Backbone

    @model_validator(mode="after")
    def _providers(self) -> Self:
        if self.chexbert.provider == "hub":
            raise ValueError(
                "chexbert: not on the Hub; set provider: standin, or provider: local with a path"
            )
        made_with = json.loads(CARD.read_text(encoding="utf-8"))["settings"]
        for role in ROLES:
            if getattr(self, role).provider != "bundled":
                continue
            for key, value in made_with.items():
                if getattr(self, key) != value:
                    raise ValueError(
                        f"backbones.{key} = {getattr(self, key)!r}, but the bundled model was "
                        f"trained with {value!r}; set backbones.{role}.provider: standin to train "
                        "a model with this value"
                    )
        return self


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
