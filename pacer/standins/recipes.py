"""Sizes and training of the stand-ins, by ``backbones.standins`` and role."""

from typing import NamedTuple

from pacer.phantom.tokenizer import VOCABULARY

#: Blocks of the encoder, as many as RAD-DINO has.
BLOCKS = 12


class Recipe(NamedTuple):
    """Size and training of a stand-in."""

    #: Hidden width.
    width: int
    #: Blocks.
    layers: int
    #: Attention heads.
    heads: int
    #: Size of the tokenizer, byte fallback and special tokens included; 0: an encoder of images.
    vocabulary: int
    #: Largest number of images or reports to learn from.
    examples: int
    #: Images or reports per step.
    batch_size: int
    #: Optimiser steps.
    steps: int
    #: Peak of the learning rate.
    learning_rate: float


#: The bundled models. Their sizes stand in for RAD-DINO's width of 768, Vicuna-7B's 4096 with 32
#: blocks and 32,000 tokens, and the 768 with 12 blocks of CheXbert and CXR-BERT.
_SMALL = {
    "vision": Recipe(96, BLOCKS, 4, 0, 4000, 32, 550, 1.5e-3),
    "language": Recipe(128, 4, 4, VOCABULARY, 12_000, 16, 3200, 3e-3),
    "chexbert": Recipe(128, 3, 4, 800, 6000, 8, 1100, 1e-3),
    "text": Recipe(96, 2, 4, 800, 8000, 8, 4000, 1.5e-3),
}
#: A few steps, which only show that the stages work together.
_TINY = {
    role: recipe._replace(examples=200, batch_size=8, steps=4) for role, recipe in _SMALL.items()
}
#: For real radiographs and reports: most of the reports are composed of sentences of the train
#: split.
_CORPUS = _SMALL | {
    "vision": _SMALL["vision"]._replace(examples=6000, steps=700),
    "language": _SMALL["language"]._replace(examples=40_000, steps=2400),
}
RECIPES = {"tiny": _TINY, "small": _SMALL, "corpus": _CORPUS}
