"""What is computed from references and predictions, and what it means.

Uses `metrics.chexbert`, rules, `corpus.text` and what lies below them.
"""
