"""RadEval's metrics as an external scorer; to be run by RadEval's own environment (`make radeval`, docs/scoring.md).

python scorers/radeval.py [--metrics bleu rouge radgraph ...] --references R.jsonl --hypotheses H.jsonl --out DIR
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib.metadata import version
from pathlib import Path

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
    parser.add_argument("--metrics", nargs="+", choices=WEIGHTS, default=["bleu", "rouge"])
    for name in ("--references", "--hypotheses", "--out"):
        parser.add_argument(name, type=Path, required=True)
    given = parser.parse_args()
    references, hypotheses = (read(path) for path in (given.references, given.hypotheses))
    scores: dict[str, dict[str, float]] = {key: {} for key in references}
    for metric in given.metrics:
        for name, values in evaluate(
            metric, list(references.values()), [hypotheses[key] for key in references]
        ).items():
            for key, value in zip(references, values, strict=True):
                scores[key][name] = float(value)
    about = {
        "name": "RadEval",
        "version": version("radeval"),
        "metrics": given.metrics,
        "weights": {repository: snapshots(repository) for metric in given.metrics for repository in WEIGHTS[metric]},
        "packages": {name: version(name) for name in ("torch", "transformers", "rouge_score")},
    }
    (given.out / "about.json").write_text(json.dumps(about), encoding="utf-8")
    lines = (json.dumps({"record_id": key, **values}) + "\n" for key, values in scores.items())
    (given.out / "scores.jsonl").write_text("".join(lines), encoding="utf-8")


def read(path: Path) -> dict[str, str]:
    """Text by record."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return {row["record_id"]: row["text"] for row in map(json.loads, filter(None, lines))}


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
