"""Tables, figures and the page, with the published numbers.

Uses comparison, metrics and what lies below them.
"""
