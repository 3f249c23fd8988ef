"""Stage `score`, and `*_score` of a named baseline: scores of the decoded records against their
references."""

import sys
from dataclasses import replace
from pathlib import Path

from pacer.config import load_params
from pacer.core.errors import PacerError
from pacer.core.io import write_json
from pacer.metrics.options import Scoring
from pacer.metrics.predictions import read_run
from pacer.metrics.runs import parameters_of, record_run
from pacer.metrics.score import score_cases
from pacer.metrics.scores import main_scores


def main() -> None:
    name = sys.argv[1] if sys.argv[1:] else ""
    home = Path("baselines") if name else Path()
    params = load_params()
    settings = params.score
    if name:  # score.columns has numbers of the pipeline's own reports
        settings = settings.model_copy(update={"columns": None})
    records = Path("data/corpus/records.parquet")
    truth = Path("data/corpus/truth.parquet")
    options = Scoring(
        chexbert=Path("models/backbones/chexbert"),
        labels=Path("data/labels/references.parquet"),
        truth=truth if truth.exists() else None,
        settings=settings,
    )
    anchors = Path("data/anchors/anchors.parquet")
    cases, origin = read_run(records, home / "predictions" / name, anchors)
    if not name:
        origin = replace(origin, parameters=parameters_of(params))
    result = score_cases(cases, options, origin)
    result.write(home / "metrics" / name)
    if not name:
        write_json("metrics/table.json", main_scores(result.scores))
        record_run(Path("metrics"))
    # an error, because an output of the pipeline must not depend on how busy the machine is
    if result.signature.left_out:
        reasons = "; ".join(f"{key}: {reason}" for key, reason in result.signature.left_out.items())
        raise PacerError(f"scores not computed: {reasons}; the others were written")
