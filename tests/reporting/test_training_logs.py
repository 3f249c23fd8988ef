"""Curves come back as DVCLive wrote them and land in the panel that they belong to."""

from __future__ import annotations

from pathlib import Path

import pytest
from dvclive import Live

from pacer.core.errors import DataError
from pacer.reporting.charts import curve_chart, schedule_chart
from pacer.reporting.figures import LIGHT, for_page
from pacer.reporting.training_logs import counted, panels, read_curves


@pytest.fixture
def log(tmp_path: Path) -> Path:
    directory = tmp_path / "parent"
    with Live(str(directory), save_dvc_exp=False, dvcyaml=None) as live:
        for step in range(3):
            live.step = 10 * step
            for name, value in {
                "loss": 2.0 - step,
                "loss_tlw": 0.5,
                "rho": 0.1,
                "depth_weight/0": 0.4,
                "depth_weight/1": 0.6,
                "validation/mw": 1.0,
                "validation/sn": 2.0,
                "validation/mean": 1.5,
                "gradient_norm": 3.0,
            }.items():
                live.log_metric(name, value)
            live.make_summary()
    return directory


def test_curves_of_dvclive_are_read(log: Path):
    curves = read_curves(log)
    assert curves["loss"].steps == (0, 10, 20) and curves["loss"].values == (2.0, 1.0, 0.0)
    assert curves["depth_weight/1"].values == (0.6, 0.6, 0.6)


def test_panels_are_labelled_and_ordered(log: Path):
    found = {panel.title: [label for label, _ in panel.curves] for panel in panels(read_curves(log), depths=(4, 12))}
    assert found == {
        "Validation loss": ["mean", "SN", "MW"],
        "Loss and its parts": ["total", "tlw"],
        "Depth weights, mean over patches": ["block 4", "block 12"],
        "Gradient norm": ["gradient_norm"],
    }


def test_what_is_counted_once_is_listed_and_not_drawn(tmp_path: Path):
    with Live(str(tmp_path / "parent"), save_dvc_exp=False, dvcyaml=None) as live:
        for name, value in {"targets/reports": 4717.0, "targets/cut": 0.0, "batches/real_share": 0.9551}.items():
            live.log_metric(name, value)
    curves = read_curves(tmp_path / "parent")
    found = [(one.name, one.found) for one in counted(curves)]
    assert found == [("Training targets", "4,717"), ("Real over padded tokens of an epoch", "0.955")]
    assert panels(curves) == []


def test_depths_are_numbered_where_their_blocks_are_unknown(log: Path):
    labels = [
        label for panel in panels(read_curves(log)) if panel.title.startswith("Depth") for label, _ in panel.curves
    ]
    assert labels == ["depth 1", "depth 2"]


def test_a_malformed_curve_is_named(log: Path):
    (log / "plots" / "metrics" / "loss.tsv").write_text("step\tloss\nten\t1.0\n")
    with pytest.raises(DataError, match=r"loss\.tsv is not a DVCLive curve"):
        read_curves(log)


def test_figures_on_the_page_carry_theme_colours_and_their_own_ids(log: Path):
    panel = panels(read_curves(log))[0]
    alone, inline = curve_chart(panel), for_page(curve_chart(panel), "a")
    assert LIGHT["--series-1"] in alone and "var(--series-1)" in inline
    assert not any(colour in inline for colour in LIGHT.values())
    assert inline.startswith("<svg") and 'id="a-' in inline and "url(#a-" in inline
    assert curve_chart(panel) == alone  # the same bytes every time


def test_files_are_named_after_what_they_show(log: Path):
    names = [panel.name for panel in panels(read_curves(log))]
    assert names == ["validation", "loss", "depth_weight", "gradient_norm"]


def test_the_schedule_runs_through_all_phases(log: Path):
    """Phases of 20 updates each: their borders stand at 20 and 40, one dashed line in each of two axes."""
    curves = read_curves(log)
    alpha = {"alpha": curves["rho"]}
    both = schedule_chart({"warmup": curves, "parent": curves | alpha, "calibrate": alpha})
    assert both is not None and all(f"{phase}<" in both for phase in ("warmup", "parent", "calibrate"))
    assert "ρ, direct route" in both and "α_D, residual" in both
    one = schedule_chart({"warmup": {"rho": curves["rho"]}})
    assert one is not None and "α_D" not in one
    assert schedule_chart({"warmup": {"loss": curves["loss"]}}) is None and schedule_chart({}) is None
