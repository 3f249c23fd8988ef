"""CheXOne's runner on a tiny random model of its architecture."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image
from transformers import PreTrainedTokenizerFast, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
from typer.testing import CliRunner

from pacer.baselines.chexone import PROMPT, CheXOne, CheXOneSettings, run_chexone
from pacer.cli import app
from pacer.core.errors import BackboneError, DataError
from pacer.core.io import write_json
from pacer.phantom.tokenizer import phantom_tokenizer
from pacer.records.schemas import IMAGE_SCHEMA, RECORD_SCHEMA, write_table

MARKS = ["<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|image_pad|>", "<|vision_end|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chexone")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=phantom_tokenizer(600),
        eos_token="<|im_end|>",
        pad_token="<pad>",
        unk_token="<unk>",
        additional_special_tokens=MARKS,
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    _, end, left, image, right = tokenizer.convert_tokens_to_ids(MARKS)
    torch.manual_seed(0)
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "bos_token_id": 1,
            "eos_token_id": end,
            "initializer_range": 0.3,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]},
        },
        vision_config={
            "depth": 2,
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_heads": 2,
            "out_hidden_size": 32,
            "fullatt_block_indexes": [1],
            "window_size": 56,
            "initializer_range": 0.3,
        },
        image_token_id=image,
        vision_start_token_id=left,
        vision_end_token_id=right,
    )
    model = Qwen2_5_VLForConditionalGeneration(config)
    model.generation_config.eos_token_id = end
    model.generation_config.do_sample, model.generation_config.temperature = True, 0.3  # as released models have it
    model.save_pretrained(folder)
    mean_std = {"image_mean": [0.48, 0.46, 0.41], "image_std": [0.27, 0.26, 0.28]}
    write_json(
        folder / "preprocessor_config.json",
        {  # in the form of the released models
            "min_pixels": 3136,
            "max_pixels": 12845056,
            "patch_size": 14,
            "temporal_patch_size": 2,
            "merge_size": 2,
            "image_processor_type": "Qwen2VLImageProcessor",
            "processor_class": "Qwen2_5_VLProcessor",
            **mean_std,
        },
    )
    return folder


@pytest.fixture
def corpus(tmp_path: Path, records: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    cases = records.filter(pl.col("context") == "sn").with_columns(split=pl.lit("test"))
    rng = np.random.default_rng(0)
    rows = []
    for number, image in enumerate(cases["frontal"]):
        path, size = tmp_path / Path(image).with_suffix(".png"), (60 + 30 * number, 90)
        Image.fromarray(rng.integers(0, 256, size[::-1], dtype=np.uint8)).save(path)
        rows.append(
            {"image_id": image, "path": str(path), "bytes": path.stat().st_size, "width": size[0], "height": size[1]}
        )
    return cases, pl.DataFrame(rows, schema=IMAGE_SCHEMA)


SETTINGS = CheXOneSettings(max_new_tokens=12, max_pixels=112 * 112, batch_size=3)


def test_the_prompt_is_the_published_one() -> None:
    assert PROMPT.endswith(r"put your final answer within \boxed{{}}.")
    assert PROMPT.startswith("Write an example findings section for the CXR. Please reason step by step")


@pytest.mark.slow
def test_answers_are_those_of_a_plain_greedy_loop(released: Path, corpus) -> None:
    paths = [Path(path) for path in corpus[1]["path"][:3]]
    chexone = CheXOne(released, SETTINGS, torch.device("cpu"))
    found = list(chexone(paths))
    np.testing.assert_allclose(chexone.images.image_mean, [0.48, 0.46, 0.41])
    assert len({text for text, _, _ in found}) == 3  # the image matters
    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(released).eval()
    for path, (text, count, ended) in zip(paths, found, strict=True):
        given = chexone.inputs([path])
        ids, out = given["input_ids"], []
        marks = int((ids == model.config.image_token_id).sum())
        assert marks == int(given["image_grid_thw"].prod()) // 4 and marks * 28 * 28 <= 112 * 112
        positions, _ = model.model.get_rope_index(ids, given["mm_token_type_ids"], given["image_grid_thw"])
        assert len({tuple(p) for p in positions[:, 0][:, given["mm_token_type_ids"][0].bool()].T.tolist()}) == marks
        while len(out) < 12 and (not out or out[-1] != chexone.tokenizer.eos_token_id):
            extended = torch.cat([ids, torch.tensor([out], dtype=torch.long)], dim=1)
            kinds = (extended == model.config.image_token_id).int()
            with torch.no_grad():
                logits = model(
                    input_ids=extended,
                    attention_mask=torch.ones_like(extended),
                    mm_token_type_ids=kinds,
                    pixel_values=given["pixel_values"],
                    image_grid_thw=given["image_grid_thw"],
                ).logits
            out.append(int(logits[0, -1].argmax()))
        assert (text, count) == (chexone.tokenizer.decode(out, skip_special_tokens=True), len(out))
        assert ended == (out[-1] == chexone.tokenizer.eos_token_id)


def test_a_stopped_run_continues_and_its_file_is_the_same(released: Path, corpus, tmp_path: Path, monkeypatch) -> None:
    run_chexone(*corpus, released, tmp_path / "whole", SETTINGS)
    real, calls = CheXOne.__call__, []

    def dying(self, paths):
        calls.append(len(paths))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(self, paths)

    monkeypatch.setattr(CheXOne, "__call__", dying)
    with pytest.raises(KeyboardInterrupt):
        run_chexone(*corpus, released, tmp_path / "out", SETTINGS)
    (part,) = (tmp_path / "out.scratch").glob("*/part.jsonl")
    part.write_text(part.read_text() + '{"record_id": "cut')
    manifest = run_chexone(*corpus, released, tmp_path / "out", SETTINGS)
    assert calls == [3, 3, 3, 2]
    files = [(tmp_path / name / "generated.jsonl").read_text() for name in ("whole", "out")]
    assert files[0] == files[1]
    lines = [json.loads(line) for line in files[1].splitlines()]
    assert [line["record_id"] for line in lines] == corpus[0]["record_id"].to_list()
    assert manifest["settings"]["prompt"] == PROMPT and manifest["beams"] == 1
    assert manifest["not_ended"] == sum(not line["ended"] for line in lines)
    assert not (tmp_path / "out.scratch").exists()


def test_the_command_writes_what_scoring_reads(released: Path, corpus, tmp_path: Path) -> None:
    write_table(tmp_path / "records.parquet", corpus[0], RECORD_SCHEMA)
    write_table(tmp_path / "images.parquet", corpus[1], IMAGE_SCHEMA)
    result = CliRunner().invoke(
        app,
        [
            "baseline",
            "chexone",
            "--records",
            str(tmp_path / "records.parquet"),
            "--images",
            str(tmp_path / "images.parquet"),
            "--model",
            str(released),
            "--out",
            str(tmp_path / "out"),
            "--limit",
            "2",
            "--max-new-tokens",
            "4",
        ],
    )
    assert result.exit_code == 0, result.output
    assert "2 answers written" in result.output
    lines = [json.loads(line) for line in (tmp_path / "out" / "generated.jsonl").read_text().splitlines()]
    assert len(lines) == 2 and all(set(line) == {"record_id", "generated", "tokens", "ended"} for line in lines)


def test_what_cannot_work_is_refused(released: Path, corpus, backbones: Path, tmp_path: Path) -> None:
    cases, images = corpus
    with pytest.raises(DataError, match="no record of context mw"):
        run_chexone(cases, images, released, tmp_path / "out", SETTINGS, context="mw")
    with pytest.raises(DataError, match=r"record sn-0: its frontal image"):
        run_chexone(cases, images[1:], released, tmp_path / "out", SETTINGS)
    Path(images["path"][1]).write_bytes(b"no image")
    with pytest.raises(DataError, match=r"f1\.png: the file is not an image"):
        run_chexone(cases, images, released, tmp_path / "out", SETTINGS)
    with pytest.raises(BackboneError, match="type llama"):
        CheXOne(backbones / "language", SETTINGS, torch.device("cpu"))
