"""The reports with the worst findings."""

import polars as pl

from pacer.reporting.findings import worst_reports


def test_the_worst_reports_come_first() -> None:
    verdicts = {
        "a": ["partly", "correct"],
        "b": ["partly", "partly"],
        "c": ["missed"],
        "d": ["opposite"],
        "e": ["correct"],
    }
    rows = pl.DataFrame(
        [("one", record, "sn", verdict) for record, many in verdicts.items() for verdict in many],
        schema=["system", "record_id", "context", "verdict"],
        orient="row",
    )
    assert worst_reports(rows, 9)["record_id"].to_list() == ["d", "c", "b", "a"]
    # findings on the wrong side are partly right: these alone can be ranked as well
    assert worst_reports(rows.filter(verdict="partly"), 1)["record_id"].to_list() == ["b"]
