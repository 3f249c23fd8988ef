"""Small models with the published architectures, trained on the spot."""
