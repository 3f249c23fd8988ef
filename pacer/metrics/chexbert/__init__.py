"""CheXbert: the labeller, and the labels of the references.

Uses pretrained, records and core.
"""

from pacer.metrics.chexbert.labeller import CheXbert

__all__ = ["CheXbert"]
