"""Progress where there is no terminal: plain lines, the last of them with the count and the rate."""

import pytest

from pacer.core import progress
from pacer.core.progress import Ticker


def test_a_log_file_has_a_line_from_time_to_time_and_one_at_the_end(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LOG_INTERVAL", 0.0)
    with Ticker("images", 4, done=2) as ticker:
        ticker.advance(note="loss 1.2")
        ticker.advance()
    start, first, second, last = capsys.readouterr().err.splitlines()
    assert start.startswith("images:  50% 2/4 [")
    assert first.startswith("images:  75% 3/4 [") and first.endswith("loss 1.2]")
    assert second.startswith("images: 100% 4/4 [") and last.startswith("images: 100% 4/4 [")
