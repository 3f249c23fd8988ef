"""Reports that other systems wrote: their files, their protocols, their scores.

Uses metrics and rules.
"""
