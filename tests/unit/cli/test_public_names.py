"""What users call and type is what the snapshot has, so that no change of it goes unseen."""

from typer.testing import CliRunner

from pacer.cli.command import app
from tests.support.public_names import SNAPSHOT, public_names


def test_public_names_and_signatures() -> None:
    """A name or option that goes breaks somebody's code: CHANGELOG.md says what to use instead."""
    assert public_names() == SNAPSHOT.read_text(encoding="utf-8"), (
        "if the change is meant: python -m tests.support.public_names"
    )


def test_the_help_of_every_command_fits_a_screen() -> None:
    for line in public_names().splitlines():
        if line.startswith("pacer "):
            names = [word for word in line.split()[1:] if word.islower()]
            done = CliRunner().invoke(app, [*names, "--help"], env={"COLUMNS": "100"})
            lines = done.output.splitlines()
            assert done.exit_code == 0 and len(lines) <= 40 and max(map(len, lines)) <= 100, names
