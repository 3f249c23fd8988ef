"""A floor for reports that needs no training: the report of the training record with the most similar radiograph."""

from __future__ import annotations

import polars as pl
import torch
from torch import Tensor
from torch.nn import functional as F

from pacer.core.errors import DataError
from pacer.core.prefetch import prefetch
from pacer.model.batch import FeatureSource

#: The control of ``decode.controls`` that has these reports.
NEAREST = "nearest_report"
#: Training records of a context that are searched, evenly spaced by id: each costs reading the states of an image.
MOST = 2_000


def nearest_reports(train: pl.DataFrame, asked: pl.DataFrame, features: FeatureSource) -> dict[str, str]:
    """Return a report for each record id of ``asked``: that of another patient's record of ``train``, in its context,
    with the nearest frontal radiograph, by the cosine of the encoder's mean patch at the last depth; ties by id.

    Raises:
        DataError: a context has no training record.
    """

    def direction(image: str) -> Tensor:
        return F.normalize(features.depth_states([image])[0, -1].float().mean(0), dim=-1)

    def directions(records: pl.DataFrame) -> Tensor:
        return torch.stack(list(prefetch(direction, records["frontal"], workers=2)))

    reports: dict[str, str] = {}
    for (context,), part in asked.group_by("context", maintain_order=True):
        known = train.filter(context=context).sort("record_id")
        if known.is_empty():
            raise DataError(f"context {context} has no training record; leave {NEAREST} out of decode.controls")
        known = known.gather_every(-(-len(known) // MOST))
        owners, patients = known["subject_id"].to_numpy(), part["subject_id"].to_numpy()
        same_patient = torch.from_numpy(patients[:, None] == owners)
        likeness = (directions(part) @ directions(known).T).masked_fill(same_patient, -2.0)
        reports |= dict(zip(part["record_id"], known["report"][likeness.argmax(1).tolist()], strict=True))
    return reports
