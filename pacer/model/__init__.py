"""The method's blocks (Refine, the interface, Calibrate), the model that they make, and its checkpoints.

Uses config, backbones and core.
"""
