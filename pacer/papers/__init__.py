"""What a paper shows beside its tables and has to state: one study by two systems, and the standards' checklists.

Uses reporting and what lies below it.
"""
