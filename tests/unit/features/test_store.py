from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image
from transformers import AutoModel, BertForMaskedLM, BertModel

from pacer.config import Features
from pacer.core.errors import ConfigError, DataError
from pacer.core.io import read_json
from pacer.features import encode as build
from pacer.features.encoder import ImageEncoder, TextEncoder
from pacer.features.store import MANIFEST, FeatureStore
from pacer.model.assemble import load_endpoint_norm

CONFIG = Features(
    mode="states",
    depths=[1, 3],
    dtype="float32",
    precision="float32",
    batch_size=2,
    shard_size=3,
    workers=1,
    prior_tokens=12,
)
TEXTS = ["no effusion .", "edema .", "no effusion ."]


@pytest.fixture
def images(tmp_path: Path) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    paths = []
    for i in range(7):
        paths.append(str(tmp_path / f"{i}.png"))
        Image.fromarray(rng.integers(0, 255, (70, 64), dtype=np.uint8)).save(paths[-1])
    return pl.DataFrame({"image_id": [f"img{i}" for i in range(7)], "path": paths})


def test_depths_are_blocks_and_the_endpoint_is_bit_equal(backbones: Path, images: pl.DataFrame) -> None:
    encoder = ImageEncoder(backbones / "vision", [1, 3])
    pixels = torch.stack([encoder.preparation(p) for p in images["path"]])
    states = encoder.encode(pixels)
    model = AutoModel.from_pretrained(backbones / "vision", dtype=torch.float32).eval()
    with torch.no_grad():
        outputs = model(pixel_values=pixels, output_hidden_states=True)
        block_one = model.encoder.layer[0](model.embeddings(pixels))
        block_one = block_one[0] if isinstance(block_one, tuple) else block_one
    assert torch.equal(states[:, 0], block_one[:, 1:])
    endpoint = load_endpoint_norm(backbones / "vision")(states[:, 1])
    assert torch.equal(endpoint, outputs.last_hidden_state[:, 1:])


def test_cxr_bert_loads_as_the_plain_bert_that_it_is(backbones: Path, tmp_path: Path) -> None:
    """Its published config names a type and classes that are remote code; its weights are a BertForMaskedLM's."""
    plain = BertModel.from_pretrained(backbones / "text")
    published = BertForMaskedLM(plain.config)
    published.bert.load_state_dict({k: v for k, v in plain.state_dict().items() if not k.startswith("pooler")})
    published.save_pretrained(tmp_path)
    shutil.copy(backbones / "text" / "vocab.txt", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {
        "model_type": "cxr-bert",
        "architectures": ["CXRBertModel"],
        "auto_map": {"AutoModel": "modeling_cxrbert.CXRBertModel"},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    states, _ = TextEncoder(tmp_path, 12).encode(TEXTS)
    expected, _ = TextEncoder(backbones / "text", 12).encode(TEXTS)
    torch.testing.assert_close(states, expected)


def test_depths_must_end_with_the_last_block(backbones: Path) -> None:
    with pytest.raises(ConfigError, match="must end with the encoder's last block, 3"):
        ImageEncoder(backbones / "vision", [1, 2])


def test_every_image_and_distinct_text_comes_back(backbones: Path, images: pl.DataFrame, tmp_path: Path) -> None:
    build.build_store(CONFIG, images, TEXTS, backbones, tmp_path / "out")
    manifest = read_json(tmp_path / "out" / MANIFEST)
    assert (manifest["images"], manifest["priors"]) == (7, 2)
    store, encoder = FeatureStore(tmp_path / "out"), ImageEncoder(backbones / "vision", [1, 3])
    for image_id, path in images.iter_rows():
        expected = encoder.encode(encoder.preparation(path)[None])[0]
        torch.testing.assert_close(store.depth_states([image_id])[0], expected, rtol=0, atol=1e-5)
    states, mask = store.prior_states(TEXTS)
    expected_states, expected_mask = TextEncoder(backbones / "text", 12).encode(TEXTS)
    torch.testing.assert_close(states, expected_states, rtol=0, atol=1e-5)
    assert states.shape[1] == 12 and torch.equal(mask, expected_mask)
    assert not Path(f"{tmp_path / 'out'}.scratch").exists()


def test_only_what_changed_is_encoded_again(
    backbones: Path, images: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    before = FeatureStore(out).depth_states(["img0"])
    Image.linear_gradient("L").resize((64, 64)).save(images["path"][3])
    encoded: list[int] = []
    encode = ImageEncoder.encode
    monkeypatch.setattr(ImageEncoder, "encode", lambda self, x: encoded.append(len(x)) or encode(self, x))
    build.build_store(CONFIG, images, [*TEXTS, "new ."], backbones, out)
    assert encoded == [1]  # the changed image
    store = FeatureStore(out)
    assert torch.equal(store.depth_states(["img0"]), before)
    assert store.depth_states(["img3"]).shape == before.shape
    store.prior_states(["new ."])


def test_a_folder_that_is_no_store_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a feature store"):
        FeatureStore(tmp_path)
