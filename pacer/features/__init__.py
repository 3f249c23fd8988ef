"""Frozen image and text states, in the form that training and decoding read."""
