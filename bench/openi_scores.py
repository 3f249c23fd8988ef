"""Open-I: scores of the reports of `bench/openi.py`. Plan and questions: docs/evidence.md, 3.

    python bench/openi_scores.py [FOLDER]     default: bench/results/openi

F1 compares the findings that the rules read as present or uncertain in a report or a commitment
with those in the reference. It counts all findings of a context together (micro) and is averaged
over the contexts. *Chance* is the F1 of the same texts dealt to other patients, the mean of 1,000
deals; *excess* is F1 minus the expected chance. All scores are given for all test reports, and for
those that do not occur word for word among the train reports. Intervals resample patients; they
apply to these trained models, not to other training runs.
"""

from collections.abc import Iterable, Mapping, Sequence
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
from pacer.metrics.statistics.bootstrap import (
    Difference,
    Interval,
    Key,
    Summed,
    by_unit,
    differences,
    holm,
    intervals,
)

PACER, BOTH, BASE = "PACER (+ Calibrate)", "Refine + Commit", "Base"
AGREEMENT, READ, READ_AGREEMENT = (
    "PACER, select: agreement",
    "PACER, read",
    "PACER, read, agreement",
)
ANOTHER, NO_LATERAL = "another_patient", "no_lateral"
REPORT, COMMITMENT = "report", "commitment"
ROWS = (
    BASE,
    "Refine only",
    "Commit only",
    BOTH,
    PACER,
    AGREEMENT,
    READ,
    READ_AGREEMENT,
    NEAREST,
    CONSTANT,
)
DEALS, SEED = 1000, 0
LANGUAGE = ("bleu1", "bleu2", "bleu3", "bleu4", "meteor", "rougeL")


class System(NamedTuple):
    """One side of a comparison: texts (``what``) of a row under a control."""

    row: str
    what: str = REPORT
    control: str = ""

    def __str__(self) -> str:
        return f"{self.row}'s {self.what}s" + (
            f", {self.control.replace('_', ' ')}" if self.control else ""
        )


#: Planned comparisons, first minus second: F1, and against systems that need no training its excess
#: over chance.
QUESTIONS = {
    "Does the commitment use the image?": [
        (System(PACER, COMMITMENT), System(PACER, COMMITMENT, ANOTHER))
    ],
    "Does the report?": [(System(PACER), System(PACER, REPORT, ANOTHER))],
    "Does each step gain?": [
        (System("Refine only"), System(BASE)),
        (System("Commit only"), System(BASE)),
        (System(BOTH), System("Refine only")),
        (System(BOTH), System("Commit only")),
        (System(PACER), System(BOTH)),
        (System(PACER), System(BASE)),
    ],
    "Is it more than the nearest train report?": [(System(PACER), System(NEAREST))],
    "Does a kept commitment help?": [(System(AGREEMENT), System(PACER))],
    "Do findings that are read pay?": [
        (System(READ), System(PACER)),
        (System(READ_AGREEMENT), System(PACER)),
    ],
    "More than agreement has?": [(System(READ_AGREEMENT), System(AGREEMENT))],
}


@cache
def stated(text: str) -> tuple[bool, ...]:
    """Return which findings the rules read as present or uncertain."""
    anchor = extract_anchor(text)
    return tuple(finding in anchor.positive or finding in anchor.uncertain for finding in FINDINGS)


class Corpus:
    """Test records with what their references state, and the texts of every row, replicate and
    control."""

    def __init__(self, records: pl.DataFrame, lines: pl.DataFrame):
        self.test, self.lines = of_split(records, "test").sort("context", "study_id"), lines
        train = of_split(records, "train")
        self.new = ~self.test["report"].is_in(train["report"].implode())
        self.patients = self.test["subject_id"].rank("dense").to_numpy().astype(int) - 1

    def replicates(self, row: str) -> list[str | None]:
        """Return the replicates of a row; a single None if nothing was trained."""
        return (
            self.lines.filter(pl.col("row") == row)["replicate"]
            .unique(maintain_order=True)
            .to_list()
        )

    def texts(self, system: System, replicate: str | None, chosen: pl.Series) -> pl.DataFrame:
        """Return a system's chosen test records, with its ``report`` as ``written`` and its
        ``commitment``."""
        mine = self.lines.filter(
            pl.col("row") == system.row,
            pl.col("control") == system.control,
            pl.col("replicate").eq_missing(pl.lit(replicate, pl.String)),
        ).select("record_id", "commitment", written="report")
        known = self.test.with_columns(patient=self.patients).filter(chosen)
        joined = known.join(mine, on="record_id", how="inner", maintain_order="left")
        if joined.is_empty() or (system.control != NO_LATERAL and len(joined) < len(known)):
            raise SystemExit(
                f"{system}, {replicate}: {len(joined)} of {len(known)} test records have a report"
            )
        return joined


# Findings


def findings(texts: pl.DataFrame, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Return which findings the references and the system's texts affirm, Boolean [n, findings]
    each."""
    there = np.array([stated(text) for text in texts["report_raw"]], dtype=bool)
    if what == REPORT:
        return there, np.array(
            [stated(" ".join(text.split())) for text in texts["written"]], dtype=bool
        )
    lists = [set() if c is None else {*c["positive"], *c["uncertain"]} for c in texts["commitment"]]
    return there, np.array(
        [[finding in affirmed for finding in FINDINGS] for affirmed in lists], dtype=bool
    )


def ratio(agreed: np.ndarray, stated_by_either: np.ndarray) -> np.ndarray:
    """Return F1, which is NaN if neither side states anything."""
    return 2 * agreed / np.where(stated_by_either == 0, np.nan, stated_by_either)


def f1(sums: np.ndarray) -> np.ndarray:
    """Return F1 from sums of the columns of :func:`statistics`."""
    return ratio(sums[..., 0], sums[..., 2:].sum(-1))


def chance(sums: np.ndarray) -> np.ndarray:
    """Return the expected F1 if the texts are dealt at random."""
    there, written = np.split(sums[..., 2:], 2, axis=-1)
    return ratio((there * written).sum(-1) / sums[..., 1], sums[..., 2:].sum(-1))


def statistics(texts: pl.DataFrame, what: str, patients: int) -> dict[Key, Summed]:
    """Count by context and patient: agreed findings, records, and each finding in the references
    and in the texts."""
    summed: dict[Key, Summed] = {}
    for (context,), rows in texts.group_by("context", maintain_order=True):
        there, written = findings(rows, what)
        columns = np.column_stack(
            [(there & written).sum(1), np.ones(len(rows)), there, written]
        ).astype(float)
        sums = by_unit(columns, rows["patient"].to_numpy(), patients)
        for name, score in (("f1", f1), ("excess", lambda sums: f1(sums) - chance(sums))):
            summed[str(context), name] = Summed(sums, score)
    return summed


def deals(texts: pl.DataFrame, what: str) -> np.ndarray:
    """Return F1, averaged over contexts, for each of :data:`DEALS` deals of the texts to other
    patients."""
    draw, values = np.random.default_rng(SEED), []
    for _, rows in texts.group_by("context", maintain_order=True):
        there, written = findings(rows, what)
        agreement = there.astype(float) @ written.T
        dealt = [
            agreement[np.arange(len(rows)), draw.permutation(len(rows))].sum() for _ in range(DEALS)
        ]
        values.append(ratio(np.array(dealt), there.sum() + written.sum()))
    return np.mean(values, axis=0)


def figure(value: float | None) -> str:
    return "–" if value is None or np.isnan(value) else f"{value:.3f}".replace("0.", ".", 1)


def with_interval(score: Interval) -> str:
    return f"{figure(score.value)} ({figure(score.low)} to {figure(score.high)})"


def findings_table(corpus: Corpus, rows: Sequence[str], chosen: pl.Series) -> list[str]:
    """Tabulate F1 of commitments and reports by row and replicate, with chance and controls."""
    lines = []
    for row in rows:
        for replicate in corpus.replicates(row):
            for what in (COMMITMENT, REPORT):
                own = corpus.texts(System(row, what), replicate, chosen)
                if what == COMMITMENT and own["commitment"].null_count() == len(own):
                    continue
                score = intervals(statistics(own, what, corpus.patients.max() + 1))[MEAN]["f1"]
                dealt = deals(own, what)
                cells = [row, replicate or "–", what, with_interval(score)]
                cells += [figure(float(dealt.mean())), figure(float(np.nanquantile(dealt, 0.975)))]
                affirmed = [int(both.sum()) for both in findings(own, what)]
                for control in (ANOTHER, NO_LATERAL):
                    cells.append(controlled(corpus, System(row, what, control), replicate, chosen))
                lines.append([*cells, f"{affirmed[1]} of {affirmed[0]}"])
    heads = ["row", "seed", "text", "F1 (95 %)", "chance", "97.5 % of deals", "another patient's"]
    return table([*heads, "mn without lateral", "findings affirmed, of the references'"], lines)


def controlled(corpus: Corpus, system: System, replicate: str | None, chosen: pl.Series) -> str:
    """Return F1 of a control with its interval; a dash for rows that need no training."""
    if replicate is None:
        return "–"
    texts = corpus.texts(system, replicate, chosen)
    scores = intervals(statistics(texts, system.what, corpus.patients.max() + 1))
    return with_interval(scores.get(MEAN, next(iter(scores.values())))["f1"])


def difference(
    corpus: Corpus, first: System, second: System, chosen: pl.Series
) -> tuple[Difference, Difference, str]:
    """Return the differences of F1 and of its excess over chance over all replicates, and of F1 in
    each replicate."""
    sides: tuple[dict[Key, Summed], dict[Key, Summed]] = ({}, {})
    each = []
    for replicate in corpus.replicates(first.row):
        own: list[dict[Key, Summed]] = []
        for system in (first, second):
            known = replicate if replicate in corpus.replicates(system.row) else None
            own.append(
                statistics(
                    corpus.texts(system, known, chosen), system.what, corpus.patients.max() + 1
                )
            )
        for side, parts in zip(sides, own, strict=True):
            side.update(
                {(f"{context} {replicate}", name): part for (context, name), part in parts.items()}
            )
        apart = differences(own[1], own[0], resamples=1)[MEAN]["f1"].difference
        each.append(figure(apart) if apart is None or apart < 0 else f"+{figure(apart)}")
    found = differences(sides[1], sides[0])[MEAN]
    return found["f1"], found["excess"], " ".join(each)


def signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.3f}".replace("0.", ".", 1)


def questions_table(
    corpus: Corpus, questions: Mapping[str, Sequence[tuple]], chosen: pl.Series
) -> list[str]:
    """Tabulate the differences of all ``questions``; Holm's p covers all of them."""
    rows, tested = [], []
    for pairs in questions.values():
        for first, second in pairs:
            gain, excess, each = difference(corpus, first, second, chosen)
            cells = [f"{first} − {second}"]
            for part in (gain, excess):
                cells.append(
                    f"{signed(part.difference)} ({signed(part.low)} to {signed(part.high)})"
                )
            rows.append([*cells, each])
            tested.append(gain.p)
    adjusted = [figure(p) for p in holm(tested)]
    cells = [[*row, p] for row, p in zip(rows, adjusted, strict=True)]
    return table(
        ["difference", "F1 (95 %)", "excess over chance (95 %)", "F1 by seed", "p (Holm)"], cells
    )


# Language


def language_table(corpus: Corpus, rows: Sequence[str], chosen: pl.Series) -> list[str]:
    """Tabulate language scores by row and replicate, as means over the contexts."""
    lines = []
    for row in rows:
        for replicate in corpus.replicates(row):
            texts = corpus.texts(System(row), replicate, chosen)
            parts = [
                scored(part["report"], part["written"]) for _, part in texts.group_by("context")
            ]
            means = [np.mean([score[name] for score in parts]) for name in LANGUAGE]
            lines.append([row, replicate or "–", *map(figure, means)])
    return table(["row", "seed", *LANGUAGE], lines)


def scored(references: Iterable[str], written: Iterable[str]) -> Mapping[str, float | None]:
    """Return the language scores of pairs."""
    sides = {"reference": references, "hypothesis": written}
    pairs = pl.DataFrame(
        {side: [" ".join(text.split()) for text in texts] for side, texts in sides.items()}
    )
    context = Context(with_overlap(pairs).with_columns(meteor_columns(pairs)), "llm-rg4")
    return {key: value for name in LANGUAGE for key, value in score_of(name).of(context).items()}


def main() -> None:
    folder = {
        "type": Path,
        "nargs": "?",
        "default": RESULTS,
        "help": f"of the files; default: {RESULTS}",
    }
    options = options_of(__doc__, ("folder", folder))
    corpus = Corpus(read_records(RECORDS), read_lines(options.folder))
    rows = [row for row in ROWS if corpus.replicates(row)]
    everything = pl.Series([True] * len(corpus.test))
    for title, chosen in (
        ("all test reports", everything),
        ("test reports that are not in train", corpus.new),
    ):
        counts = corpus.test.filter(chosen)["context"].value_counts(sort=True)
        print(
            f"# Scores of {title} "
            f"({', '.join(f'{n} in {context}' for context, n in counts.rows())})\n"
        )
        print("\n".join(["## Findings", "", *findings_table(corpus, rows, chosen)]))
        print(
            "\n".join(["## Planned differences", "", *questions_table(corpus, QUESTIONS, chosen)])
        )
        print("\n".join(["## Language", "", *language_table(corpus, rows, chosen)]))


if __name__ == "__main__":
    main()
