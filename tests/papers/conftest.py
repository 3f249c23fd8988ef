"""The made-up run of the tests of the page."""

from tests.reporting.conftest import full_run

__all__ = ["full_run"]
