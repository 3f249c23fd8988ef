"""``accelerate launch``, without its list of the values that were left to it: they are meant to be.

Started as ``python stages/launch.py SCRIPT [ARGUMENT...]``; a configuration of accelerate counts as it always does.
"""

import logging
import sys

from accelerate.commands.accelerate_cli import main


def _left_to_it(record: logging.LogRecord) -> bool:
    return record.getMessage().startswith("The following values were not passed to `accelerate launch`")


if __name__ == "__main__":
    logging.getLogger("accelerate.commands.launch").addFilter(lambda record: not _left_to_it(record))
    sys.argv[1:1] = ["launch", "--quiet"]
    main()
