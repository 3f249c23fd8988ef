"""What a command says of an output that it cannot write to, before it reads anything."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pacer.cli.command import app
from pacer.core.errors import ConfigError
from pacer.display.terminal import output_path

#: Commands that write, without their output.
FILES = {
    "label": ["label", "r.csv", "--out"],
    "findings": ["findings", "scores", "--out"],
    "generate": ["generate", "--model", "m", "--cases", "cases.csv", "--out"],
}
FOLDERS = {
    "score": ["score", "--references", "a.csv", "--hypotheses", "b.csv", "--out"],
    "score-run": ["score-run", "--predictions", "p", "--out"],
    "compare": ["compare", "a", "b", "--out"],
    "show": ["show", "s1", "scores", "--out"],
    "audit": ["audit", "--out"],
    "decode": ["decode", "--out"],
    "export": ["export"],
    "import-llm-rg4": ["import-llm-rg4", "w.pth", "--out"],
    "certify make": ["certify", "make", "--out"],
    "certify score": ["certify", "score", "cards", "--out"],
    "probe make": ["probe", "make", "--out"],
    "probe score": ["probe", "score", "--reports", "r.csv", "--out"],
}


@pytest.fixture(autouse=True)
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe.csv")
    Path("file.csv").write_text("mine")
    Path("folder.csv").mkdir()
    Path("to_nothing.csv").symlink_to("nothing")
    Path("to_pipe.csv").symlink_to("pipe.csv")
    Path("to_file.csv").symlink_to("file.csv")
    Path("to_folder").symlink_to("folder.csv")


@pytest.mark.parametrize("command", FILES | FOLDERS)
@pytest.mark.parametrize(
    ("out", "found"),
    [
        ("pipe.csv", "a device or a pipe"),
        ("to_pipe.csv", "a device or a pipe"),
        ("to_nothing.csv", "a link to nothing, which does not exist"),
        ("file.csv/x.csv", "below .*file.csv, which is a file"),
    ],
)
def test_no_command_writes_to_a_pipe_or_below_a_file(command: str, out: str, found: str) -> None:
    arguments = (FILES | FOLDERS)[command]
    wanted = "file" if command in FILES else "folder"
    with pytest.raises(ConfigError, match=f"^{out} is {found}; choose a {wanted} for the output$"):
        CliRunner().invoke(app, [*arguments, out], catch_exceptions=False)
    assert Path("file.csv").read_text() == "mine" and Path("pipe.csv").is_fifo()


@pytest.mark.parametrize("command", FILES | FOLDERS)
def test_a_folder_is_no_file_and_a_file_no_folder(command: str) -> None:
    out, found = ("folder.csv", "a folder") if command in FILES else ("to_file.csv", "a file")
    with pytest.raises(ConfigError, match=f"^{out} is {found}; choose"):
        CliRunner().invoke(app, [*(FILES | FOLDERS)[command], out], catch_exceptions=False)


def test_what_a_link_names_is_written_and_the_link_stays(tmp_path: Path) -> None:
    assert output_path(Path("to_file.csv"), is_file=True) == tmp_path / "file.csv"
    assert output_path(Path("to_folder"), is_file=False) == tmp_path / "folder.csv"
    assert output_path(Path("new/folder"), is_file=False) == Path("new/folder")
    Path("r.csv").write_text("id,report\n1,there is edema .\n")
    arguments = ["label", "r.csv", "--out", "to_file.csv", "--force"]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert Path("to_file.csv").is_symlink() and "edema" in Path("file.csv").read_text().lower()
