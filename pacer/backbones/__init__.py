"""Frozen models: published ones by pointer, stand-ins trained on the spot, all in Hugging Face format."""
