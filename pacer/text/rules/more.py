"""Tables of findings beyond the 13: a user's, or the package's ``more_findings.tsv``."""

import re
from collections.abc import Iterator
from pathlib import Path

from pacer.core.anchor import normalize_finding
from pacer.core.errors import DataError
from pacer.core.findings import FINDINGS
from pacer.text.rules import Lexicon, read_more
from pacer.text.rules.tables import wordings

#: Stands for the package's table instead of a path.
BUILTIN = "builtin"
_GAP = re.compile(r"~(?!\d\b)")


def with_more_findings(table: str | Path) -> Lexicon:
    """Return the tables of the rules with a further one, in the form of ``names.tsv``; ``builtin``
    stands for the package's. Raises a DataError that names the first line with other columns, a
    name of the 13, or an example that is read differently."""
    path = path_of(table)
    rows = list(_rows(path))
    if not rows:
        raise DataError(f"{path} has no rows; expected a phrase and the name of a finding in each")
    lexicon = Lexicon(path)
    for (number, example), row in zip(rows, lexicon.names[-len(rows) :], strict=True):
        for finding in row.findings:
            if known := normalize_finding(finding):
                raise DataError(
                    f"{path}, line {number}: {known} is one of the 13 findings, which are always "
                    "read; choose another name"
                )
        read = read_more(example, lexicon)
        expected = dict.fromkeys(row.findings, row.base)
        if not expected.items() <= read.items() or (read and not expected):
            raise DataError(
                f"{path}, line {number}: expected an example that states {_shown(expected)}, but "
                f"{example!r} states {_shown(read)}"
            )
    return lexicon


def path_of(table: str | Path) -> Path:
    """Return the file of a table; ``builtin`` stands for the package's."""
    return Path(__file__).with_name("more_findings.tsv") if table == BUILTIN else Path(table)


def further_names(lexicon: Lexicon) -> list[str]:
    """Return the names of the findings beyond the 13, in the order of their table."""
    names = dict.fromkeys(finding for row in lexicon.names for finding in row.findings)
    return [name for name in names if name not in FINDINGS]


def _shown(states: dict[str, str]) -> str:
    return ", ".join(f"{state} {name}" for name, state in states.items()) or "no further finding"


def _rows(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and the example of each row. Raises a DataError if a row is malformed."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8; save the file as UTF-8") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        cells = line.split("\t")
        if fault := _fault(cells):
            raise DataError(
                f"{path}, line {number}: {fault}; a row has a phrase, the name of its finding, an "
                "empty column and an example, with tabs between them"
            )
        yield number, cells[3]


def _fault(cells: list[str]) -> str | None:
    """Return what is wrong with the columns of a row."""
    if len(cells) != 4:
        return f"{len(cells)} column{'s' * (len(cells) != 1)}"
    phrase, meaning, reach, example = cells
    if not (phrase and meaning and example) or cells != [cell.strip() for cell in cells]:
        return "a phrase, name or example is empty or has blanks around it"
    if reach:
        return "the third column is not empty"
    if ":" in meaning:
        return f"the name {meaning!r} has a colon"
    if phrase != phrase.lower() or _GAP.search(phrase):
        return f"{phrase!r} is not in lower case, or has a gap without a number"
    try:
        wordings(phrase)
    except DataError as error:
        return str(error)
    return None
