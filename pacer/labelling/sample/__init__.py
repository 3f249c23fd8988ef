"""The stratified train records that the labelling model is asked for.

Uses core.
"""
