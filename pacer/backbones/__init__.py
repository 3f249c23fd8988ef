"""Frozen models as the stage `backbones` makes them: by pointer, or trained stand-ins.

Uses phantom, rules and what lies below them.
"""
