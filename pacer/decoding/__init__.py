"""Reports from a trained model: beam search, control inputs, report extraction."""
