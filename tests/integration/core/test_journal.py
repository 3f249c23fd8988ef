"""A journal on a full disk."""

import subprocess
import sys
from pathlib import Path

from pacer.core.journal import read_journal


def test_a_full_disk_leaves_whole_lines(tmp_path: Path) -> None:
    """The limit on file sizes stands in for the disk; in a process of its own, for it cannot be lifted again."""
    code = f"""
import os, resource, signal
from pacer.core.errors import PacerError
from pacer.core.journal import Journal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = Journal({str(tmp_path / "rows.jsonl")!r})
journal.append({{"row": 0}})
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    journal.append({{"row": "x" * 300}})
except PacerError as error:
    print(error, flush=True)
os._exit(0)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "rows.jsonl cannot be written (" in shown
    assert [row["row"] for _, row in read_journal(tmp_path / "rows.jsonl")] == [0]
