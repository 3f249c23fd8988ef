"""The instruction that stands around the visual tokens.

Uses no other room.
"""
