"""Open-I: scores of the reports of `bench/openi.py`. Plan and questions: docs/evidence.md, 3.

    python bench/openi_scores.py   # writes bench/results/openi/scores.json

F1 compares the findings that the rules read as present or uncertain in a report or a commitment
with those in the reference. It counts all findings of a context together (micro) and is averaged
over the contexts. `chance` is the F1 of the same texts dealt to other patients, the mean of 1,000
deals; `another_patient`, the F1 of the texts written from another patient's inputs. Intervals and
the planned differences in `answers.md` are of this script at commit 89465e02.
"""

from functools import cache
from typing import Any

import numpy as np
import polars as pl
from openi import CONSTANT, NEAREST, RECORDS, RESULTS, read_lines

from pacer.core.findings import FINDINGS
from pacer.core.io import write_json
from pacer.core.schemas import of_split, read_records
from pacer.metrics.language import rouge_l
from pacer.metrics.score_kinds import ContextCases
from pacer.metrics.scores import score_of
from pacer.text.rules import extract_anchor

ROWS = ("Base", "Refine only", "Commit only", "Refine + Commit", "PACER (+ Calibrate)")
ROWS += ("PACER, select: agreement", "PACER, read", "PACER, read, agreement", NEAREST, CONSTANT)
ANOTHER, REPORT, COMMITMENT = "another_patient", "report", "commitment"
DEALS, SEED = 1000, 0
LANGUAGE = ("bleu4", "rougeL")


@cache
def stated(text: str) -> tuple[bool, ...]:
    """Return which findings the rules read as present or uncertain."""
    anchor = extract_anchor(text)
    return tuple(finding in anchor.positive or finding in anchor.uncertain for finding in FINDINGS)


def findings(texts: pl.DataFrame, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Return which findings the references and the system's texts affirm, Boolean [n, findings]
    each."""
    there = np.array([stated(text) for text in texts["report_raw"]], dtype=bool)
    if what == REPORT:
        written = [stated(" ".join(text.split())) for text in texts["written"]]
    else:
        lists = texts["commitment"].to_list()
        named = [{*c["positive"], *c["uncertain"]} if c else set() for c in lists]
        written = [tuple(finding in one for finding in FINDINGS) for one in named]
    return there, np.array(written, dtype=bool)


def f1_and_chance(texts: pl.DataFrame, what: str) -> tuple[float, float]:
    """Return the F1 of the texts, and its mean over the deals."""
    draw, own, dealt = np.random.default_rng(SEED), [], []
    for _, rows in texts.group_by("context", maintain_order=True):
        there, written = findings(rows, what)
        # of all texts, each with the reference of every record
        agreement = 2 * there.astype(float) @ written.T / max(there.sum() + written.sum(), 1)
        places = np.arange(len(rows))
        own.append(agreement.trace())
        dealt += [agreement[places, draw.permutation(len(rows))].sum() for _ in range(DEALS)]
    return float(np.mean(own)), float(np.mean(dealt))


def language(texts: pl.DataFrame) -> dict[str, float]:
    """Return the means over the contexts of the language scores."""
    contexts = []
    for part in texts.partition_by("context"):
        sides = {"reference": part["report"], "hypothesis": part["written"]}
        single = {side: [" ".join(one.split()) for one in of] for side, of in sides.items()}
        cases = pl.DataFrame(single)
        rows = list(map(rouge_l, cases["reference"], cases["hypothesis"]))
        contexts.append(ContextCases(cases.with_columns(rougeL=pl.Series(rows)), "llm-rg4"))
    return {
        name: float(np.mean([score_of(name).of(context)[name] for context in contexts]))
        for name in LANGUAGE
    }


def scores(test: pl.DataFrame, lines: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the scores of each row's commitments and reports by replicate. ``lines``: texts of
    all test records, by row, replicate and control."""
    found = []
    for row in ROWS:
        of_row = lines.filter(row=row).rename({"report": "written"})
        for replicate in of_row["replicate"].unique(maintain_order=True):
            mine = of_row.filter(pl.col("replicate").eq_missing(pl.lit(replicate, pl.String)))
            own, other = (
                test.join(mine.filter(control=control), on="record_id", maintain_order="left")
                for control in ("", ANOTHER)
            )
            if len(own) < len(test):
                raise SystemExit(f"{row}, {replicate}: {len(own)} of {len(test)} records")
            for what in (COMMITMENT, REPORT):
                if what == REPORT or own["commitment"].null_count() < len(own):
                    one = {"row": row, "seed": replicate, "text": what}
                    values = dict(zip(("f1", "chance"), f1_and_chance(own, what), strict=True))
                    if len(other):
                        values[ANOTHER] = f1_and_chance(other, what)[0]
                    if what == REPORT:
                        values |= language(own)
                    found.append(one | {key: round(value, 3) for key, value in values.items()})
    return found


def main() -> None:
    test = of_split(read_records(RECORDS), "test").sort("context", "study_id")
    write_json(RESULTS / "scores.json", scores(test, read_lines(RESULTS)))


if __name__ == "__main__":
    main()
