"""A labeller with random weights in the original checkpoint format, and a METEOR without its
program."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from pacer.core.anchor import POLARITIES, Anchor
from pacer.core.io import read_json
from pacer.metrics import table
from pacer.metrics.cases import contexts_of
from pacer.metrics.clinical import case_efficacy
from pacer.metrics.conventions import CONVENTIONS, RATIOS
from pacer.metrics.language import meteor_columns, rouge_l
from pacer.metrics.options import Scoring
from pacer.metrics.predictions import read_cases
from pacer.metrics.reading import read_pairs
from pacer.metrics.score import score_cases
from pacer.metrics.signature import Origin

WORDS = (
    *("the", "heart", "lungs", "are", "is", "clear", "normal", "no", "effusion"),
    *("pneumothorax", "left", "right", "small", "possible", ".", "edema"),
)
#: Words, some of which METEOR knows only by their stems.
TALK = (
    "the",
    "heart",
    "lungs",
    "is",
    "clear",
    "no",
    "effusions",
    "effusion",
    "enlarged",
    "enlargement",
    ".",
)
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


def checkpoint_state() -> dict[str, Tensor]:
    """A CheXbert state dictionary without prefixes, small and random, made of plain modules."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = small_config()
        network = nn.Module()
        network.bert = BertModel(config)
        network.linear_heads = nn.ModuleList(
            nn.Linear(config.hidden_size, 4 if i < 13 else 2) for i in range(14)
        )
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


def read_texts(
    references: Sequence[str],
    reports: Sequence[str],
    commitments: Sequence[Anchor | None] | None = None,
    **columns: Any,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Cases of these texts with what is read in them, and their findings."""
    listed = list(commitments or [None] * len(references))
    lists = [None if one is None else one.as_dict() for one in listed]
    cases = pl.DataFrame(
        {
            "record_id": list(map(str, range(len(references)))),
            "context": "sn",
            "reference": list(references),
            "reference_raw": list(references),
            "hypothesis": list(reports),
        }
        | columns
    ).with_columns(
        pl.Series(f"anchor_{name}", [one and one.get(name) for one in lists], pl.List(pl.String))
        for name in POLARITIES
    )
    read, findings = read_pairs(cases)
    return cases.hstack(read), findings


def random_texts(seed: int, count: int = 40, least: int = 0) -> list[str]:
    """Texts of ``least`` to 25 words."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(TALK, k=draw.randint(least, 25))) for _ in range(count)]


@pytest.fixture
def words() -> list[str]:
    """The pieces that the labeller knows, in the order of its vocabulary from id 5 on."""
    return list(WORDS)


@pytest.fixture
def reports() -> list[str]:
    """Forty texts of 0 to 59 known words."""
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(0, 60, (40,), generator=generator).tolist()
    return [
        " ".join(WORDS[i] for i in torch.randint(len(WORDS), (n,), generator=generator))
        for n in lengths
    ]


@pytest.fixture
def chexbert_directory(tmp_path: Path) -> Callable[..., Path]:
    """Writes a labeller's directory; ``state`` replaces the content of the checkpoint."""

    def make(state: object = None, name: str = "chexbert") -> Path:
        directory = tmp_path / name
        directory.mkdir(exist_ok=True)
        small_config().save_pretrained(directory)
        (directory / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
        if state is None:
            state = {
                "model_state_dict": {
                    f"module.{key}": value for key, value in checkpoint_state().items()
                }
            }
        torch.save(state, directory / "chexbert.pth")
        return directory

    return make


def efficacy(
    references: Any, hypotheses: Any, convention: str = "llm-rg4"
) -> dict[str, float | None]:
    """Averages of labels ``[n, 14]``, each row of its own study, and of the headline by their bare
    names."""
    labels = {"reference_labels": references, "hypothesis_labels": hypotheses}
    columns = {name: np.asarray(rows).tolist() for name, rows in labels.items()}
    cases = (
        pl.DataFrame(columns)
        .with_row_index("study_id")
        .with_columns(pl.col("study_id").cast(pl.String))
    )
    scores = case_efficacy(cases.with_columns(context=pl.lit("sn")), convention)
    headline = CONVENTIONS[convention].averages[0]
    return scores | {ratio: scores[f"{ratio}_{headline}"] for ratio in RATIOS}


@pytest.fixture
def quick_meteor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scoring counts only exact matches in place of METEOR, whose program takes seconds to
    start."""

    @contextmanager
    def run(
        references: Sequence[str], hypotheses: Sequence[str]
    ) -> Iterator[Callable[[], np.ndarray]]:
        rows = []
        for reference, hypothesis in zip(references, hypotheses, strict=True):
            sides = [text.split() for text in (hypothesis, reference)]
            same = sum((Counter(sides[0]) & Counter(sides[1])).values())
            rows.append([*map(len, sides), 0, 0, same, same, *[0] * 14, same, same, same])
        yield lambda: np.array(rows, dtype=float)

    monkeypatch.setattr("pacer.metrics.table.meteor_run", run)


def with_meteor(cases: pl.DataFrame) -> pl.DataFrame:
    """Cases with the columns of METEOR, by the program or what a test has in its place."""
    texts = cases["reference"].to_list(), cases["hypothesis"].to_list()
    with table.meteor_run(*texts) as counts:
        return cases.with_columns(meteor_columns(counts(), len(cases)))


def with_rouge(cases: pl.DataFrame) -> pl.DataFrame:
    """Cases with the column of ROUGE-L."""
    values = map(rouge_l, cases["reference"], cases["hypothesis"])
    return cases.with_columns(rougeL=pl.Series(values, dtype=pl.Float64))


def score_predictions(
    records: pl.DataFrame,
    predictions: Path,
    out: Path,
    options: Scoring,
    *,
    about: dict | None = None,
    anchors: Path | None = None,
) -> dict[str, dict]:
    """Score predictions of records that stand in no file."""
    cases = read_cases(records, predictions, anchors)
    manifest = predictions / "manifest.json"
    files = {f"predictions/{name}": predictions / f"{name}.jsonl" for name in contexts_of(cases)}
    made = read_json(manifest) if manifest.is_file() else None
    result = score_cases(cases, options, Origin(files, about or {}, manifest=made))
    result.write(out)
    return result.scores
