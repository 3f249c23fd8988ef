"""What a model is built and decoded with: training writes it into the checkpoint, everything later reads it there."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from pacer.config import Params, Positive, Strict
from pacer.config.model import Commit, Interface, Lora, Prompt, Refine, Trajectory
from pacer.config.strict import Fraction, Size


class TappedDepths(Strict):
    """Encoder blocks whose states the model reads; 1 is the first."""

    depths: Annotated[list[Positive], Field(min_length=1)]


class Calibrator(Strict):
    """Arguments of :class:`~pacer.model.calibrate.PrefixCalibrator`; with ``none`` there is no calibrator."""

    gate_inputs: Literal["none", "h", "he", "hz", "hze"]
    rank: Size
    d_availability: Size | None
    d_gate: Size | None
    dropout: Fraction
    gate_bias: float


class ModelSpecification(Strict):
    """The groups of ``params.yaml`` that a model consists of.

    ``lora``, ``prompt`` and ``commit`` are None in the warm-up, ``calibrate`` in the warm-up and the parent;
    ``quantization`` (of the frozen language model, which the trained weights belong to) where there is none.
    """

    features: TappedDepths
    refine: Refine
    interface: Interface
    trajectory: Trajectory
    lora: Lora | None = None
    prompt: Prompt | None = None
    commit: Commit | None = None
    calibrate: Calibrator | None = None
    quantization: Literal["nf4"] | None = None

    @property
    def commits(self) -> bool:
        """Whether reports are decoded commitment first."""
        return self.commit is not None and self.commit.route != "direct"

    def written(self) -> dict[str, Any]:
        """The form on disk, which leaves out groups that are None."""
        return {name: group for name, group in self.model_dump().items() if group is not None}


def specification_of(phase: str, params: Params) -> ModelSpecification:
    """The model of phase ``warmup``, ``parent`` or ``calibrate``."""
    instructed = phase != "warmup"
    calibrated = phase == "calibrate" and params.calibrate.trains == "calibrator"
    return ModelSpecification(
        features=TappedDepths(depths=params.features.depths),
        refine=params.refine,
        interface=params.interface,
        trajectory=params.trajectory,
        lora=params.lora if instructed else None,
        prompt=params.prompt if instructed else None,
        commit=params.commit if instructed else None,
        calibrate=Calibrator(**params.calibrate.model_dump(include=set(Calibrator.model_fields)))
        if calibrated
        else None,
        quantization=None if params.train.quantization == "none" else params.train.quantization,
    )
