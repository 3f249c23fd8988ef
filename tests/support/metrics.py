"""A labeller with random weights in the original checkpoint format, and one running METEOR."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from pacer.metrics.meteor import Meteor

WORDS = (
    "the",
    "heart",
    "lungs",
    "are",
    "is",
    "clear",
    "normal",
    "no",
    "effusion",
    "pneumothorax",
    "left",
    "right",
    "small",
    "possible",
    ".",
    "edema",
)
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


def _state() -> dict[str, Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = small_config()
        network = nn.Module()
        network.bert = BertModel(config)
        network.linear_heads = nn.ModuleList(nn.Linear(config.hidden_size, 4 if i < 13 else 2) for i in range(14))
    return network.state_dict()


def small_config() -> BertConfig:
    return BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        initializer_range=0.8,
    )


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """With several threads these tiny models mostly wait for other processes of a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def checkpoint_state() -> dict[str, Tensor]:
    """A CheXbert state dictionary without prefixes, small and random, made of plain modules."""
    return _state()


@pytest.fixture
def words() -> list[str]:
    """The pieces that the labeller knows, in the order of its vocabulary from id 5 on."""
    return list(WORDS)


@pytest.fixture
def reports() -> list[str]:
    """Forty texts of 0 to 59 known words."""
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(0, 60, (40,), generator=generator).tolist()
    return [" ".join(WORDS[i] for i in torch.randint(len(WORDS), (n,), generator=generator)) for n in lengths]


@pytest.fixture
def chexbert_directory(tmp_path: Path) -> Callable[..., Path]:
    """Writes a labeller's directory; ``state`` replaces the content of the checkpoint."""

    def make(state: object = None, name: str = "chexbert") -> Path:
        directory = tmp_path / name
        directory.mkdir(exist_ok=True)
        small_config().save_pretrained(directory)
        (directory / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
        if state is None:
            state = {"model_state_dict": {f"module.{key}": value for key, value in _state().items()}}
        torch.save(state, directory / "chexbert.pth")
        return directory

    return make


@pytest.fixture(scope="session")
def meteor() -> Iterator[Meteor]:
    with Meteor() as running:
        yield running


@pytest.fixture
def one_meteor(meteor: Meteor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scoring uses the running METEOR and leaves it running."""

    class Running:
        def __enter__(self) -> Meteor:
            return meteor

        def __exit__(self, *error: object) -> None:
            return None

    for module in ("metrics.scoring", "external.foreign"):
        monkeypatch.setattr(f"pacer.{module}.Meteor", Running)
