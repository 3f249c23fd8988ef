"""The one way a radiograph is opened.

Uses core.
"""
