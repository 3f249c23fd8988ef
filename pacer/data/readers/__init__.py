"""Readers: one for each layout of a corpus."""
