"""The command line as a user meets it."""

from tests.support.cli import pacer, repository

__all__ = ["pacer", "repository"]
