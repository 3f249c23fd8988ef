"""The published models at the revisions of the profile `mimic_rg4`, where this machine has them."""

import math
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM

from pacer.backbones.chexbert import CheXbert
from pacer.backbones.external import locate
from pacer.backbones.observations import OBSERVATIONS
from pacer.backbones.tokenizer import read_tokenizer
from pacer.core.errors import BackboneError
from pacer.features.encoder import ImageEncoder, TextEncoder
from pacer.model.assemble import load_endpoint_norm
from tests.support.profiles import profile

pytestmark = pytest.mark.weights
PARAMS = profile("mimic_rg4")


def published(role: str) -> Path:
    """Where a model lies; without it the test is skipped, with the command that fetches it."""
    try:
        folder = locate(getattr(PARAMS.backbones, role), role)
    except BackboneError as error:
        pytest.skip(str(error))
    assert folder is not None
    return folder


def test_the_image_encoder() -> None:
    folder, depths = published("vision"), PARAMS.features.depths
    states = ImageEncoder(folder, depths).encode(torch.randn(1, 3, 518, 518))
    assert states.shape == (1, len(depths), 37 * 37, 768)
    assert load_endpoint_norm(folder)(states).isfinite().all()


def test_the_encoder_of_previous_reports() -> None:
    tokens = PARAMS.features.prior_tokens
    states, mask = TextEncoder(published("text"), tokens).encode(["no pneumothorax .", ""])
    assert states.shape == (2, tokens, 768) and states.isfinite().all()
    assert mask[1].sum() == 2  # [CLS] and [SEP]


def test_the_language_model_expects_english() -> None:
    folder = published("language")
    language = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    text = (
        "The heart is normal in size. The lungs are clear. There is no pleural effusion or "
        "pneumothorax."
    )
    ids = torch.tensor([read_tokenizer(folder)(text)["input_ids"]])
    with torch.no_grad():
        logits = language(ids).logits[0, :-1].float()
    assert cross_entropy(logits, ids[0, 1:]) < math.log(language.config.vocab_size) / 2


def test_the_labeller_tells_presence_from_absence() -> None:
    (labels,) = CheXbert(published("chexbert"))(
        ["small left pleural effusion . no pneumothorax ."]
    ).tolist()
    assert [labels[OBSERVATIONS.index(name)] for name in ("Pleural Effusion", "Pneumothorax")] == [
        1,
        2,
    ]
