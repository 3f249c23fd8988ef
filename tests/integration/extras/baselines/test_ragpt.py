"""RAGPT's bank, generator and prompts against their formulas, and its training and decoding."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from accelerate.state import AcceleratorState
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

from pacer.config.baselines import Bank
from pacer.core.errors import CheckpointError, DataError
from pacer.core.io import read_json
from pacer.decoding.run import decode_records
from pacer.extras.baselines.adapted import load_adapted
from pacer.extras.baselines.bank import Retrieval, bank_entries, build_bank, nearest
from pacer.extras.baselines.ragpt import (
    RAGPT,
    ContextPrompts,
    MissingGenerator,
    RetrievedExamples,
    ragpt_generator,
    train_ragpt,
)
from pacer.model.assemble import load_model, load_tokenizer
from pacer.model.batch import Batch, SourceStates, read_sources
from pacer.model.pacer import Pacer
from pacer.training.run import Inputs
from tests.support.models import QUERIES, specification
from tests.support.searches import settings as decode_settings
from tests.support.training import record_table


def compressed_by(model: Pacer, sources: SourceStates) -> Tensor:
    """The compressed sources [B, 3, Q, d_v]."""
    return model.interface.compress(model.refine_sources(sources)[0])


K, PROMPTS = 3, 18


@pytest.fixture
def several(records: pl.DataFrame) -> pl.DataFrame:
    """The records with two examinations for each subject."""
    return records.with_columns(
        subject_id="p" + (pl.col("study_id").str.slice(1).cast(pl.Int32) // 2).cast(pl.String)
    )


def make(
    records: pl.DataFrame, inputs: dict[str, Path], parent: Path, out: Path, **settings: Any
) -> Retrieval:
    build_bank(
        Bank(**{"neighbours": K} | settings),
        "float32",
        records,
        inputs["backbones"],
        inputs["features"],
        parent,
        out,
    )
    return Retrieval(out)


@pytest.fixture
def retrieval(
    several: pl.DataFrame, inputs, parent: Path, tmp_path: Path, monkeypatch, features
) -> Retrieval:
    monkeypatch.setattr(
        "pacer.extras.baselines.bank.open_features", lambda directory, backbones, device: features
    )
    return make(several, inputs, parent, tmp_path / "bank")


def test_only_complete_train_records_enter_and_no_subject_of_another_split(
    several: pl.DataFrame,
) -> None:
    entries = bank_entries(several)
    assert (
        set(entries["context"]) == {"mw"}
        and set(entries["split"]) == {"train"}
        and len(entries) == 6
    )
    moved = several.with_columns(
        split=pl.when(pl.col("study_id") == "s5").then(pl.lit("test")).otherwise("split")
    )
    entries = bank_entries(moved)
    elsewhere = set(moved.filter(pl.col("split") != "train")["subject_id"])
    assert "p2" in elsewhere  # s4, a train study, is of the same subject
    assert not elsewhere & set(entries["subject_id"]) and set(entries["study_id"]) == {
        "s0",
        "s1",
        "s2",
        "s3",
    }
    with pytest.raises(DataError, match="from subjects in no other split"):
        bank_entries(several.filter(pl.col("context") != "mw"))


def test_neighbours_are_those_of_brute_force_with_their_compressed_sources(
    retrieval: Retrieval,
    several: pl.DataFrame,
    parent: Path,
    backbones: Path,
    features,
    tmp_path: Path,
) -> None:
    model = load_model(parent, backbones)[0]
    entries = pl.read_parquet(tmp_path / "bank" / "entries.parquet")
    entries = entries.join(several, on="record_id", maintain_order="left")

    def key(image: str) -> np.ndarray:
        refined, _ = model.refine(features.depth_states([image]))
        mean = (
            model.interface.compress_frontal(refined)[0].detach().numpy().astype(np.float64).mean(0)
        )
        return mean / np.sqrt((mean**2).sum())

    keys = [key(image) for image in entries["frontal"]]
    subject = dict(several.select("frontal", "subject_id").iter_rows())
    assert len(subject) == 8
    for image, person in subject.items():
        others = [n for n in range(len(keys)) if entries["subject_id"][n] != person]
        expected = sorted(others, key=lambda n: -float(key(image) @ keys[n]))[:K]
        with torch.no_grad():
            compressed = compressed_by(model, read_sources(entries[expected].to_dicts(), features))
        torch.testing.assert_close(retrieval.read([image])[0], compressed, atol=1e-5, rtol=1e-5)


def test_too_few_entries_of_other_subjects_are_refused() -> None:
    keys = F.normalize(torch.randn(5, 4), dim=-1)
    with pytest.raises(DataError, match=r"ragpt\.bank\.neighbours"):
        nearest(keys, keys, "aabbc", "aabbc", 4)


def test_the_generator_follows_its_formula() -> None:
    torch.manual_seed(0)
    generator = MissingGenerator(QUERIES, 6, 0.2).eval()
    neighbours = torch.randn(2, K, QUERIES, 6)
    found = generator(neighbours)
    kernel = (generator.filter[..., 0] + 1j * generator.filter[..., 1]).detach().numpy()
    for row in range(2):
        mean = neighbours[row].numpy().mean(0)
        wave = np.exp(
            -2j * np.pi * np.outer(np.arange(QUERIES), np.arange(QUERIES)) / QUERIES
        )  # the transform itself
        filtered = (wave.conj() @ (kernel * (wave @ mean)) / QUERIES).real
        expected = generator.out(
            F.layer_norm(torch.from_numpy((mean + filtered).astype(np.float32)), (6,))
        )
        torch.testing.assert_close(found[row], expected, atol=1e-5, rtol=1e-4)


def test_the_filter_starts_as_the_unit_complex_normal() -> None:
    torch.manual_seed(0)
    kernel = torch.view_as_complex(MissingGenerator(64, 64, 0.2).filter.detach())
    assert kernel.abs().square().mean().item() == pytest.approx(1.0, abs=0.05)


def test_prompts_follow_their_formula() -> None:
    torch.manual_seed(0)
    prompts = ContextPrompts(6, 2)
    source, neighbours = torch.randn(2, 4, 6), torch.randn(2, K, 4, 6)
    found = prompts(source, neighbours)
    for row in range(2):
        context = torch.cat(list(neighbours[row]))  # [k Q, d]
        scores = (
            F.linear(source[row], prompts.query.weight, prompts.query.bias)
            @ F.linear(context, prompts.key.weight, prompts.key.bias).T
            / 6**0.5
        )
        answers = (
            scores.exp()
            / scores.exp().sum(1, keepdim=True)
            @ F.linear(context, prompts.value.weight, prompts.value.bias)
        )
        expected = torch.stack([answers[:2].mean(0), answers[2:].mean(0)])
        torch.testing.assert_close(found[row], expected, atol=1e-5, rtol=1e-4)


@pytest.fixture
def examples(
    records: pl.DataFrame, anchors: pl.DataFrame, backbones: Path, features, retrieval: Retrieval
) -> RetrievedExamples:
    return RetrievedExamples(
        record_table(records, anchors),
        load_tokenizer(backbones),
        features,
        specification(),
        retrieval=retrieval,
        places=PROMPTS,
    )


def batch_of(examples: RetrievedExamples) -> Batch:
    """Two records of each context, on both routes."""
    rows = [
        int(n)
        for numbers in examples.table.rows("train", ("sn", "sw", "mn", "mw")).values()
        for n in numbers[:2]
    ]
    return examples.batch(rows, [True, False] * 4, 0.35)


@pytest.fixture
def model(micro, parent: Path, backbones: Path) -> RAGPT:
    torch.manual_seed(2)
    settings = micro.ragpt.model_copy(update={"prompt_tokens": 6, "dropout": 0.2})
    return RAGPT(load_model(parent, backbones)[0], settings).eval()


def test_what_is_there_stays_and_only_missing_slots_are_filled(
    model: RAGPT, examples: RetrievedExamples, parent: Path, backbones: Path
) -> None:
    batch, frozen = batch_of(examples), load_model(parent, backbones)[0]
    with torch.no_grad():
        compressed = compressed_by(frozen, batch)
        filled = model.fill(compressed, batch, batch.neighbours)
        known = torch.nn.functional.pad(batch.availability, (1, 0), value=True)
        assert torch.equal(filled[known], compressed[known])
        made = model.added["prior"](batch.neighbours[:, :, 2])
        torch.testing.assert_close(
            filled[:, 2][~batch.availability[:, 1]], made[~batch.availability[:, 1]]
        )
        whole = batch.availability.all(1)
        theirs, ours = frozen.embed(batch).sources.fused, model.embed(batch).sources.fused
    assert torch.equal(ours[whole], theirs[whole]) and whole.sum() == 2
    assert (ours[~whole] != theirs[~whole]).any(-1).all()


def test_prompts_stand_behind_bos_and_the_rest_is_the_parents(
    model: RAGPT, examples: RetrievedExamples, parent: Path, backbones: Path
) -> None:
    batch, frozen = batch_of(examples), load_model(parent, backbones)[0]
    with torch.no_grad():
        found, theirs = (
            model.embed(batch),
            frozen.embed(batch).inputs,
        )  # with any values in the prompts' places
        filled = model.fill(compressed_by(model, batch), batch, batch.neighbours)
        prompts = model.added["project"](
            torch.cat(
                [model.added["prompts"](filled[:, s], batch.neighbours[:, :, s]) for s in range(3)],
                dim=1,
            )
        )
    assert torch.equal(found.inputs[:, 0], theirs[:, 0])
    torch.testing.assert_close(found.inputs[:, 1 : 1 + PROMPTS], prompts, atol=1e-6, rtol=1e-5)
    whole = batch.availability.all(1)
    assert torch.equal(found.inputs[whole, 1 + PROMPTS :], theirs[whole, 1 + PROMPTS :])
    assert found.depth_weights is not None


def test_it_is_trained_and_decoded_with_its_bank(
    micro,
    params,
    inputs,
    retrieval: Retrieval,
    parent: Path,
    backbones: Path,
    records,
    several,
    tmp_path: Path,
    log,
) -> None:
    out, bank, logged = tmp_path / "ragpt", tmp_path / "bank", []
    train_ragpt(micro.ragpt, params, Inputs(**inputs, start=parent), bank, out, log(logged))
    assert logged[-1][0] == 4 and "validation/mean" in logged[-1][1]
    weights = load_file(out / "model.safetensors")
    assert weights and all(name.startswith("added.") for name in weights)
    model, record = load_adapted(RAGPT, out, backbones, retrieval.hash)
    baseline = {"settings": micro.ragpt.model_dump(), "made_with": retrieval.hash}
    assert record.baseline == baseline and model.settings == micro.ragpt
    assert not any(parameter.requires_grad for parameter in model.parameters())

    cases = records.with_columns(split=pl.lit("test"))
    config = decode_settings(
        max_new_tokens=20, batch_size=3, examples=1, controls=["another_patient"]
    )

    def decode(name: str, bank: Path = bank) -> str:
        generator = ragpt_generator(bank)
        decode_records(
            out, backbones, cases, inputs["features"], config, tmp_path / name, generator
        )
        assert read_json(tmp_path / name / "manifest.json")["baseline"] == baseline
        return "".join(
            (tmp_path / name / f"{context}.jsonl").read_text()
            for context in ("sn", "sw", "mn", "mw")
        )

    found = decode("found")
    decode_records(parent, backbones, cases, inputs["features"], config, tmp_path / "base")
    assert (
        found.count("\n") == 32
        and found[:500] != (tmp_path / "base" / "sn.jsonl").read_text()[:500]
    )
    make(several, inputs, parent, tmp_path / "other", neighbours=2)
    with pytest.raises(CheckpointError, match="a different bank"):
        decode("refused", tmp_path / "other")
    save_file(
        {name: tensor + 1 for name, tensor in weights.items()} | {"added.more": torch.ones(1)},
        out / "model.safetensors",
    )
    record.write(out)
    with pytest.raises(CheckpointError, match=r"added\.more"):
        load_adapted(RAGPT, out, backbones, retrieval.hash)


def test_it_retrieves_and_trains_in_half_precision(
    micro,
    params,
    inputs,
    several: pl.DataFrame,
    parent: Path,
    tmp_path: Path,
    log,
    monkeypatch,
    features,
) -> None:
    monkeypatch.setattr(
        "pacer.extras.baselines.bank.open_features", lambda directory, backbones, device: features
    )
    half = params.model_copy(
        update={"train": params.train.model_copy(update={"precision": "bfloat16"})}
    )
    AcceleratorState._reset_state(reset_partial_state=True)
    build_bank(
        micro.ragpt.bank,
        "bfloat16",
        several,
        inputs["backbones"],
        inputs["features"],
        parent,
        tmp_path / "bank",
    )
    assert Retrieval(tmp_path / "bank").read(["f0.jpg"]).dtype == torch.bfloat16
    logged: list = []
    train_ragpt(
        micro.ragpt,
        half,
        Inputs(**inputs, start=parent),
        tmp_path / "bank",
        tmp_path / "ragpt",
        log(logged),
    )
    AcceleratorState._reset_state(reset_partial_state=True)
    assert logged[-1][0] == 4
    assert all(
        t.dtype == torch.float32
        for t in load_file(tmp_path / "ragpt" / "model.safetensors").values()
    )
