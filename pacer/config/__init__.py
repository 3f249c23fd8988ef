"""Typed parameters, grouped as in ``params.yaml``. DVC tracks the values, so no stage depends on
this package.

Each class describes the group of the same name; ``configs/phantom.yaml`` explains each key.
:mod:`pacer.config.outputs` has the folders that stages write. Uses core only. What many packages
need can be imported from here, the rest from its module.
"""

from pacer.config.backbones import Backbone, Features
from pacer.config.corpus import DATE_FORMS, Corpus, Labelling
from pacer.config.decode import Decode
from pacer.config.params import Params, load_params
from pacer.config.strict import Natural, Positive, Strict, read_params, validated

__all__ = [
    "DATE_FORMS",
    "Backbone",
    "Corpus",
    "Decode",
    "Features",
    "Labelling",
    "Natural",
    "Params",
    "Positive",
    "Strict",
]
__all__ += ["load_params", "read_params", "validated"]
