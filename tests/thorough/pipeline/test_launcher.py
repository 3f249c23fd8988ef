"""An end of one of two processes that ``make test`` does not have."""

from pathlib import Path

from tests.integration.pipeline.test_dag import assert_one_line


def test_a_process_that_fails_ends_the_others_with_one_line(tmp_path: Path) -> None:
    assert_one_line("sys.exit('it failed')", "failed (exit code 1)", tmp_path)
