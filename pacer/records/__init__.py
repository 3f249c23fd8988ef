"""What the stage `corpus` leaves and every later stage reads: schemas, columns, the 13 findings.

Uses core.
"""
