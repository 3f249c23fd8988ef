"""What users call and type is what the snapshot has, so that no change of it goes unseen."""

from tests.support.public_names import SNAPSHOT, public_names


def test_public_names_and_signatures() -> None:
    """A name or option that goes breaks somebody's code: CHANGELOG.md says what to use instead."""
    assert public_names() == SNAPSHOT.read_text(encoding="utf-8"), (
        "if the change is meant: python -m tests.support.public_names"
    )
