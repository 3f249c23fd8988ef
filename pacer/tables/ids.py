"""Checks of ids that must match one to one."""

from collections import Counter
from collections.abc import Sequence

from pacer.core.errors import DataError
from pacer.tables.hygiene import LONGEST_ID
from pacer.tables.values import quoted


def check_pairs(
    expected: Sequence[str],
    given: Sequence[str],
    expected_name: str,
    given_name: str,
    *,
    missing: bool = False,
) -> None:
    """Raise a :class:`~pacer.core.errors.DataError` unless both sides hold the same ids, each once,
    in any order. With ``missing``, ``given`` may lack some ids of ``expected``."""
    problems = []
    set_of_expected = set(expected)
    set_of_given = set(given)
    for ids, name in ((expected, expected_name), (given, given_name)):
        repeated = [key for key, count in Counter(ids).items() if count > 1]
        if repeated:
            problems.append(f"repeated in {name}: {format_ids(repeated)}")
    lacking = [key for key in expected if key not in set_of_given]
    if lacking and not missing:
        problems.append(f"missing in {given_name}: {format_ids(lacking)}")
    extra = [key for key in given if key not in set_of_expected]
    if extra:
        problems.append(f"in {given_name} but not in {expected_name}: {format_ids(extra)}")
    if problems:
        raise DataError(
            f"ids of {expected_name} and {given_name} do not match; {'; '.join(problems)}"
        )


def format_ids(ids: Sequence[str], most: int = 3) -> str:
    """Return the first of ``ids`` as text, with the number of the others. Sentences are hidden,
    because they may be report text."""
    first = ", ".join(quoted(str(key), LONGEST_ID) for key in ids[:most])
    return f"{first} and {len(ids) - most} more" if len(ids) > most else first
