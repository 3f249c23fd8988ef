from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from pacer.core.errors import DataError
from pacer.data.findings import FINDINGS
from pacer.data.schemas import TRUTH_SCHEMA
from pacer.metrics.chexbert.observations import OBSERVATION_OF, OBSERVATIONS
from pacer.metrics.truth import Truth, findings_present, truth_f1, truth_scores


def table(**present: list[str]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "study_id": list(present),
            "subject_id": list(present),
            "split": "test",
            **{f: [f in names for names in present.values()] for f in FINDINGS},
            "lateral_only": [names[:1] for names in present.values()],
            "prior_only": [[] for _ in present],
        },
        schema=TRUTH_SCHEMA,
    )


def test_labels_become_findings_by_name():
    labels = np.zeros((2, 14), int)
    labels[0, OBSERVATIONS.index(OBSERVATION_OF["lung lesion"])] = 1
    labels[0, OBSERVATIONS.index(OBSERVATION_OF["edema"])] = 2
    labels[1, OBSERVATIONS.index(OBSERVATION_OF["enlarged mediastinum"])] = 3
    labels[1, OBSERVATIONS.index("No Finding")] = 1
    found = [[f for f, there in zip(FINDINGS, row, strict=True) if there] for row in findings_present(labels)]
    assert found == [["lung lesion"], ["enlarged mediastinum"]]


def test_truth_is_read_by_study(tmp_path):
    table(s1=["edema", "fracture"], s2=[]).write_parquet(tmp_path / "truth.parquet")
    truth = Truth(tmp_path / "truth.parquet")
    assert truth(["s2", "s1", "s1"]).sum(axis=1).tolist() == [0, 2, 2]
    assert truth.only("lateral", ["s1", "s2"]).sum() == 1
    with pytest.raises(DataError, match="study s3 and 1 more"):
        truth(["s1", "s3", "s4"])


@pytest.mark.parametrize(("context", "source"), [("mn", "lateral"), ("sw", "prior")])
def test_what_a_source_contributes(tmp_path, context, source):
    """Two studies; the source alone tells of both fractures, and the model finds one of them when it has the source."""
    latent = table(s1=["edema", "fracture"], s2=["fracture"]).with_columns(
        pl.Series(f"{source}_only", [["fracture"], ["fracture"]])
    )
    latent.write_parquet(tmp_path / "truth.parquet")
    column = {name: OBSERVATIONS.index(OBSERVATION_OF[name]) for name in ("edema", "fracture")}
    without = np.zeros((2, 14), int)
    without[0, column["edema"]] = 1
    with_it = without.copy()
    with_it[1, column["fracture"]] = 1
    scored = SimpleNamespace(
        records=pl.DataFrame({"study_id": ["s1", "s2"]}), labels=with_it, control_labels={f"no_{source}": without}
    )
    scores, _ = truth_scores({context: scored}, tmp_path / "truth.parquet")
    assert {
        name: score for name, score in scores.items() if f"{source}_" in name and not name.startswith("no_")
    } == pytest.approx(
        {
            f"{context}_with_{source}_f1": 4 / 5,
            f"{context}_without_{source}_f1": 2 / 4,
            f"{source}_only_recall": 1 / 2,
            f"{source}_only_recall_without_{source}": 0.0,
        }
    )


def test_malformed_truth_is_refused(tmp_path):
    path = tmp_path / "truth.parquet"
    with pytest.raises(DataError, match="does not exist"):
        Truth(path)
    table(s1=[]).drop("edema").write_parquet(path)
    with pytest.raises(DataError, match=r"missing columns \['edema'\]"):
        Truth(path)
    pl.concat([table(s1=[]), table(s1=["edema"])]).write_parquet(path)
    with pytest.raises(DataError, match="more than once"):
        Truth(path)


def test_undefined_without_any_finding():
    nothing = np.zeros((4, 13), bool)
    assert truth_f1(nothing, nothing) is None
    assert truth_f1(nothing, ~nothing) == 0.0
