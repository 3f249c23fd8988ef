"""The method's blocks (Refine, the interface, Calibrate), the model built from them, and its
checkpoints."""
