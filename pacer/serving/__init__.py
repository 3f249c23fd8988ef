"""A trained model for its users: export, Reporter, many cases, page.

Uses reporting, decoding, phantom and what lies below them.
"""
