"""Open-I: scores of the reports of `bench/openi.py`. Plan and questions: docs/evidence.md, 3.

    python bench/openi_scores.py [FOLDER]     # default: bench/results/openi

F1 compares the findings that the rules read as present or uncertain in a report or a commitment
with those in the reference. It counts all findings of a context together (micro) and is averaged
over the contexts. *Chance* is the F1 of the same texts dealt to other patients, the mean of 1,000
deals; *excess* is F1 minus the expected chance. Intervals and p values come from random halves of
the patients; they apply to these trained models, not to other training runs.
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from measuring import options_of, table
from openi import CONSTANT, NEAREST, RECORDS, RESULTS, read_lines

from pacer.commitments.rules.extract import extract_anchor
from pacer.data.findings import FINDINGS
from pacer.data.schemas import of_split, read_records
from pacer.metrics.cases import MEAN
from pacer.metrics.nlg import meteor_columns, with_overlap
from pacer.metrics.score_kinds import Context
from pacer.metrics.scores import score_of
from pacer.metrics.statistics.halves import Key, Summed, by_unit, differences, holm, intervals

BASE, REFINE, COMMIT = "Base", "Refine only", "Commit only"
BOTH, PACER, AGREEMENT = "Refine + Commit", "PACER (+ Calibrate)", "PACER, select: agreement"
READ, READ_AGREEMENT = "PACER, read", "PACER, read, agreement"
ROWS = (BASE, REFINE, COMMIT, BOTH, PACER, AGREEMENT, READ, READ_AGREEMENT, NEAREST, CONSTANT)
ANOTHER, NO_LATERAL, REPORT, COMMITMENT = "another_patient", "no_lateral", "report", "commitment"
DEALS, SEED = 1000, 0
LANGUAGE = ("bleu1", "bleu2", "bleu3", "bleu4", "meteor", "rougeL")


class System(NamedTuple):
    """One side of a comparison: texts (``what``) of a row under a control."""

    row: str
    what: str = REPORT
    control: str = ""

    def __str__(self) -> str:
        control = f", {self.control.replace('_', ' ')}" if self.control else ""
        return f"{self.row}'s {self.what}s{control}"


#: Planned comparisons, first minus second.
PLANNED = [
    (System(PACER, COMMITMENT), System(PACER, COMMITMENT, ANOTHER)),
    (System(PACER), System(PACER, REPORT, ANOTHER)),
]
PLANNED += [
    (System(first), System(second))
    for first, second in (
        (REFINE, BASE),
        (COMMIT, BASE),
        (BOTH, REFINE),
        (BOTH, COMMIT),
        (PACER, BOTH),
        (PACER, BASE),
        (PACER, NEAREST),
        (AGREEMENT, PACER),
        (READ, PACER),
        (READ_AGREEMENT, PACER),
        (READ_AGREEMENT, AGREEMENT),
    )
]


@cache
def stated(text: str) -> tuple[bool, ...]:
    """Return which findings the rules read as present or uncertain."""
    anchor = extract_anchor(text)
    return tuple(finding in anchor.positive or finding in anchor.uncertain for finding in FINDINGS)


class Corpus:
    """Test records, and the texts of every row, replicate and control."""

    def __init__(self, records: pl.DataFrame, lines: pl.DataFrame):
        patient = pl.col("subject_id").rank("dense").cast(pl.Int64) - 1
        test = of_split(records, "test").sort("context", "study_id").with_columns(patient=patient)
        self.test, self.lines = test, lines
        self.patients = test["patient"].n_unique()

    def replicates(self, row: str) -> list[str | None]:
        """Return the replicates of a row; a single None if nothing was trained."""
        return self.lines.filter(row=row)["replicate"].unique(maintain_order=True).to_list()

    def texts(self, system: System, replicate: str | None) -> pl.DataFrame:
        """Return the test records with a system's report as ``written`` and its ``commitment``."""
        of_replicate = pl.col("replicate").eq_missing(pl.lit(replicate, pl.String))
        mine = self.lines.filter(of_replicate, row=system.row, control=system.control)
        mine = mine.select("record_id", "commitment", written="report")
        joined = self.test.join(mine, on="record_id", how="inner", maintain_order="left")
        if joined.is_empty() or (system.control != NO_LATERAL and len(joined) < len(self.test)):
            found = f"{len(joined)} of {len(self.test)}"
            raise SystemExit(f"{system}, {replicate}: {found} test records have a report")
        return joined

    def counts(self, system: System, replicate: str | None) -> dict[Key, Summed]:
        """Count by context and patient: agreed findings, records, and each finding in the
        references and in the texts."""
        summed: dict[Key, Summed] = {}
        texts = self.texts(system, replicate)
        for (context,), rows in texts.group_by("context", maintain_order=True):
            there, written = findings(rows, system.what)
            agreed = (there & written).sum(1)
            columns = np.column_stack([agreed, np.ones(len(rows)), there, written]).astype(float)
            sums = by_unit(columns, rows["patient"].to_numpy(), self.patients)
            summed[str(context), "f1"] = Summed(sums, f1)
            summed[str(context), "excess"] = Summed(sums, excess)
        return summed


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


def ratio(agreed: np.ndarray, stated_by_either: np.ndarray) -> np.ndarray:
    """Return F1, which is NaN if neither side states anything."""
    return 2 * agreed / np.where(stated_by_either == 0, np.nan, stated_by_either)


def f1(sums: np.ndarray) -> np.ndarray:
    """Return F1 from sums of the columns of :meth:`Corpus.counts`."""
    return ratio(sums[..., 0], sums[..., 2:].sum(-1))


def excess(sums: np.ndarray) -> np.ndarray:
    """Return F1 minus its expectation if the texts are dealt at random."""
    there, written = np.split(sums[..., 2:], 2, axis=-1)
    return f1(sums) - ratio((there * written).sum(-1) / sums[..., 1], sums[..., 2:].sum(-1))


def deals(texts: pl.DataFrame, what: str) -> np.ndarray:
    """Return F1, averaged over contexts, for each of :data:`DEALS` deals of the texts to other
    patients."""
    draw, values = np.random.default_rng(SEED), []
    for _, rows in texts.group_by("context", maintain_order=True):
        there, written = findings(rows, what)
        agreement, own = there.astype(float) @ written.T, np.arange(len(rows))
        dealt = [agreement[own, draw.permutation(len(rows))].sum() for _ in range(DEALS)]
        values.append(ratio(np.array(dealt), there.sum() + written.sum()))
    return np.mean(values, axis=0)


def figure(value: float | None, sign: str = "") -> str:
    if value is None or np.isnan(value):
        return "–"
    return f"{value:{sign}.3f}".replace("0.", ".", 1)


def with_interval(
    value: float | None, low: float | None, high: float | None, sign: str = ""
) -> str:
    return f"{figure(value, sign)} ({figure(low, sign)} to {figure(high, sign)})"


def findings_table(corpus: Corpus, rows: list[str]) -> list[str]:
    """Tabulate F1 of commitments and reports by row and replicate, with chance and controls."""
    lines = []
    for row in rows:
        for replicate in corpus.replicates(row):
            for what in (COMMITMENT, REPORT):
                own = corpus.texts(System(row, what), replicate)
                if what == COMMITMENT and own["commitment"].null_count() == len(own):
                    continue
                cells = [row, replicate or "–", what]
                for control in ("", ANOTHER, NO_LATERAL):
                    if control and replicate is None:
                        cells.append("–")  # needs no training
                        continue
                    scores = intervals(corpus.counts(System(row, what, control), replicate))
                    one = scores.get(MEAN, next(iter(scores.values())))["f1"]
                    cells.append(with_interval(one.value, one.low, one.high))
                dealt = deals(own, what)
                chance = float(dealt.mean()), float(np.nanquantile(dealt, 0.975))
                cells[4:4] = map(figure, chance)
                affirmed = [both.sum() for both in findings(own, what)]
                lines.append([*cells, f"{affirmed[1]} of {affirmed[0]}"])
    heads = ["row", "seed", "text", "F1 (95 %)", "chance", "97.5 % of deals", "another patient's"]
    return table([*heads, "mn without lateral", "findings affirmed, of the references'"], lines)


def difference_cells(
    corpus: Corpus, first: System, second: System
) -> tuple[list[str], float | None]:
    """Return the differences of F1 and of its excess over chance over all replicates, and of F1 in
    each replicate, as text; and the p of F1's."""
    ours, theirs, each = dict[Key, Summed](), dict[Key, Summed](), []
    untrained = corpus.replicates(second.row) == [None]
    for replicate in corpus.replicates(first.row):
        mine = corpus.counts(first, replicate)
        other = corpus.counts(second, None if untrained else replicate)
        each.append(figure(differences(other, mine, resamples=19)[MEAN]["f1"].difference, "+"))
        ours |= {(f"{key[0]} {replicate}", key[1]): sums for key, sums in mine.items()}
        theirs |= {(f"{key[0]} {replicate}", key[1]): sums for key, sums in other.items()}
    found = differences(theirs, ours)[MEAN]
    cells = [f"{first} − {second}"]
    for one in (found["f1"], found["excess"]):
        cells.append(with_interval(one.difference, one.low, one.high, "+"))
    return [*cells, " ".join(each)], found["f1"].p


def planned_table(corpus: Corpus) -> list[str]:
    """Tabulate the planned differences; Holm's p covers all of them."""
    cells, tested = zip(*(difference_cells(corpus, *pair) for pair in PLANNED), strict=True)
    rows = [[*row, figure(p)] for row, p in zip(cells, holm(tested), strict=True)]
    heads = ["difference", "F1 (95 %)", "excess over chance (95 %)", "F1 by seed", "p (Holm)"]
    return table(heads, rows)


def language_table(corpus: Corpus, rows: list[str]) -> list[str]:
    """Tabulate language scores by row and replicate, as means over the contexts."""
    lines = []
    for row in rows:
        for replicate in corpus.replicates(row):
            parts = corpus.texts(System(row), replicate).partition_by("context")
            scores = [language(part) for part in parts]
            means = [figure(np.mean([one[name] for one in scores])) for name in LANGUAGE]
            lines.append([row, replicate or "–", *means])
    return table(["row", "seed", *LANGUAGE], lines)


def language(texts: pl.DataFrame) -> dict[str, float | None]:
    """Return the language scores of the texts of a context."""
    sides = {"reference": texts["report"], "hypothesis": texts["written"]}
    pairs = pl.DataFrame(
        {side: [" ".join(one.split()) for one in of] for side, of in sides.items()}
    )
    context = Context(with_overlap(pairs).with_columns(meteor_columns(pairs)), "llm-rg4")
    return {key: value for name in LANGUAGE for key, value in score_of(name).of(context).items()}


def main() -> None:
    folder = {"type": Path, "nargs": "?", "help": f"of the files; default: {RESULTS}"}
    options = options_of(__doc__, folder=folder)
    corpus = Corpus(read_records(RECORDS), read_lines(options.folder or RESULTS))
    rows = [row for row in ROWS if corpus.replicates(row)]
    counts = corpus.test["context"].value_counts(sort=True).rows()
    print(f"# Scores of all test reports ({', '.join(f'{n} in {name}' for name, n in counts)})\n")
    print(*["## Findings", "", *findings_table(corpus, rows)], sep="\n")
    print(*["## Planned differences", "", *planned_table(corpus)], sep="\n")
    print(*["## Language", "", *language_table(corpus, rows)], sep="\n")


if __name__ == "__main__":
    main()
