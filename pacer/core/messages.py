"""Messages of the library: modules log them, and the command line and the stages print them."""

import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager

#: Modules whose messages are printed on stderr; those of all others are printed on stdout.
_ON_STDERR = (
    "pacer.standins.make",
    "pacer.labels.endpoint",
    "pacer.labels.labelling",
    "pacer.backbones.chexbert",
    "pacer.core.io",
)


class _Printer(logging.Handler):
    """Prints each message as a plain line."""

    def emit(self, record: logging.LogRecord) -> None:
        stream = sys.stderr if record.name in _ON_STDERR else sys.stdout
        print(self.format(record), file=stream, flush=True)


@contextmanager
def printed_messages() -> Generator[None]:
    """Print what the library logs, from level INFO on, until the block ends. Entry points use
    this; blocks may be nested."""
    logger = logging.getLogger("pacer")
    if any(isinstance(handler, _Printer) for handler in logger.handlers):
        yield
        return
    printer = _Printer()
    level = logger.level
    logger.addHandler(printer)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(printer)
        logger.setLevel(level)
