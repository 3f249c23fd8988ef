"""Corpora: the phantom world, the reader of MIMIC-RG4's layout, report cleaning and the audit."""
