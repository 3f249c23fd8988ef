"""Messages of the library: shown by the command line and the stages, else left to the user's own
logging."""

import logging

import pytest

from pacer.core.messages import printed_messages


def test_messages_are_printed_once_and_only_inside_the_block(
    capsys: pytest.CaptureFixture[str],
) -> None:
    training = logging.getLogger("pacer.training.run")
    labelling = logging.getLogger("pacer.labels.labelling")
    training.info("before")
    with printed_messages(), printed_messages():
        training.info("12 records, 100% of them")
        labelling.info("3 requests")
    training.info("after")
    printed = capsys.readouterr()
    assert printed.out == "12 records, 100% of them\n"
    assert printed.err == "3 requests\n"
