"""RadEval's scores of every report, as a file for `score.columns` (docs/evaluation.md).

Run it in RadEval's own environment, which `make radeval` creates:

.venv-radeval/bin/python scorers/radeval.py metrics/cases.parquet radeval.parquet [--metrics bleu rouge radgraph ...]
"""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import version
from pathlib import Path

import polars as pl

#: RadEval's metrics that score each report, and the Hugging Face repositories of the weights that each metric needs.
WEIGHTS = {
    "bleu": (),
    "rouge": (),
    "radgraph": ("StanfordAIMI/RRG_scorers",),
    "ratescore": ("Angelakeke/RaTE-NER-Deberta", "FremyCompany/BioLORD-2023-C"),
    "srrbert": ("StanfordAIMI/SRR-BERT-Leaves-with-Statuses",),
    "radcliq": ("StanfordAIMI/RRG_scorers", "distilroberta-base"),
    "green": ("StanfordAIMI/GREEN-radllama2-7b",),
    "crimson": ("rajpurkarlab/medgemma-4b-it-crimson",),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path, help="cases.parquet of a scored run")
    parser.add_argument("out", type=Path, help="Parquet file to write")
    parser.add_argument("--metrics", nargs="+", choices=WEIGHTS, default=["bleu", "rouge"])
    given = parser.parse_args()
    cases = pl.read_parquet(given.cases, columns=["record_id", "reference", "hypothesis"])
    columns = [cases["record_id"]]
    for metric in given.metrics:
        for name, values in evaluate(metric, cases["reference"].to_list(), cases["hypothesis"].to_list()).items():
            columns.append(pl.Series(f"radeval_{name}", [float(value) for value in values]).fill_nan(None))
    pl.DataFrame(columns).write_parquet(given.out)
    print(f"RadEval {version('radeval')}: {len(cases)} records written to {given.out}")
    for repository in dict.fromkeys(name for metric in given.metrics for name in WEIGHTS[metric]):
        print(f"weights of {repository}: {', '.join(snapshots(repository))}")


def evaluate(metric: str, references: list[str], hypotheses: list[str]) -> dict[str, list[float]]:
    """Return the scores of each report by name; exit if the metric cannot be computed."""
    sys.path = [folder for folder in sys.path if Path(folder).resolve() != Path(__file__).resolve().parent]
    from radeval import RadEval  # the package, not this file of the same name

    try:
        evaluator = RadEval(metrics=[metric], per_sample=True, show_progress=False)
    except Exception as error:  # weights, packages, keys: every metric fails in its own way
        wanted = ", ".join(WEIGHTS[metric]) or "what RadEval's README says of it"
        sys.exit(f"RadEval cannot make {metric} ({type(error).__name__}); it needs {wanted}")
    return evaluator(refs=references, hyps=hypotheses)


def snapshots(repository: str) -> list[str]:
    """Return the commits of a hub repository that are in the cache."""
    from huggingface_hub import scan_cache_dir

    cached = [found for found in scan_cache_dir().repos if found.repo_id == repository]
    return sorted(revision.commit_hash for found in cached for revision in found.revisions)


if __name__ == "__main__":
    main()
