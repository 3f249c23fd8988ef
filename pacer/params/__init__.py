"""Typed parameters, a file per group of ``params.yaml``; DVC tracks the values, so no stage declares this room.

Uses core alone.
"""

from pacer.params.anchors import Anchors, Labelling
from pacer.params.backbones import Backbone, Backbones, LanguageStandin, Standin, TextStandin, VisionStandin
from pacer.params.corpus import (
    Annotations,
    Cleaner,
    Corpus,
    MimicCxr,
    OpenI,
    Phantom,
    R2Gen,
    SubjectShares,
    TableOfStudies,
)
from pacer.params.decode import Decode
from pacer.params.emphasis import Emphasis
from pacer.params.features import Features
from pacer.params.model import Commit, Interface, Lora, Prompt, Refine, Trajectory
from pacer.params.params import Params, load_params, parse_params
from pacer.params.score import Score
from pacer.params.strict import (
    Beams,
    Fraction,
    Groups,
    Natural,
    NaturalFloat,
    Positive,
    PositiveFloat,
    Size,
    Strict,
    read_params,
    validated,
)
from pacer.params.training import Batches, Calibrate, Parent, Train, Warmup

__all__ = [
    "Anchors",
    "Annotations",
    "Backbone",
    "Backbones",
    "Batches",
    "Beams",
    "Calibrate",
    "Cleaner",
    "Commit",
    "Corpus",
    "Decode",
    "Emphasis",
    "Features",
    "Fraction",
    "Groups",
    "Interface",
    "Labelling",
    "LanguageStandin",
    "Lora",
    "MimicCxr",
    "Natural",
    "NaturalFloat",
    "OpenI",
    "Params",
    "Parent",
    "Phantom",
    "Positive",
    "PositiveFloat",
    "Prompt",
    "R2Gen",
    "Refine",
    "Score",
    "Size",
    "Standin",
    "Strict",
    "SubjectShares",
    "TableOfStudies",
    "TextStandin",
    "Train",
    "Trajectory",
    "VisionStandin",
    "Warmup",
    "load_params",
    "parse_params",
    "read_params",
    "validated",
]
