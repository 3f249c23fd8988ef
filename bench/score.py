"""Scoring: CheXbert in sorted batches beside one report at a time, NLG of a whole test set, and the second evaluation.

    python bench/score.py [--reports 200] [--pairs 6215] [--repeats 3] > bench/results/score.md

CheXbert has the published architecture (BERT-base) with random weights, on the CPU with all its cores, and reports of
the length of MIMIC-CXR's. One by one is a plain BERT with its heads. That both sides give the same labels is asserted
first, on every report. The sides take turns in blocks of reports: medians, and the range of the ratios of the turns.
The NLG part times each score of 6,215 pairs, the four test sets of MIMIC-RG4 together, once, METEOR's start included.
The second evaluation scores the same references again with another system's reports, its labels of the references
kept from the first. Results are printed as Markdown; a missed bar or another label ends with exit code 1.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import torch
from measuring import Unequal, hardware, in_turns, ratio, table
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from torch import Tensor, nn
from transformers import AutoTokenizer, BertConfig, BertModel

from pacer.metrics.chexbert import CheXbert
from pacer.metrics.chexbert.observations import CHECKPOINT, OBSERVATIONS
from pacer.metrics.chexbert.reference_labels import KnownLabels, label_references
from pacer.metrics.meteor import Meteor
from pacer.metrics.nlg import language_scores, rouge_rows

#: Times faster that sorted batches must be, and seconds that the language scores of all pairs may take.
FASTER, SECONDS = 1.4, 40.0
#: Reports of one turn.
BLOCK = 100
#: Mean and deviation of the words of a report, findings and impression.
LENGTH, SPREAD = 55.0, 25.0

FINDINGS = ("effusion", "pneumothorax", "consolidation", "edema", "atelectasis", "opacity", "fracture", "pneumonia")
SENTENCES = (
    "the {} is {} .",
    "there is no {} or {} .",
    "{} {} is unchanged compared with the prior study .",
    "a small left {} with adjacent {} is seen .",
    "the cardiomediastinal silhouette is {} and the {} are clear .",
    "in the right lower lung zone , {} may represent {} .",
    "no focal {} {} .",
)
FILLERS = (*FINDINGS, "heart", "normal", "lungs", "mildly enlarged", "stable", "bilateral", "improved", "tube", "hila")


def reports(count: int, seed: int) -> list[str]:
    """Reports of sentences in the form of cleaned ones, with lengths spread like those of real reports."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        wanted, words = max(8.0, draw.gauss(LENGTH, SPREAD)), 0
        sentences: list[str] = []
        while words < wanted:
            sentences.append(draw.choice(SENTENCES).format(draw.choice(FILLERS), draw.choice(FILLERS)))
            words += len(sentences[-1].split())
        made.append(" ".join(sentences))
    return made


def make_chexbert(folder: Path, texts: list[str], config: BertConfig) -> Path:
    """A labeller in the original checkpoint format, its weights random and wide enough that labels differ."""
    words = sorted({word for text in texts for word in text.split()})
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]) + "\n")
    torch.manual_seed(0)
    config.save_pretrained(folder)
    state = {f"module.{name}": value for name, value in _network(config).state_dict().items()}
    torch.save({"model_state_dict": state}, folder / CHECKPOINT)
    return folder


class OneByOne:
    """The labeller as it is published: one report in a pass, every position through every block."""

    def __init__(self, folder: Path):
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        state = torch.load(folder / CHECKPOINT, weights_only=True)["model_state_dict"]
        config = BertConfig.from_pretrained(folder, local_files_only=True)
        self.network = _network(config).eval()
        self.network.load_state_dict({name.removeprefix("module."): value for name, value in state.items()})

    @torch.inference_mode()
    def __call__(self, reports: list[str]) -> Tensor:
        return torch.stack([self._label(report) for report in reports])

    def _label(self, report: str) -> Tensor:
        pieces = self.tokenizer(report, truncation=True, max_length=512, return_tensors="pt")
        states = self.network.bert(input_ids=pieces["input_ids"], attention_mask=pieces["attention_mask"])
        first = states.last_hidden_state[:, 0]
        return torch.cat([head(first).argmax(dim=1) for head in self.network.linear_heads]).int()


def _network(config: BertConfig) -> Any:
    network: Any = nn.Module()
    network.bert = BertModel(config)
    network.linear_heads = nn.ModuleList(
        nn.Linear(config.hidden_size, 2 if name == "No Finding" else 4) for name in OBSERVATIONS
    )
    return network


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def chexbert_part(folder: Path, texts: list[str], repeats: int) -> tuple[list[list[str]], float]:
    """Rows of the table, and how many times faster sorted batches are."""
    batched, single = CheXbert(folder, 64, "cpu"), OneByOne(folder)
    expected, found = single(texts), batched(texts)
    if not torch.equal(found, expected):
        differing = int((found != expected).any(dim=1).sum())
        raise Unequal(f"{differing} of {len(texts)} reports have other labels in batches")
    distinct = len(expected.unique(dim=0))
    if distinct < 10:
        raise Unequal(f"the labeller gives {distinct} different rows of labels; equal labels would say little")
    blocks = [texts[start : start + BLOCK] for start in range(0, len(texts), BLOCK)]
    sides = [lambda block: seconds(lambda: batched(block)), lambda block: seconds(lambda: single(block))]
    ours, theirs = in_turns(sides, [[block] * 2 for block in blocks], repeats)
    faster, range_of_turns = ratio(theirs, ours)
    rate = [f"{len(texts) / sorted(side)[len(side) // 2]:.1f}" for side in (ours, theirs)]
    return [[f"{len(texts)} reports, {distinct} rows of labels", *rate, range_of_turns]], faster


def nlg_part(references: list[str], hypotheses: list[str]) -> tuple[list[list[str]], float]:
    """Rows of the table, and the seconds of all language scores together as scoring computes them."""
    pairs = [{row: [text] for row, text in enumerate(side)} for side in (references, hypotheses)]
    rows = [
        ["BLEU-1 to 4", f"{seconds(lambda: Bleu(4).compute_score(*pairs, verbose=0)):.1f}"],
        ["ROUGE-L", f"{seconds(lambda: rouge_rows(references, hypotheses)):.1f}"],
        ["CIDEr", f"{seconds(lambda: Cider().compute_score(*pairs)):.1f}"],
    ]
    started = time.perf_counter()
    with Meteor() as meteor:
        meteor.score(references[:1], hypotheses[:1])
        ready = time.perf_counter()
        meteor.score(references, hypotheses)
        rows += [["METEOR, its start", f"{ready - started:.1f}"], ["METEOR", f"{time.perf_counter() - ready:.1f}"]]

    def everything() -> None:
        with Meteor() as own:
            language_scores(references, hypotheses, own)

    whole = seconds(everything)
    return [*rows, ["all together, in a run of its own", f"{whole:.1f}"]], whole


def second_part(folder: Path, labels: Path, references: list[str], hypotheses: list[str]) -> list[list[str]]:
    """Seconds of labelling for the first evaluation of a set of references and for the next one."""
    records = pl.DataFrame({"record_id": [str(row) for row in range(len(references))], "report": references})
    first = seconds(lambda: (label_references(records, folder, labels), CheXbert(folder)(hypotheses)))
    known: list[list[list[int]]] = []

    def again() -> None:
        labeller = CheXbert(folder)
        known.append(KnownLabels(labels, folder, labeller.precision)(records))
        labeller(hypotheses)

    second = seconds(again)
    if known[0] != CheXbert(folder)(references).tolist():
        raise Unequal("the kept labels of the references are not those that the labeller gives")
    counted = f"{len(references)} references, as many reports"
    return [[counted, f"{first:.1f}", f"{second:.1f}", f"{first / second:.2f}"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reports", type=int, default=200, help="reports for the labeller")
    parser.add_argument("--pairs", type=int, default=6215, help="pairs for the language scores")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    texts = reports(arguments.reports, 0)
    references, hypotheses = reports(arguments.pairs, 1), reports(arguments.pairs, 2)
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as temporary, contextlib.redirect_stderr(io.StringIO()):
        folder = Path(temporary) / "chexbert"
        folder.mkdir()
        make_chexbert(folder, texts, BertConfig(initializer_range=0.05))
        labelled, faster = chexbert_part(folder, texts, arguments.repeats)
        half = len(texts) // 2
        again = second_part(folder, Path(temporary) / "references.parquet", texts[:half], texts[half:])
        scored, whole = nlg_part(references, hypotheses)
    print("# Scoring\n")
    print(
        f"{hardware(torch.device('cpu'))}. Load of the machine at the start: {load:.1f}. Medians of "
        f"{arguments.repeats} turns, in brackets the range of the turns' ratios.\n"
    )
    print("CheXbert, BERT-base with random weights; before the timing both sides gave every report the same labels.\n")
    print("\n".join(table(["", "sorted batches, reports/s", "one by one, reports/s", "times faster"], labelled)))
    print("Labelling for an evaluation, the loading of the labeller included.\n")
    print("\n".join(table(["", "first, s", "next, references known, s", "ratio"], again)))
    print(f"Language scores of {arguments.pairs:,} pairs.\n")
    print("\n".join(table(["", "seconds"], scored)))
    missed = [f"sorted batches are {faster:.2f} times faster, the bar is {FASTER}"] * (faster < FASTER)
    missed += [f"the language scores took {whole:.1f} s, the bar is {SECONDS:.0f} s"] * (whole >= SECONDS)
    met = "missed: " + "; ".join(missed) if missed else "all met"
    print(f"Bars: at least {FASTER} times faster, all language scores in under {SECONDS:.0f} s: {met}.")
    if missed:
        sys.exit(met)


if __name__ == "__main__":
    main()
