"""Targets of commitments: labelling of a sample by a language model, and the rules elsewhere."""
