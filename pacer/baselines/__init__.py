"""SimMLM and RAGPT beside PACER, through the interfaces of training and decoding.

Uses training, decoding and what lies below them.
"""
