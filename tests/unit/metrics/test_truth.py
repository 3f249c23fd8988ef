"""Reports held against the latent truth of a generated corpus."""

import numpy as np
import polars as pl
import pytest

from pacer.backbones.observations import OBSERVATION_OF, OBSERVATIONS
from pacer.core.errors import DataError
from pacer.core.findings import FINDINGS
from pacer.core.schemas import TRUTH_SCHEMA
from pacer.metrics.score import truth_scores
from pacer.metrics.table import truth_columns


def true_findings(**present: list[str]) -> pl.DataFrame:
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
    true_findings(s1=["edema", "fracture"], s2=[]).write_parquet(path)
    [found] = truth_columns(pl.Series(["s2", "s1", "s1"]), path)
    assert found.to_list() == [[], ["edema", "fracture"], ["edema", "fracture"]]
    with pytest.raises(DataError, match="study s3 and 1 more"):
        truth_columns(pl.Series(["s1", "s3", "s4"]), path)
    assert truth_columns(pl.Series(["s1"]), None) == []


def test_f1_of_reports_against_the_truth(tmp_path):
    """Two studies with a fracture each, one with edema besides: the model finds two of three."""
    true_findings(s1=["edema", "fracture"], s2=["fracture"]).write_parquet(
        tmp_path / "truth.parquet"
    )
    column = {name: OBSERVATIONS.index(OBSERVATION_OF[name]) for name in ("edema", "fracture")}
    labels = np.zeros((2, 14), int)
    labels[0, column["edema"]] = 1
    labels[1, column["fracture"]] = 3  # uncertain counts, and no finding is none
    labels[1, OBSERVATIONS.index("No Finding")] = 1
    cases = pl.DataFrame({"study_id": ["s1", "s2"], "context": "sw"}).with_columns(
        hypothesis_labels=pl.Series(labels.tolist())
    )
    cases = cases.with_columns(truth_columns(cases["study_id"], tmp_path / "truth.parquet"))
    assert truth_scores(cases) == pytest.approx({"sw_f1": 4 / 5, "mean_f1": 4 / 5})
