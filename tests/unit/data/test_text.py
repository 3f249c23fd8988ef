"""The cleaners: the oddities of upstream's, one by one, and numbers that stay."""

from typing import Any, get_args

from pacer.config.corpus import Cleaner
from pacer.data import cleaning
from pacer.data.cleaning import CLEANERS, changed_number, clean_report
from tests.support.cases import cases


@cases(__file__)
def test_cleaners(kind: str, case: dict[str, Any]) -> None:
    clean = CLEANERS[kind]
    assert clean(case["raw"]) == case["cleaned"]
    if kind == "decimals":  # it changes no number, also if used twice
        assert clean(case["cleaned"]) == case["cleaned"]
        assert changed_number(case["raw"], case["cleaned"]) is None
        assert changed_number(case["raw"], clean_report(case["raw"])) == case["changed"]


def test_every_row_of_the_table_has_an_example() -> None:
    for *_, raw, cleaned in (row for name in cleaning._REPLACED for row in cleaning._TEXT[name]):
        assert CLEANERS["decimals"](raw) == f"{cleaned} ."


def test_every_cleaner_can_be_named() -> None:
    assert set(CLEANERS) == set(get_args(Cleaner))
