"""The generated world: patients, radiographs, reports, and the labelling answers that go with them.

Uses `corpus.source`, `corpus.text` and what lies below them.
"""
