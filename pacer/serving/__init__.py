"""A trained model for its users: export, Reporter, command line, page.

Uses reporting, decoding, phantom and what lies below them.
"""
