"""Reading and cleaning the text of reports, for every room that needs it.

Uses no other room.
"""

from pacer.corpus.text.cleaning import CLEANERS, clean_report

__all__ = ["CLEANERS", "clean_report"]
