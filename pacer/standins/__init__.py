"""Small models with the published architectures, trained locally."""
