"""What the commands print of texts that others wrote."""

from __future__ import annotations

import pytest

from pacer.cli.terminal import print_rows, say
from pacer.core.errors import DataError, run_cleanly


def test_no_text_of_a_file_moves_the_cursor(capsys: pytest.CaptureFixture) -> None:
    hostile = "a\x1b[2J\x1b]0;title\x07\u202eb"
    say(hostile)
    print_rows([[hostile, "c"]], ("case", "\x1b[31m"))

    def fail() -> None:
        raise DataError(f"{hostile}: no")

    with pytest.raises(SystemExit):
        run_cleanly(fail)
    told = capsys.readouterr()
    for text in (told.out, told.err):
        assert not set("\x1b\x07\u202e") & set(text) and "a\\u001b[2J" in text
