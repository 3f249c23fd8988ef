"""From the text of a report to a commitment.

Uses anchors and what lies below it.
"""

from pacer.commitments.rules.extract import extract_anchor

__all__ = ["extract_anchor"]
