"""RadEval's scores of every report, as a file for `score.columns` (docs/evaluation.md).

Run it in RadEval's own environment, which `make radeval` creates:

.venv-radeval/bin/python scorers/radeval.py metrics/cases.parquet radeval.parquet [--metrics bleu
rouge radgraph ...]

Of the texts of `pacer certify make`, cards/texts.csv, it writes a table with `id` and `score` for
each score into a folder, for `pacer certify score cards radeval/*.csv`:

.venv-radeval/bin/python scorers/radeval.py cards/texts.csv radeval --metrics radgraph green

`crimson` weights errors by the patient's indication, which it reads from `--records
data/corpus/records.parquet`.
"""

import argparse
import sys
from importlib.metadata import version
from pathlib import Path

import polars as pl

#: RadEval's metrics that score each report, and the Hugging Face repositories of the weights that
#: each metric needs. ``radgraph_radcliq``: entities and relations; ``semb``: the cosine of
#: CheXbert's embeddings, both parts of RadCliQ.
WEIGHTS = {
    "bleu": (),
    "rouge": (),
    "bertscore": ("distilbert-base-uncased",),
    "semb": ("StanfordAIMI/RRG_scorers",),
    "radgraph": ("StanfordAIMI/RRG_scorers",),
    "radgraph_radcliq": ("StanfordAIMI/RRG_scorers",),
    "temporal": (),
    "ratescore": ("Angelakeke/RaTE-NER-Deberta", "FremyCompany/BioLORD-2023-C"),
    "srrbert": ("StanfordAIMI/SRR-BERT-Leaves-with-Statuses",),
    "radcliq": ("StanfordAIMI/RRG_scorers", "distilroberta-base"),
    "green": ("StanfordAIMI/GREEN-radllama2-7b",),
    "crimson": ("rajpurkarlab/medgemma-4b-it-crimson",),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", type=Path, help="cases.parquet of a scored run, or texts.csv")
    parser.add_argument("out", type=Path, help="Parquet file to write; of texts.csv a folder")
    parser.add_argument("--metrics", nargs="+", choices=WEIGHTS, default=["bleu", "rouge"])
    parser.add_argument(
        "--records", type=Path, help="records.parquet with the indications, for crimson"
    )
    given = parser.parse_args()
    if "crimson" in given.metrics and given.records is None:
        parser.error(
            "crimson needs --records, a table with record_id and indication "
            "(data/corpus/records.parquet)"
        )
    if given.cases.suffix == ".csv":
        texts = pl.read_csv(given.cases, infer_schema=False, glob=False)
        cases = texts.select("reference", record_id="id", hypothesis="text")
    else:
        names = ["record_id", "reference", "hypothesis"]
        cases = pl.read_parquet(given.cases, columns=names, glob=False)
    columns, contexts = [cases["record_id"]], patient_contexts(cases["record_id"], given.records)
    for metric in given.metrics:
        for name, values in evaluate(
            metric, cases["reference"].to_list(), cases["hypothesis"].to_list(), contexts
        ).items():
            columns.append(
                pl.Series(f"radeval_{name}", [float(value) for value in values]).fill_nan(None)
            )
    if given.cases.suffix == ".csv":
        given.out.mkdir(parents=True, exist_ok=True)
        for column in columns[1:]:
            table = pl.DataFrame({"id": columns[0], "score": column})
            table.write_csv(given.out / f"{column.name}.csv")
    else:
        pl.DataFrame(columns).write_parquet(given.out)
    print(f"RadEval {version('radeval')}: {len(cases)} records written to {given.out}")
    for repository in dict.fromkeys(name for metric in given.metrics for name in WEIGHTS[metric]):
        print(f"weights of {repository}: {', '.join(snapshots(repository))}")


def patient_contexts(record_ids: pl.Series, records: Path | None) -> list[dict[str, str] | None]:
    """Return what is known of each patient; None where a record has no indication. Exit if a record
    is missing."""
    if records is None:
        return [None] * len(record_ids)
    known = dict(
        pl.read_parquet(records, columns=["record_id", "indication"], glob=False).iter_rows()
    )
    if missing := [record_id for record_id in record_ids if record_id not in known]:
        sys.exit(f"{records} lacks {len(missing)} of the scored records, such as {missing[0]}")
    return [
        {"indication": known[record_id]} if known[record_id] else None for record_id in record_ids
    ]


def evaluate(
    metric: str, references: list[str], hypotheses: list[str], contexts: list[dict[str, str] | None]
) -> dict[str, list[float]]:
    """Return the scores of each report by name; exit if the metric cannot be computed."""
    sys.path = [
        folder for folder in sys.path if Path(folder).resolve() != Path(__file__).resolve().parent
    ]
    try:
        if metric == "crimson":  # RadEval's own call of it has no patient contexts
            from radeval.metrics.crimson.crimson import CRIMSON

            _, _, scores, *_ = CRIMSON(provider="hf")(
                references, hypotheses, patient_contexts=contexts
            )
            return {"crimson": scores}
        if metric == "semb":  # RadEval has it within RadCliQ alone
            return {"semb": embedding_scores(references, hypotheses)}
        from radeval import RadEval  # the package, not this file of the same name

        evaluator = RadEval(metrics=[metric], per_sample=True, show_progress=False)
    except ModuleNotFoundError as error:
        sys.exit(
            f"RadEval cannot compute {metric}: package {error.name!r} is not installed; run `make "
            "radeval`"
        )
    except Exception as error:  # weights, keys: every metric fails in its own way
        wanted = ", ".join(WEIGHTS[metric]) or "what RadEval's README says of it"
        sys.exit(f"RadEval cannot compute {metric} ({type(error).__name__}); it needs {wanted}")
    return evaluator(refs=references, hyps=hypotheses)


def embedding_scores(references: list[str], hypotheses: list[str]) -> list[float]:
    """Return the cosine of CheXbert's embeddings of each pair, as in RadEval's RadCliQ; 0 for a
    zero vector."""
    import numpy as np
    import torch
    from radeval.metrics.f1chexbert import F1CheXbert

    chexbert = F1CheXbert(device="cuda" if torch.cuda.is_available() else "cpu")
    first, second = (
        np.vstack(chexbert.get_embeddings(texts)) for texts in (references, hypotheses)
    )
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.divide(
        (first * second).sum(axis=1), norms, out=np.zeros_like(norms), where=norms > 0
    ).tolist()


def snapshots(repository: str) -> list[str]:
    """Return the commits of a hub repository that are in the cache."""
    from huggingface_hub import scan_cache_dir

    cached = [found for found in scan_cache_dir().repos if found.repo_id == repository]
    return sorted(revision.commit_hash for found in cached for revision in found.revisions)


if __name__ == "__main__":
    main()
