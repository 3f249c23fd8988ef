"""Folders with and without names on the command line."""

from pathlib import Path

import pytest

from pacer.display.terminal import named_paths


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (["lr=0.1", "lr=0.2"], {"lr=0.1": "lr=0.1", "lr=0.2": "lr=0.2"}),
        (["base=lr=0.1", "lr=0.2"], {"base": "lr=0.1", "lr=0.2": "lr=0.2"}),
        (["T0.7=t=0.7.csv"], {"T0.7": "t=0.7.csv"}),
        (["t=0.7.csv"], {"t=0.7": "t=0.7.csv"}),
        (["lr=0.3=new"], {"lr=0.3": "new"}),
        (["a=lr=9"], {"a": "lr=9"}),  # does not exist
        (["absent"], {"absent": "absent"}),
    ],
)
def test_a_path_may_contain_an_equals_sign(
    entries: list[str], expected: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("lr=0.1", "lr=0.2", "0.1", "new"):
        Path(folder).mkdir()
    Path("t=0.7.csv").touch()
    assert {name: str(path) for name, path in named_paths(entries).items()} == expected
