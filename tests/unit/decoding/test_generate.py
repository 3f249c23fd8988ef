from __future__ import annotations

import threading
import weakref
from functools import partial

import numpy as np
import polars as pl
import pytest
import torch

from pacer.core.errors import DataError
from pacer.data.twins import CONTROLS, another_patient
from pacer.decoding.extract import extract_report
from pacer.decoding.generate import ENGINES, Generator, Prefix
from pacer.model.assemble import build_model, load_tokenizer
from tests.support import searches
from tests.support.models import specification

settings = partial(searches.settings, min_new_tokens=4, max_new_tokens=12, batch_size=8)


@pytest.fixture
def generator(backbones, features):
    torch.manual_seed(3)
    model = build_model(backbones, specification()).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "calibrator" in name or "router" in name or "lora_B" in name:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return Generator(model, load_tokenizer(backbones), features, specification(), settings())


@pytest.mark.parametrize("engine", ["beam", "generate"])
def test_the_prefix_that_was_trained_is_decoded(generator, records: pl.DataFrame, engine: str) -> None:
    """Interface, router and gate compute in float32, and a language model in bfloat16 gets what they give unrounded."""
    model = generator.model
    model.language.to(torch.bfloat16)
    generator.decode = settings(engine=engine, batch_size=1)
    row = records.filter(pl.col("context") == "mw").row(0, named=True)
    batch, seen = generator.batch(row), []
    model.language.model.layers[0].register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].detach()))
    with torch.no_grad():
        model.hidden(model.calibrate(model.embed(batch), batch)[0])
    generator([row])
    assert seen[0].dtype == torch.float32 and (seen[0] != seen[0].bfloat16()).any()
    assert torch.equal(seen[0], seen[1][:1])


@pytest.mark.parametrize("engine", ["beam", "generate"])
def test_generated_tokens_enter_the_language_model_as_trained_ones_do(generator, records, engine: str) -> None:
    """Sums between the blocks stay in float32 for generated tokens too, and no hook stays on the model."""
    language = generator.model.language.to(torch.bfloat16)
    generator.decode = settings(engine=engine)
    blocks, types = language.model.layers, []
    handles = [
        block.register_forward_pre_hook(lambda _, inputs: types.append((inputs[0].shape[1], inputs[0].dtype)))
        for block in blocks
    ]
    generator(records.head(3).to_dicts())
    assert len(types) > len(blocks) and {kind for _, kind in types} == {torch.float32}
    for handle in handles:
        handle.remove()
    assert language.get_input_embeddings()(torch.tensor([1])).dtype == torch.bfloat16


@pytest.mark.parametrize("engine", ["beam", "generate"])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_prefix_that_is_no_number_is_refused_with_its_record(generator, records, engine: str, wrong: float) -> None:
    rows = records.filter(pl.col("context") == "mw").to_dicts()
    states = generator.features.depth_states
    generator.features.depth_states = lambda ids: states(ids).fill_(wrong) if rows[2]["frontal"] in ids else states(ids)
    generator.decode = settings(engine=engine)
    with pytest.raises(DataError, match=f"record {rows[2]['record_id']}: .*not finite"):
        generator(rows)


def test_prefixes_are_let_go_when_the_engine_has_taken_them(generator, records, monkeypatch) -> None:
    """A view of none of its numbers would keep all of a prefix in memory until its report has ended."""
    held, alive = [], []

    def prefix(self, record, sources):
        array = np.zeros((5, 4), dtype=np.float32)
        held.append(weakref.ref(array))
        return Prefix(torch.from_numpy(array), None, {"frontal": torch.zeros(1)})

    class Engine:
        def __init__(self, *_):
            pass

        def __call__(self, prefixes):
            for inputs in prefixes:
                del inputs
                alive.append(sum(array() is not None for array in held))
            yield from ((place, [1, 2]) for place in range(len(held)))

    monkeypatch.setattr(Generator, "prefix", prefix)
    monkeypatch.setitem(ENGINES, "beam", Engine)
    assert len(generator(records.head(4).to_dicts())) == 4
    assert max(alive) <= 1  # the one at hand


@pytest.mark.parametrize(
    ("generated", "report", "fallback"),
    [
        (
            "<ANCHOR> positive: edema; negative: none; uncertain: none </ANCHOR>\n<REPORT>\n edema .\n</REPORT>",
            "edema .",
            False,
        ),
        ("<REPORT> a <REPORT> b", "b", False),
        ("x <REPORT> b </REPORT> c </REPORT>", "b", False),
        ("no marker at all .", "no marker at all .", True),
        ("<ANCHOR> cut <REPORT>\n</REPORT>", "<ANCHOR> cut <REPORT>\n</REPORT>", True),
        ("", "", True),
        ("<ANCHOR> nothing that can be read <REPORT> x", "x", False),
    ],
)
def test_extraction_as_published(generated: str, report: str, fallback: bool) -> None:
    extraction = extract_report(generated)
    assert (extraction.report, extraction.fallback) == (report, fallback)
    assert (extraction.anchor is not None) == ("positive:" in generated)


def test_the_commitment_is_parsed() -> None:
    anchor = extract_report("<ANCHOR> positive: edema; negative: fracture; uncertain: none </ANCHOR> <REPORT> x").anchor
    assert anchor is not None and anchor.positive == ("edema",) and anchor.negative == ("fracture",)


def test_another_patient_gives_every_record_all_inputs_of_someone_else(records: pl.DataFrame) -> None:
    records = records.with_columns(subject_id=pl.concat_str(pl.lit("p"), pl.int_range(pl.len()) // 2 % 4))
    swapped = another_patient(records).sort("record_id")
    own = records.sort("record_id")
    assert swapped["record_id"].to_list() == own["record_id"].to_list()
    assert (swapped["subject_id"] != own["subject_id"]).all() and (swapped["frontal"] != own["frontal"]).all()
    for context in ("mn", "mw"):
        part = swapped.filter(pl.col("context") == context)
        assert part["lateral"].str.slice(1).to_list() == part["frontal"].str.slice(1).to_list()


def test_one_patient_alone_cannot_be_exchanged(records: pl.DataFrame) -> None:
    with pytest.raises(DataError, match="context sn: one patient has 8 of 8 records"):
        another_patient(records.with_columns(subject_id=pl.lit("p")))


def test_without_the_lateral_mn_is_decoded_as_sn(records: pl.DataFrame) -> None:
    control = CONTROLS["no_lateral"](records)
    assert set(control["context"]) == {"sn"} and control["lateral"].is_null().all()
    assert control["record_id"].str.starts_with("mn-").all()


def test_features_are_read_ahead_and_change_nothing(generator, records, monkeypatch) -> None:
    rows = records.to_dicts()
    generator.decode = settings(batch_size=1)
    alone, threads = generator(rows), set()
    read = generator.features.depth_states
    monkeypatch.setattr(
        generator.features, "depth_states", lambda ids: threads.add(threading.current_thread().name) or read(ids)
    )
    ahead = [result for _, result in sorted(generator.stream(rows, workers=2), key=lambda placed: placed[0])]
    assert threading.main_thread().name not in threads
    assert [result.text for result in ahead] == [result.text for result in alone]
