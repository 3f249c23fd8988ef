"""The instruction around the visual tokens.

Uses no other package.
"""
