"""Tables, figures and the report page, including the published numbers.

Uses comparison, metrics and the layers below them.
"""
