"""CheXbert: the labeller, and the labels of the references.

Uses backbones.pointers and core.
"""
