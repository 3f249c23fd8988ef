"""Frozen models as the stage `backbones` provides them: pointers, or copies of stand-ins that are
bundled or trained here."""
