"""Training and decoding of the adapted baselines, from directories of inputs to checkpoints and predictions."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import torch
from accelerate import Accelerator

from pacer.baselines import ragpt, simmlm
from pacer.baselines.adapted import ADAPTATION, Adapt, AdaptedRecord, adapted_record, load_adapted, load_parent
from pacer.baselines.bank import Retrieval
from pacer.baselines.pairs import PARTS, PairedExamples, PairTable
from pacer.baselines.retrieved import RetrievedExamples, RetrievedGenerator
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import CheckpointError
from pacer.core.io import read_json
from pacer.decoding.generate import Generator
from pacer.decoding.run import decode_records, inference_dtype
from pacer.features.online import open_features
from pacer.model.assemble import load_tokenizer
from pacer.model.checkpoint import CheckpointRecord
from pacer.model.pacer import Pacer
from pacer.model.specification import ModelSpecification
from pacer.params import Decode, Params
from pacer.params.baselines import RAGPT, Adaptation, SimMLM, adaptation_params
from pacer.training.examples import Examples
from pacer.training.phases import Phase
from pacer.training.run import OpenLog, carry_out


def phase_of(name: str, own: Adaptation, parent: ModelSpecification, batch_size: int) -> Phase:
    """The training of a baseline: the added modules on all contexts, with the parent's objective.

    Args:
        parent: decides over the routes. batch_size: examples of a micro-batch.
    """
    rho = {"direct": 1.0, "always": 0.0}.get(parent.commit.route if parent.commit else "", own.rho)
    return Phase(
        name,
        "parent",
        CONTEXTS,
        False,
        False,
        ("added.",),
        own.learning_rate,
        batch_size,
        own.accumulation,
        own.updates,
        own.warmup_updates,
        own.lambda_q,
        lambda update: rho,
    )


def train_simmlm(
    own: SimMLM,
    params: Params,
    *,
    corpus: Path,
    backbones: Path,
    features: Path,
    anchors: Path,
    parent: Path,
    out: Path,
    open_log: OpenLog,
) -> None:
    """Train SimMLM's experts and gate on the frozen ``parent`` and publish them as ``out``; a stopped run continues.

    Args:
        params: the pipeline's; what the parent's checkpoint records and what ``own`` sets goes before it.
    """
    record = adapted_record("simmlm", own, parent, out)
    pairs, parts = own.batch_size // 2, PARTS[own.pair_target]

    def examples(table: Any, *rest: Any) -> Examples:
        return PairedExamples(PairTable(table.blocks, own.pair_target), *rest)

    _train(
        "simmlm",
        own,
        params,
        record,
        simmlm.adapt,
        pairs,
        corpus=corpus,
        backbones=backbones,
        features=features,
        anchors=anchors,
        start=parent,
        out=out,
        open_log=open_log,
        make_examples=examples,
        loss=partial(simmlm.paired_objective, alpha=own.alpha, pairs=pairs, parts=parts),
    )


def train_ragpt(
    own: RAGPT,
    params: Params,
    *,
    corpus: Path,
    backbones: Path,
    features: Path,
    anchors: Path,
    parent: Path,
    bank: Path,
    out: Path,
    open_log: OpenLog,
) -> None:
    """Train RAGPT's modules on the frozen ``parent`` with its ``bank``; as :func:`train_simmlm`."""
    retrieval = Retrieval(bank, parent)
    trained = ragpt.TrainedRAGPT(**own.model_dump(), made_with=retrieval.manifest)
    record = adapted_record("ragpt", trained, parent, out)

    def examples(*rest: Any) -> Examples:
        return RetrievedExamples(*rest, retrieval=retrieval, places=3 * own.prompt_tokens)

    _train(
        "ragpt",
        own,
        params,
        record,
        ragpt.adapt,
        own.batch_size,
        corpus=corpus,
        backbones=backbones,
        features=features,
        anchors=anchors,
        start=parent,
        out=out,
        open_log=open_log,
        make_examples=examples,
    )


def _train(
    name: str,
    own: Adaptation,
    params: Params,
    record: AdaptedRecord,
    adapt: Adapt,
    batch_size: int,
    *,
    backbones: Path,
    start: Path,
    **more: Any,
) -> None:
    phase = phase_of(name, own, record.model, batch_size)

    def build(accelerator: Accelerator) -> Pacer:
        torch.manual_seed(own.seed)
        half = accelerator.mixed_precision == "bf16"
        model, _ = load_parent(start, backbones, torch.bfloat16 if half else torch.float32)
        return adapt(model, record.adaptation).to(accelerator.device)

    carry_out(
        phase,
        adaptation_params(params, own, record.model.written()),
        record,
        build,
        backbones=backbones,
        start=start,
        **more,
    )


def decode_simmlm(
    checkpoint: Path, backbones: Path, records: pl.DataFrame, features: Path, config: Decode, out: Path
) -> None:
    """Decode with SimMLM; as :func:`~pacer.decoding.run.decode_records`, and the manifest has the settings."""

    def generator(
        checkpoint: Path, backbones: Path, features: Path, config: Decode, device: torch.device
    ) -> tuple[Generator, CheckpointRecord]:
        model, record, _ = load_adapted(checkpoint, backbones, SimMLM, simmlm.adapt, inference_dtype(device))
        return Generator(
            model, load_tokenizer(backbones), open_features(features, backbones, device), record.model, config, device
        ), record

    decode_records(checkpoint, backbones, records, features, config, out, generator, _about(checkpoint))


def decode_ragpt(
    bank: Path, checkpoint: Path, backbones: Path, records: pl.DataFrame, features: Path, config: Decode, out: Path
) -> None:
    """Decode with RAGPT; as :func:`decode_simmlm`.

    Raises:
        CheckpointError: it was trained with another bank.
    """

    def generator(
        checkpoint: Path, backbones: Path, features: Path, config: Decode, device: torch.device
    ) -> tuple[Generator, CheckpointRecord]:
        model, record, own = load_adapted(
            checkpoint, backbones, ragpt.TrainedRAGPT, ragpt.adapt, inference_dtype(device)
        )
        assert record.parent is not None
        retrieval = Retrieval(bank, checkpoint / record.parent.path)
        if own.made_with != retrieval.manifest:
            raise CheckpointError(f"{checkpoint} was trained with another bank than {bank}; train it again")
        return RetrievedGenerator(
            retrieval,
            3 * own.prompt_tokens,
            model,
            load_tokenizer(backbones),
            open_features(features, backbones, device),
            record.model,
            config,
            device,
        ), record

    decode_records(checkpoint, backbones, records, features, config, out, generator, _about(checkpoint))


def _about(checkpoint: Path) -> dict[str, Any]:
    """A baseline's settings, for the manifest of its predictions."""
    return {"baseline": read_json(checkpoint / ADAPTATION)}
