"""Training and decoding of the adapted baselines, from directories of inputs to checkpoints and predictions."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import polars as pl
import torch
from transformers import PreTrainedTokenizerBase

from pacer.baselines import ragpt, simmlm
from pacer.baselines.adapted import ADAPTATION, AdaptedTraining, load_adapted
from pacer.baselines.bank import Retrieval
from pacer.baselines.pairs import PairedExamples, PairTable
from pacer.baselines.retrieved import RetrievedExamples, RetrievedGenerator
from pacer.config import Decode, Params
from pacer.config.baselines import RAGPT, SimMLM
from pacer.core.errors import CheckpointError
from pacer.core.io import read_json
from pacer.decoding.generate import Generator
from pacer.decoding.run import decode_records
from pacer.features.online import open_features
from pacer.model.assemble import load_tokenizer
from pacer.model.checkpoint import CheckpointRecord
from pacer.model.pacer import FeatureSource
from pacer.model.precision import recorded_dtype
from pacer.training.examples import Examples, RecordTable
from pacer.training.run import Inputs, OpenLog, run_training


class SimMLMTraining(AdaptedTraining[SimMLM]):
    """SimMLM's experts and gate: on pairs of records, with a term that ranks their losses."""

    def __init__(self, own: SimMLM, params: Params, inputs: Inputs, out: Path):
        super().__init__("simmlm", own, simmlm.SimMLM, params, inputs, out, own.batch_size // 2)
        self.loss = partial(simmlm.paired_objective, own=own)

    def examples(self, table: RecordTable, tokenizer: PreTrainedTokenizerBase, features: FeatureSource) -> Examples:
        """Examples of pairs."""
        return PairedExamples(PairTable(table.frame, self.own.pair_target), tokenizer, features, self.record.model)


class RAGPTTraining(AdaptedTraining[ragpt.TrainedRAGPT]):
    """RAGPT's generators and prompts, on the neighbours that ``bank`` has of each record."""

    def __init__(self, own: RAGPT, params: Params, inputs: Inputs, bank: Path, out: Path):
        assert inputs.start is not None
        self.retrieval = Retrieval(bank, inputs.start)
        trained = ragpt.TrainedRAGPT(**own.model_dump(), made_with=self.retrieval.manifest)
        super().__init__("ragpt", trained, ragpt.RAGPT, params, inputs, out, own.batch_size)

    def examples(self, table: RecordTable, tokenizer: PreTrainedTokenizerBase, features: FeatureSource) -> Examples:
        """Examples with neighbours."""
        return RetrievedExamples(
            table, tokenizer, features, self.record.model, retrieval=self.retrieval, places=self.own.places
        )


def train_simmlm(own: SimMLM, params: Params, inputs: Inputs, out: Path, open_log: OpenLog) -> None:
    """Train SimMLM on the frozen parent ``inputs.start`` and publish it as ``out``; a stopped run continues."""
    run_training(SimMLMTraining(own, params, inputs, out), out, open_log)


def train_ragpt(own: RAGPT, params: Params, inputs: Inputs, bank: Path, out: Path, open_log: OpenLog) -> None:
    """Train RAGPT with the ``bank`` of its parent; as :func:`train_simmlm`."""
    run_training(RAGPTTraining(own, params, inputs, bank, out), out, open_log)


def decode_simmlm(
    checkpoint: Path, backbones: Path, records: pl.DataFrame, features: Path, config: Decode, out: Path
) -> None:
    """Decode with SimMLM; as :func:`~pacer.decoding.run.decode_records`, and the manifest has the settings."""

    def generator(
        checkpoint: Path, backbones: Path, features: Path, config: Decode, device: torch.device
    ) -> tuple[Generator, CheckpointRecord]:
        dtype = recorded_dtype(checkpoint, backbones, device)
        model, record, _ = load_adapted(checkpoint, backbones, SimMLM, simmlm.SimMLM, dtype)
        store = open_features(features, backbones, device)
        return Generator(model, load_tokenizer(backbones), store, record.model, config, device), record

    about = {"baseline": read_json(checkpoint / ADAPTATION)}
    decode_records(checkpoint, backbones, records, features, config, out, generator, about)


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
        dtype = recorded_dtype(checkpoint, backbones, device)
        model, record, own = load_adapted(checkpoint, backbones, ragpt.TrainedRAGPT, ragpt.RAGPT, dtype)
        assert record.parent is not None
        retrieval = Retrieval(bank, checkpoint / record.parent.path)
        if own.made_with != retrieval.manifest:
            raise CheckpointError(f"{checkpoint} was trained with another bank than {bank}; train it again")
        store, tokenizer = open_features(features, backbones, device), load_tokenizer(backbones)
        return RetrievedGenerator(retrieval, own.places, model, tokenizer, store, record.model, config, device), record

    about = {"baseline": read_json(checkpoint / ADAPTATION)}
    decode_records(checkpoint, backbones, records, features, config, out, generator, about)
