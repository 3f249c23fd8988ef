"""Open-I: how likely the reference reports of val are to each finished run, so what no search can hide.

``python bench/openi_likelihood.py``, after `pacer study run openi` (or `openi_longer`) in a tree whose `params.yaml` is
the profile `openi`, prints the nats of the references' commitments and reports, and the differences to those with
another patient's radiographs and, of a report, to those after another patient's commitment (95 %, Student's t; below
0: its own make it likelier). The table of ``docs/evidence.md``, part 3.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import torch
from openi import fetch, finished, other_radiographs, trained
from scipy.stats import ttest_1samp

from pacer.core.progress import Ticker
from pacer.features.store import FeatureStore
from pacer.model.assemble import load_model, load_tokenizer
from pacer.model.pacer import Batch, Pacer
from pacer.records.schemas import of_split, read_records
from pacer.training.examples import Examples
from pacer.training.record_table import RecordTable


def main() -> None:
    columns = "commitment", "own − other radiographs", "report", "own − other radiographs", "own − other commitment"
    print(f"| System | seed | context | {' | '.join(columns)} |\n|:---|---:|:---|---:|:---|---:|:---|:---|")
    for (row, seed), run in finished().items():
        for context, (own, radiographs, commitment) in nats(run).items():
            means = [f"{mean:.2f}" for mean in own.mean(0)]
            reports = [beside(own, other, 1) for other in (radiographs, commitment)]
            cells = " | ".join([means[0], beside(own, radiographs, 0), means[1], *reports])
            print(f"| {row} | {seed} | {context} | {cells} |", flush=True)


def beside(own: np.ndarray, other: np.ndarray, span: int) -> str:
    """Mean difference in one of the spans; a dash where nothing differs."""
    less = (own - other)[:, span]
    if not less.any():
        return "–"
    low, high = ttest_1samp(less, 0.0).confidence_interval()
    return f"{less.mean():+.2f} ({low:+.2f} to {high:+.2f})"


@torch.no_grad()
def nats(run: Path) -> dict[str, list[np.ndarray]]:
    """Context -> negative log-likelihood [n, 2] of val's commitments and reports (their references, on the route of
    inference): as they are, with another patient's radiographs, and with another patient's commitment."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        corpus, store, frozen, model = trained(run, folder)
        anchors = fetch(run, "data/anchors/anchors.parquet", folder)
        val = of_split(read_records(corpus / "records.parquet"), "val").sort("context", "record_id")
        val = val.with_columns(emphasis=pl.lit(None, pl.List(pl.Float32)))
        own = val.select("record_id").join(pl.read_parquet(anchors), on="record_id", maintain_order="left")
        exchanged = pl.concat([own[1:], own[:1]]).with_columns(own["record_id"])
        pacer, record = load_model(model, frozen)
        found: dict[str, list[np.ndarray]] = {}
        for given, commitments in ((val, own), (other_radiographs(val), own), (val, exchanged)):
            table = RecordTable.of(given, commitments)
            examples = Examples(table, load_tokenizer(frozen), FeatureStore(store), record.model)
            for context, rows in table.rows("val", ("sn", "mn")).items():
                costs, parts = [], np.array_split(rows, -(-len(rows) // 8))
                with Ticker(context, len(parts)) as ticker:
                    for part in parts:
                        costs.append(cost(pacer, examples.batch(part, [record.model.commits] * len(part), 0.0)))
                        ticker.advance()
                found.setdefault(context, []).append(np.concatenate(costs))
    return found


def cost(model: Pacer, batch: Batch) -> np.ndarray:
    """Negative log-likelihood [B, 2] of commitment and report of a batch that was made with lambda_q 0, so that a
    commitment has weight 0."""
    inputs, _, _ = model.calibrate(model.embed(batch), batch)
    logits = model.target_logits(model.hidden(inputs, batch.predicting), batch)
    nll = torch.nn.functional.cross_entropy(logits, batch.ids[batch.predicted], reduction="none")
    spread = torch.zeros(batch.ids.shape).masked_scatter(batch.predicted, nll)
    assert batch.weight is not None
    return torch.stack([(spread * (batch.weight == side)).sum(1) for side in (0, 1)], 1).double().numpy()


if __name__ == "__main__":
    main()
