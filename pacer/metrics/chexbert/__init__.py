"""CheXbert: the labeller, and the labels of the references."""
