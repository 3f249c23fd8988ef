"""Readers, one for each corpus format."""
