"""RadEval's numbers of every scored report, as a file for `score.columns` (docs/evaluation.md).

Run it with RadEval's own environment, which `make radeval` makes:

.venv-radeval/bin/python scorers/radeval.py metrics/cases.parquet radeval.parquet [--metrics bleu rouge radgraph ...]
"""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import version
from pathlib import Path

import polars as pl

#: Metrics of RadEval with a number for each report, and the weights that each wants, by repository of the Hugging Face
#: hub.
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
    """The numbers of each report by name; ends the program where the metric cannot be made."""
    sys.path = [folder for folder in sys.path if Path(folder).resolve() != Path(__file__).resolve().parent]
    from radeval import RadEval  # the package, and not this file, which has its name

    try:
        evaluator = RadEval(metrics=[metric], per_sample=True, show_progress=False)
    except Exception as error:  # weights, packages, keys: every metric fails in its own way
        wanted = ", ".join(WEIGHTS[metric]) or "what RadEval's README says of it"
        sys.exit(f"RadEval cannot make {metric} ({type(error).__name__}); it needs {wanted}")
    return evaluator(refs=references, hyps=hypotheses)


def snapshots(repository: str) -> list[str]:
    """Commits of a repository of the hub that the cache has."""
    from huggingface_hub import scan_cache_dir

    cached = [found for found in scan_cache_dir().repos if found.repo_id == repository]
    return sorted(revision.commit_hash for found in cached for revision in found.revisions)


if __name__ == "__main__":
    main()
