"""Tables that users bring (CSV, JSON lines, Parquet), read strictly and in one way.

Uses core.
"""
