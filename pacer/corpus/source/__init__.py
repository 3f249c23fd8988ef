"""Where a raw corpus lies, and its annotation files a record at a time.

Uses core, params and records.
"""
