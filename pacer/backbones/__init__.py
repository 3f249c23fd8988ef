"""Frozen models as the stage `backbones` provides them: pointers, or stand-ins that are bundled or
trained."""
