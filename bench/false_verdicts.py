"""How often does the probe give a false verdict? Simulated systems with a known effect (docs/results.md).

    python bench/false_verdicts.py      writes bench/results/false_verdicts.md; some five minutes

Each system is judged on thirteen findings, or on one, with as many patients for each. "Looks elsewhere in the image"
and "regardless of the image" are false if the true effect is .1, where they are hardest to avoid, and "looks at the
right place" if there is none. The seeds are the numbers of patients. Last, the test that finds no effect, at a true
effect of .1, for patients with four records each that are half of the time alike.
"""

from pathlib import Path

import numpy as np
import polars as pl

from pacer.metrics.probe import use
from pacer.metrics.probe.make import COVERED, ELSEWHERE, GIVEN
from pacer.metrics.probe.use import FINDINGS, MEAN_PICTURE, Verdict, finding_uses

RESULT = Path(__file__).parent / "results" / "false_verdicts.md"
SIZES, SYSTEMS, RESAMPLES = (10, 20, 50, 100), 100, 500
CHANGES = (GIVEN, ELSEWHERE, COVERED, "another_radiograph", MEAN_PICTURE)
#: False verdict, and the rates at which reports affirm a finding, by change.
FALSE = {
    Verdict.NOT_THERE: (1.0, 1.0, 0.9, 0.1, 0.1),
    Verdict.WITHOUT: (1.0, 1.0, 1.0, 0.9, 0.9),
    Verdict.THERE: (0.9, 0.9, 0.9, 0.1, 0.1),
}


def key(rates: tuple[float, ...], patients: int, findings: list[str], draw: np.random.Generator) -> pl.DataFrame:
    """Return the rows of a system: patients who have a finding, and as many without, whose pictures the others get."""
    names = [f"{finding}{number}" for finding in findings for number in range(patients)]
    having, rows = [[finding] for finding in findings for _ in range(patients)], []
    for change, rate in zip(CHANGES, rates, strict=True):
        picture = "lacks" if change == "another_radiograph" else "has"
        affirmed = draw.random(len(names)) < rate
        rows.append(
            pl.DataFrame({"record_id": names, "reference_positive": having}).with_columns(
                twin=pl.lit(change),
                finding=pl.Series(
                    [one[0] if change in (ELSEWHERE, COVERED) else None for one in having], dtype=pl.String
                ),
                frontal=pl.lit(picture) + pl.col("record_id"),
                report_positive=pl.Series([one if said else [] for one, said in zip(having, affirmed, strict=True)]),
            )
        )
    empty = pl.lit([], dtype=pl.List(pl.String))
    lacking = rows[0].with_columns(
        record_id=pl.lit("x") + pl.col("record_id"),
        frontal=pl.lit("lacks") + pl.col("record_id"),
        reference_positive=empty,
        report_positive=empty,
    )
    both = pl.concat([*rows, lacking.select(rows[0].columns)])
    ids = {name: pl.col("record_id") for name in ("study_id", "subject_id")}
    return both.with_columns(context=pl.lit("sn"), reference_uncertain=empty, **ids)


def shares(verdict: str, patients: int) -> tuple[float, float, float]:
    """Return how often the verdict is given: to a finding alone, to one of thirteen, and to any of thirteen."""
    draw = np.random.default_rng(patients)
    judged = {
        count: [
            [one.verdict == verdict for one in finding_uses(key(FALSE[verdict], patients, names, draw))]
            for _ in range(SYSTEMS * (2 if count == 1 else 1))
        ]
        for count, names in ((1, list(FINDINGS[:1])), (len(FINDINGS), list(FINDINGS)))
    }
    alone, many = (np.array(of_count) for of_count in judged.values())
    return float(alone.mean()), float(many.mean()), float(many.any(axis=1).mean())


def alike(patients: int, records: int = 4, systems: int = 1000) -> float:
    """Return how often no effect is found by one test where it is .1: reports of a tenth lose the finding."""
    draw, units = np.random.default_rng(patients), np.repeat(np.arange(patients), records)
    found = 0
    for _ in range(systems):
        own, shared = draw.random(len(units)), draw.random(patients)[units]
        lost = np.where(draw.random(len(units)) < 0.5, shared, own) < 0.1
        part = pl.DataFrame({"unit": units, "first": np.ones(len(units)), "second": 1.0 - lost})
        found += use._no_effect(part, "first", "second") <= use._LEVEL / 2
    return found / systems


def main() -> None:
    use._RESAMPLES = RESAMPLES
    lines = [f"| false verdict | {' | '.join(f'{size} patients' for size in SIZES)} |", "|:---|" + "---:|" * len(SIZES)]
    for verdict in FALSE:
        cells = [" / ".join(f"{share:.3f}"[1:] for share in shares(verdict, size)) for size in SIZES]
        lines.append(f"| {verdict} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    lines.append(
        f"| no effect of place, four records each | {' | '.join(f'{alike(size):.3f}'[1:] for size in SIZES)} |"
    )
    print(lines[-1])
    RESULT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
