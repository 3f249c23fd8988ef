"""Frozen models as the stage `backbones` makes them: by pointer, or stand-ins, bundled or trained."""
