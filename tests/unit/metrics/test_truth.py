import numpy as np
import polars as pl
import pytest

from pacer.backbones.observations import OBSERVATION_OF, OBSERVATIONS
from pacer.core.errors import DataError
from pacer.data.findings import FINDINGS
from pacer.data.schemas import TRUTH_SCHEMA
from pacer.metrics.score import truth_scores, with_truth


def table(**present: list[str]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "study_id": list(present),
            "subject_id": list(present),
            "split": "test",
            **{f: [f in names for names in present.values()] for f in FINDINGS},
            "lateral_only": [[] for _ in present],
            "prior_only": [names[:1] for names in present.values()],
            **{key: [[] for _ in present] for key in ("states", "boxes")},
        },
        schema=TRUTH_SCHEMA,
    )


def test_truth_is_read_by_study(tmp_path):
    path = tmp_path / "truth.parquet"
    table(s1=["edema", "fracture"], s2=[]).write_parquet(path)
    found = with_truth(pl.DataFrame({"study_id": ["s2", "s1", "s1"]}), path)
    assert found["truth"].to_list() == [[], ["edema", "fracture"], ["edema", "fracture"]]
    with pytest.raises(DataError, match="study s3 and 1 more"):
        with_truth(pl.DataFrame({"study_id": ["s1", "s3", "s4"]}), path)


def test_scores_of_reports_and_of_controls(tmp_path):
    """Two studies with a fracture each, one with edema besides: the model finds two of three, without a source one."""
    edema = {"finding": "edema", "side": "bilateral", "severity": "mild", "course": "new"}
    latent = table(s1=["edema", "fracture"], s2=["fracture"]).with_columns(
        pl.Series("states", [[edema], []], TRUTH_SCHEMA["states"])
    )
    latent.write_parquet(tmp_path / "truth.parquet")
    column = {name: OBSERVATIONS.index(OBSERVATION_OF[name]) for name in ("edema", "fracture")}
    without = np.zeros((2, 14), int)
    without[0, column["edema"]] = 1
    with_it = without.copy()
    with_it[1, column["fracture"]] = 3  # uncertain counts, and no finding is none
    with_it[1, OBSERVATIONS.index("No Finding")] = 1
    labels = {"hypothesis": with_it, "reference": with_it, "no_prior": without}
    texts = {"hypothesis": ["mild left edema , new .", "no fracture ."]}
    cases = pl.DataFrame({"study_id": ["s1", "s2"], "context": "sw"} | texts).with_columns(
        pl.Series(f"{name}_labels", rows.tolist()) for name, rows in labels.items()
    )
    scores = truth_scores(with_truth(cases, tmp_path / "truth.parquet"))
    assert scores == pytest.approx(
        {
            "sw_f1": 4 / 5,
            "mean_f1": 4 / 5,
            "no_prior_f1": 2 / 4,
            "attributes_side": 0.0,
            "attributes_severity": 1.0,
            "attributes_course": 1.0,
        }
    )
