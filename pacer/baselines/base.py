"""The parent of the ablations: neither Refine nor Commit nor Calibrate."""

from __future__ import annotations

from pacer.params import Params


def base_params(params: Params) -> Params:
    """The same parameters with the plain endpoint of the encoder and direct reports, from a warm-up of its own."""
    values = params.model_dump()
    values["refine"]["variant"] = "endpoint"
    values["commit"]["route"] = "direct"
    values["parent"]["start"] = "warmup"
    return Params.model_validate(values)
