"""The baselines SimMLM and RAGPT, with the same interfaces for training and decoding as PACER."""
