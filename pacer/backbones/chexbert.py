"""CheXbert, the labeller for clinical efficacy (Smit et al. 2020), and the references' labels.

The labeller is loaded from its original checkpoint: BERT, the last state of ``[CLS]``, and one
linear head per observation. The labels of the references do not depend on any model, so they are
computed once. A file of labels records its labeller and the texts. Labels of other texts or from
another labeller are refused, so both sides of a score are always labelled in the same way.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import torch
from torch import Tensor, nn
from transformers import AutoTokenizer, BertConfig, BertModel

from pacer.backbones.observations import CHECKPOINT, OBSERVATIONS
from pacer.backbones.pointers import fingerprint, from_files, read_pieces, resolve
from pacer.core.devices import compute_device
from pacer.core.errors import BackboneError, DataError
from pacer.core.io import atomic_path, hash_bytes
from pacer.core.progress import Ticker
from pacer.core.schemas import ABOUT, read_about, read_table

_log = logging.getLogger(__name__)

#: Columns of ``references.parquet``; ``text`` is the SHA-256 of the report.
LABEL_SCHEMA: dict[str, pl.DataType] = {
    "record_id": pl.String(),
    "labels": pl.List(pl.Int64()),
    "text": pl.String(),
}
#: Remedy for a file that does not fit, with and without the pipeline.
_REMEDY = (
    "regenerate it: pass a different path to `pacer score-run --labels`, or in the pipeline run "
    "`dvc repro --force --single-item reference_labels`"
)


class CheXbertNetwork(nn.Module):
    """BERT and its 14 heads: 13 of four classes, "No Finding" of two. Dropout is never active.

    Only ``[CLS]`` is read, so after its attention the last block computes only that position.
    """

    def __init__(self, bert: BertModel):
        super().__init__()
        self.bert: BertModel = bert
        width = bert.config.hidden_size
        blocks = bert.config.num_hidden_layers
        self.linear_heads = nn.ModuleList(
            nn.Linear(width, 2 if name == "No Finding" else 4) for name in OBSERVATIONS
        )
        last = bert.get_submodule(f"encoder.layer.{blocks - 1}.attention.output")
        last.register_forward_pre_hook(lambda _, inputs: tuple(states[:, :1] for states in inputs))
        self.eval()

    def train(self, mode: bool = True) -> CheXbertNetwork:
        """Stay in evaluation mode regardless of ``mode``."""
        return super().train(False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> list[Tensor]:
        """Map ids and mask ``[n, pieces]`` to 14 tensors of class scores: 13 of ``[n, 4]``, and the
        last ``[n, 2]``."""
        return self.scores(
            self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        )

    def scores(self, states: Tensor) -> list[Tensor]:
        """Compute the heads' scores from BERT's last states ``[n, 1, width]``."""
        first = states[:, 0]
        return [head(first) for head in self.linear_heads]

    def classes(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the best class of every head, ``[n, 14]``."""
        return torch.stack(
            [scores.argmax(dim=1) for scores in self(input_ids, attention_mask)], dim=1
        )


class CheXbert:
    """Labels reports: 0 blank, 1 positive, 2 negative, 3 uncertain (No Finding: 0 or 1). The
    directory holds ``chexbert.pth``, BERT's ``config.json`` and its tokenizer, or a
    ``pointer.json`` to such a directory. ``batch_size``: reports per forward pass. ``device``: by
    default the first GPU, or the CPU. Raises a BackboneError if a file is missing, is not a
    CheXbert checkpoint, or does not fit the configuration."""

    def __init__(
        self, directory: str | Path, batch_size: int = 64, device: str | torch.device | None = None
    ):
        folder = resolve(directory) if Path(directory).is_dir() else Path(directory)
        # without either tokenizer file, transformers silently creates an empty tokenizer
        tokenizer = "tokenizer.json" if (folder / "tokenizer.json").is_file() else "vocab.txt"
        if missing := [
            name for name in (CHECKPOINT, "config.json", tokenizer) if not (folder / name).is_file()
        ]:
            raise BackboneError(
                f"{folder} lacks {', '.join(missing)}; put the two small files beside {CHECKPOINT} "
                f"with `hf download bert-base-uncased config.json vocab.txt --local-dir {folder}`, "
                "or run the `backbones` stage for a stand-in"
            )
        self.batch_size = batch_size
        self.device = torch.device(device or compute_device())
        self.tokenizer: Any = read_pieces(AutoTokenizer, folder)
        self.network = CheXbertNetwork(BertModel(from_files(BertConfig, folder)))
        _load(self.network, folder / CHECKPOINT)
        self.network.to(self.device)
        self.max_pieces = min(512, self.network.bert.config.max_position_embeddings)

    @torch.inference_mode()
    def __call__(self, reports: list[str]) -> Tensor:
        """Label reports ``[n]`` -> int32 ``[n, 14]``, in the given order; equal texts are labelled
        once. The number of texts that are too long for the labeller is logged."""
        texts = [" ".join(report.split()) for report in reports]
        distinct = list(dict.fromkeys(texts))
        labels = torch.zeros(len(distinct), len(OBSERVATIONS), dtype=torch.int32)
        if not distinct:
            return labels
        encoded = self.tokenizer(distinct, truncation=True, max_length=self.max_pieces)
        pieces = encoded["input_ids"]
        longer = sum(bool(report.overflowing) for report in encoded.encodings)
        if longer:
            _log.warning(
                f"warning: CheXbert reads the first {self.max_pieces} pieces of a text, and "
                f"{longer} of {len(distinct)} texts are longer: findings after them are not in its "
                "labels"
            )
        order = sorted(range(len(distinct)), key=lambda index: len(pieces[index]))
        with Ticker("labelling reports", len(order)) as ticker:
            for start in range(0, len(order), self.batch_size):
                rows = order[start : start + self.batch_size]
                batch = self.tokenizer.pad(
                    {"input_ids": [pieces[row] for row in rows]}, return_tensors="pt"
                )
                classes = self.network.classes(
                    batch["input_ids"].to(self.device), batch["attention_mask"].to(self.device)
                )
                labels[rows] = classes.int().cpu()
                ticker.advance(len(rows))
        position = {text: index for index, text in enumerate(distinct)}
        return labels[[position[text] for text in texts]]

    def columns(self, cases: pl.DataFrame, sides: Sequence[str]) -> list[pl.Series]:
        """Return the labels of columns of texts (null: no text), named ``{side}_labels``, or
        ``{control}_labels`` for the texts of a control."""
        texts = pl.concat([cases[side] for side in sides]).drop_nulls().to_list()
        labels = dict(zip(texts, self(texts).tolist(), strict=True))
        return [
            pl.Series(
                f"{side.removesuffix('_hypothesis')}_labels",
                map(labels.get, cases[side]),
                pl.List(pl.Int64),
            )
            for side in sides
        ]


def _load(network: CheXbertNetwork, path: Path) -> None:
    """Load the checkpoint strictly, but accept ``module.`` prefixes and the old ``position_ids``
    buffer."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    # a damaged or hostile file can raise any error, and torch's message may advise trusting it
    except Exception as error:
        raise BackboneError(
            f"{path} cannot be read as weights ({type(error).__name__}); download it again"
        ) from None
    state = content.get("model_state_dict") if isinstance(content, dict) else None
    if not isinstance(state, dict):
        raise BackboneError(
            f"{path} is not a CheXbert checkpoint: it has no state dictionary under "
            "model_state_dict"
        )
    state = {str(key).removeprefix("module."): value for key, value in state.items()}
    # a buffer saved by older versions of transformers
    state.pop("bert.embeddings.position_ids", None)
    try:
        network.load_state_dict(state)
    except (RuntimeError, AttributeError, TypeError) as error:
        # the message lists missing weights and those of other shapes
        problems = " ".join(str(error).split())
        raise BackboneError(
            f"{path} does not match the config.json next to it: {problems:.500}"
        ) from None


def label_references(records: pl.DataFrame, chexbert_dir: str | Path, out: str | Path) -> None:
    """Write labels of ``records.report``, with the columns of :data:`LABEL_SCHEMA`, to the Parquet
    file ``out``."""
    reports = records["report"].to_list()
    labels = CheXbert(chexbert_dir)(reports).tolist()
    columns = {
        "record_id": records["record_id"],
        "labels": labels,
        "text": list(map(_hash, reports)),
    }
    table = pl.DataFrame(columns, schema=LABEL_SCHEMA)
    about = json.dumps({"labeller": fingerprint(chexbert_dir)})
    with atomic_path(out) as temporary:
        table.write_parquet(temporary, metadata={ABOUT: about})


def known_labels(
    path: str | Path, records: pl.DataFrame, chexbert_dir: str | Path
) -> list[list[int]]:
    """Return the labels ``[n][14]`` of ``records.report`` from a file of :func:`label_references`.
    Raises a DataError if it is missing or malformed, comes from another labeller, or lacks the
    labels of a record's report."""
    table = read_table(path, LABEL_SCHEMA)
    about = read_about(path)
    if about.get("labeller") != fingerprint(chexbert_dir):
        raise DataError(f"{path} comes from a labeller other than {chexbert_dir}; {_REMEDY}")
    by_text = dict(table.select("text", "labels").iter_rows())
    texts = list(map(_hash, records["report"]))
    lacking = [
        record
        for record, text in zip(records["record_id"], texts, strict=True)
        if text not in by_text
    ]
    if lacking:
        raise DataError(
            f"{path} has no labels for the reference of record {lacking[0]}: the labels are for "
            f"different references, or for uncleaned ones; {_REMEDY}"
        )
    return [by_text[text] for text in texts]


def _hash(report: str) -> str:
    return hash_bytes(report.encode("utf-8", "surrogatepass"))
