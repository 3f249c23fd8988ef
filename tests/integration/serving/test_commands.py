"""``pacer export`` and ``pacer generate`` as a user meets them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

from pacer.cli import main
from pacer.cli.serving import show_summary
from pacer.cli.reports import show_summary
    assert [word for word in header.split() if word.isupper()] == ["SN", "SW", "MN", "MW"]
    rows = {line.split()[0] for line in shown.out.splitlines() if line.strip()}
    assert rows >= {"sources", "gate", "commitment", "report", "tokens"}
    assert re.findall("SN|SW|MN|MW", header) == ["SN", "SW", "MN", "MW"]
    assert "\x1b[32m" not in generate(*arguments_of(world, "sn-50000003"), "--all-contexts").out
