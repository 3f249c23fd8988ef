"""From raw files to records: readers, cleaning, audit.

Uses packages up to `corpus.source` and `corpus.text`, params and radiographs.
"""
