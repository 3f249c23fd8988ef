"""The baselines SimMLM and RAGPT, with the same interfaces of training and decoding as PACER."""
