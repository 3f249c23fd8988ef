"""The polars code of docs/data.md and docs/experiments.md runs on odd but valid input, here with
the installed polars."""

from pathlib import Path

import pytest

pytest.importorskip("PIL", reason="needs the extra `corpus`")

from tests.support.page_code import CASES, PageCase, page_code, run_case

CODE = page_code()


def test_each_code_of_the_pages_has_cases() -> None:
    assert CODE.keys() == CASES.keys()


@pytest.mark.parametrize(
    ("name", "case"),
    [pytest.param(name, case, id=name) for name, cases in CASES.items() for case in cases],
)
def test_the_code_of_a_page_runs(
    name: str, case: PageCase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_case(case, CODE[name])


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("recipe 5", "(.*)$", "(.*)\\n"),
        ("recipe 7", "np.nan_to_num(", "np.copy("),
        ("ReXGradient-160K", "continue", "pass"),
    ],
)
def test_code_that_loses_rows_is_found(
    name: str, right: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = CODE[name].replace(right, wrong)
    assert code != CODE[name]
    if wrong == "np.copy(":
        code = code.replace(", nan=-1)", ")")
    with pytest.raises(AssertionError):
        run_case(CASES[name][0], code)
