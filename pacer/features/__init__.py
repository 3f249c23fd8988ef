"""Frozen image and text states as training and decoding read them.

Uses radiographs, records, pretrained and core.
"""
