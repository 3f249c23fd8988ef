import json
import shutil
from pathlib import Path

import torch
from transformers import BertForMaskedLM, BertModel, BertTokenizerFast

from pacer.core.io import read_json
from pacer.features import encode as build
from pacer.features.encoder import ImageEncoder, TextEncoder
from pacer.features.store import MANIFEST, FeatureStore
from tests.support import building

CONFIG = building.CONFIG.model_copy(update={"dtype": "float32"})
TEXTS = ["no effusion .", "edema .", "no effusion ."]


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
    states, mask = TextEncoder(tmp_path, 12).encode(TEXTS)
    tokenizer = BertTokenizerFast.from_pretrained(backbones / "text")
    inputs = tokenizer(TEXTS, padding="max_length", truncation=True, max_length=12, return_tensors="pt")
    with torch.no_grad():
        expected = plain.eval()(**inputs).last_hidden_state
    torch.testing.assert_close(states, expected)
    assert torch.equal(mask, inputs["attention_mask"].bool()) and not mask.all()


def test_every_image_and_distinct_text_comes_back(backbones: Path, tmp_path: Path) -> None:
    images = building.make_images(tmp_path)
    build.build_store(CONFIG, images, TEXTS, backbones, tmp_path / "out")
    manifest = read_json(tmp_path / "out" / MANIFEST)
    assert (manifest["images"], manifest["priors"]) == (len(images), 2)
    store, encoder = FeatureStore(tmp_path / "out"), ImageEncoder(backbones / "vision", [1, 3])
    for image_id, path in images.iter_rows():
        expected = encoder.encode(encoder.preparation(path)[None])[0]
        torch.testing.assert_close(store.depth_states([image_id])[0], expected, rtol=0, atol=1e-5)
    states, mask = store.prior_states(TEXTS)
    expected_states, expected_mask = TextEncoder(backbones / "text", 12).encode(TEXTS)
    torch.testing.assert_close(states, expected_states, rtol=0, atol=1e-5)
    assert states.shape[1] == 12 and torch.equal(mask, expected_mask)
    assert not Path(f"{tmp_path / 'out'}.scratch").exists()
