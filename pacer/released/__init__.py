"""Released weights of other systems, made into checkpoints of this one.

Uses model, params, pretrained and core.
"""
