"""What is computed from references and predictions, and what it means; intervals, groups, one system against another.

Uses commitments, data and what lies below them.
"""
