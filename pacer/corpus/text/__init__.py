"""Reading and cleaning the text of reports, for every package that needs it.

Uses no other package.
"""

from pacer.corpus.text.cleaning import CLEANERS, clean_report

__all__ = ["CLEANERS", "clean_report"]
