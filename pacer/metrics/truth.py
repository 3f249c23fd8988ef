"""Scores against the latent truth of a generated corpus; real corpora have none.

A finding counts as present in a report if CheXbert labels it positive or uncertain. Micro-F1 is computed over records
and the 13 findings. Compare each of these numbers with that of the same model given another patient's images.
"""

from pathlib import Path

import numpy as np
import polars as pl

from pacer.core.errors import DataError
from pacer.data.findings import FINDINGS
from pacer.data.schemas import TRUTH_SCHEMA, read_table
from pacer.metrics.attributes import KINDS, attribute_share, true_attribute_counts
from pacer.metrics.cases import by_context, labels_of
from pacer.metrics.chexbert.observations import OBSERVATION_OF, OBSERVATIONS, POSITIVE, UNCERTAIN
from pacer.metrics.clinical import plain_mean, ratios
from pacer.metrics.predictions import named


def with_truth(cases: pl.DataFrame, path: str | Path) -> pl.DataFrame:
    """Add the latent findings of each case's study, ``truth``, and their ``states``.

    Raises:
        DataError: as :func:`~pacer.data.schemas.read_table`; or a study is missing.
    """
    table = read_table(path, TRUTH_SCHEMA)
    if missing := cases.join(table, on="study_id", how="anti")["study_id"].to_list():
        raise DataError(f"{path} does not contain study {named(missing, 1)}")
    stated = pl.concat_list(pl.when(pl.col(finding)).then(pl.lit(finding)) for finding in FINDINGS).list.drop_nulls()
    latent = table.select("study_id", stated.alias("truth"), "states")
    return cases.join(latent, on="study_id", how="left", maintain_order="left")


def truth_scores(cases: pl.DataFrame) -> dict[str, float | None]:
    """Return all scores against the latent truth, for labelled cases from :func:`with_truth`: ``{context}_f1`` and
    their ``mean_f1``; the mean ``{control}_f1`` of each control that covers all contexts. ``attributes_side``
    and so on: share that is true of the attributes that reports name of present findings."""
    contexts = by_context(cases)
    scores = {f"{name}_f1": _f1(part, "hypothesis") for name, part in contexts.items()}
    scores["mean_f1"] = plain_mean(list(scores.values()))
    attributes = true_attribute_counts(cases)
    for kind in KINDS:
        value = float(attribute_share(attributes, kind))
        scores[f"attributes_{kind}"] = None if np.isnan(value) else value
    labelled = {column.removesuffix("_labels") for column in cases.columns if column.endswith("_labels")}
    for control in sorted(labelled - {"hypothesis", "reference"}):
        if not cases[f"{control}_labels"].null_count():
            scores[f"{control}_f1"] = plain_mean([_f1(part, control) for part in contexts.values()])
    return scores


def _f1(cases: pl.DataFrame, reports: str) -> float | None:
    """Return micro-F1 over records x findings: labels of some reports against the latent findings."""
    latent = cases.select(pl.col("truth").list.contains(finding).alias(finding) for finding in FINDINGS).to_numpy()
    columns = [OBSERVATIONS.index(OBSERVATION_OF[finding]) for finding in FINDINGS]
    return ratios(latent, np.isin(labels_of(cases, reports)[:, columns], (POSITIVE, UNCERTAIN)))["f1"]
