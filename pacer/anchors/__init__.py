"""The commitment: its type, its vocabulary, its text form and that form's inverse, its table.

Uses core and records.
"""

from pacer.anchors.anchor import Anchor

__all__ = ["Anchor"]
