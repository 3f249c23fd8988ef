"""Blocks about the released default run, the seeds of its profile and the bundled models, from the
files that `make release` and `make stand-ins` write."""

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import rates
from measuring import short, table

from pacer.config.backbones import CARD
from pacer.core.contexts import CONTEXTS
from pacer.core.io import read_json
from pacer.metrics.cases import MEAN
from pacer.metrics.runs import SPREAD

#: Results of the released default run.
FOLDER = Path("bench/results/default")
#: Its scores, its scores of the previous report, counts of its corpus, and what `pacer compare`
#: prints for the reports in docs/examples.
SCORES, PREVIOUS, CORPUS, COMPARED = (
    FOLDER / name for name in ("scores.json", "previous.json", "corpus.json", "compared.txt")
)
#: The mean F1 that `make repro` compares a run with (bench/last_run.py).
F1 = FOLDER.with_name("default_f1.yaml")
#: How far another processor or number of threads moves the mean F1.
MARGIN = float(re.findall(r"\d\.\d+", SPREAD)[0])
#: The certificate of the metrics in docs/certificate.md, and what policies gain from the reward.
CERTIFIED, POLICIES = (FOLDER / name for name in ("certified.txt", "policies.json"))
CERTIFY = """\
pacer certify score cards --metric mine:overlap --metric mine:constant \\
  --metric mine:brevity --metric exact_f1"""
#: What docs/evaluation.md compares, and the scores that it quotes.
COMMANDS = """\
pacer score --references docs/examples/references.csv \\
  --hypotheses docs/examples/pacer.csv --out scored/pacer
pacer score --references docs/examples/references.csv \\
  --hypotheses docs/examples/pacer_read.csv --out scored/read
pacer compare scored/pacer scored/read"""
QUOTED = ("Score", "Positive F1", "Negative F1", "Side agrees")
#: Scores of the default run, with their names in its table.
SOURCES = {
    "f1": "F1",
    "report_positive_f1": "F1 of affirmed findings, reports",
    "anchor_positive_f1": "F1 of affirmed findings, generated lists",
    "read_f1": "F1 of affirmed findings, predicted lists (`read`)",
    "prior_f1_without": "F1 of affirmed findings, reports without the previous report",
    "prior_f1_united": "the same, with the findings of the previous report added",
    "persisting_stated": "Persisting findings that reports state",
    "persisting_stated_without": "the same, without the previous report",
    "gone_stated": "Findings that are gone, but that reports state",
    "gone_stated_without": "the same, without the previous report",
    "contradiction_rate": "Reports that contradict their list",
}


def paragraph(text: str, indent: str = "") -> list[str]:
    """Return the lines of a paragraph, or of an item of a list if the text starts with a dash."""
    lines = textwrap.wrap(
        text, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return [*lines, ""]


def percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 or share == 0 else f"{share:.2%}"


def released() -> dict[str, Any]:
    """Return the scores of the released run by context, with those of the previous report;
    ``parameters``: its profile and seed; ``corpus``: counts of its corpus."""
    run = read_json(SCORES)
    for context, of_previous in read_json(PREVIOUS).items():
        run[context] |= of_previous
    parameters = read_json(SCORES.with_name("signature.json"))["parameters"]
    return {**run, "parameters": parameters, "corpus": read_json(CORPUS)}


def bundled() -> dict[str, Any]:
    """Return what the card of the bundled models says about their training, by role."""
    return {role: model["training"] for role, model in read_json(CARD)["models"].items()}


def run(released: Mapping[str, Any]) -> list[str]:
    """Which run the table of its scores is of."""
    records = sorted({released[context]["n"] for context in CONTEXTS})
    return paragraph(
        f"The table is of the released run: seed {released['parameters']['seed']}, and "
        f"{' to '.join(map(str, records))} records of the test split in each context."
    )


def sources(released: Mapping[str, Any]) -> list[str]:
    """What the reports of the default run take from their sources, by context."""
    columns = [*(context for context in CONTEXTS if context in released), MEAN]
    lines = [
        [
            name,
            *(
                "" if (value := released[column].get(key)) is None else short(value)
                for column in columns
            ),
        ]
        for key, name in SOURCES.items()
    ]
    truth = released["truth"]
    lines.append(["F1 against the truth", *(short(truth[f"{column}_f1"]) for column in columns)])
    another = [released["controls"]["another_patient"][column]["f1"] for column in columns[:-1]]
    lines.append(["F1 with another patient's sources", *map(short, another), short(fmean(another))])
    return table(["", *(f"`{column}`" for column in columns[:-1]), "Mean"], lines)


def size(released: Mapping[str, Any]) -> list[str]:
    """The size of the default corpus."""
    corpus = released["corpus"]
    splits = ", ".join(f"{number:,} {split}" for split, number in corpus["splits"].items())
    return paragraph(
        f"The default corpus has {corpus['patients']:,} patients, with at most "
        f"{corpus['most_studies']} studies each, and {corpus['studies']:,} studies ({splits}). A "
        f"study has {corpus['findings']:.1f} findings on average. There are "
        f"{corpus['images']:,} images, and the reports have {corpus['words']:,} different words."
    )


def reports(released: Mapping[str, Any]) -> list[str]:
    """Sections and length of the reports of the default corpus."""
    of = released["corpus"]["reports"]
    return paragraph(
        f"- {percent(of['findings'])} of the reports have a findings section and "
        f"{percent(of['impression'])} an impression. The mean length is {of['mean_words']:.0f} "
        f"words or {of['mean_tokens']:.0f} tokens, and the longest report has "
        f"{of['most_tokens']} tokens. Training cuts {percent(of['cut'])} of them "
        "(`trajectory.report_tokens`).",
        indent="  ",
    )


def expected_f1(first: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mean F1 of the default profile by seed, and the lowest and highest of a run of
    these seeds on another machine."""
    f1 = {int(seed): value for seed, value in first["rows"]["default"][MEAN]["f1"].items()}
    low, high = min(f1.values()) - MARGIN, max(f1.values()) + MARGIN
    return {"f1": f1, "low": round(low, 3), "high": round(high, 3)}


def f1_file(first: Mapping[str, Any]) -> str:
    """Return the text of :data:`F1`."""
    expected = expected_f1(first)
    seeds = ", ".join(f"{seed}: {value:.3f}" for seed, value in expected["f1"].items())
    return (
        "# Mean F1 (`mean.f1` of metrics/scores.json) of the default profile by train.seed, as "
        "`make release` writes it.\n"
        f"# `low` and `high`: the lowest and the highest, and {MARGIN} more for other processors.\n"
        f"profile: phantom\nf1: {{{seeds}}}\n"
        f"low: {expected['low']}\nhigh: {expected['high']}\n"
    )


def expected(first: Mapping[str, Any]) -> list[str]:
    """Between what the mean F1 of a run of the default profile should be."""
    found = expected_f1(first)
    f1 = found["f1"]
    *others, last = map(short, f1.values())
    return paragraph(
        "The mean of this F1 over the four sets of sources (with or without the lateral view, with "
        f"or without the previous report) should be between {found['low']:.3f} and "
        f"{found['high']:.3f}. With the training seeds {', '.join(map(str, f1))}, we measured "
        f"{', '.join(others)} and {last}, on average {short(fmean(f1.values()))} (standard "
        f"deviation {short(stdev(f1.values()))})."
    )


def compared(printed: str) -> list[str]:
    """How two systems of docs/examples are compared, and some of the lines that this prints."""
    lines = [line.rstrip() for line in printed.splitlines() if line.startswith(QUOTED)]
    return ["```bash", COMMANDS, "```", "```text", *lines, "```", ""]


def example(certificate: Mapping[str, Any]) -> list[str]:
    """The certificate of four metrics, and how it is made."""
    also = "pacer certify score cards mine.csv OTHER=other.csv    # tables with id and score"
    return ["```bash", CERTIFY, also, "```", "```text", *certificate["printed"], "```", ""]


def policies(certificate: Mapping[str, Any]) -> list[str]:
    """The reward of policies that do not look at the image."""
    lines = [[name, short(gained)] for name, gained in certificate["policies"].items()]
    return table(["Completion", "Mean reward"], lines)


def certificate() -> dict[str, Any]:
    """Return the first table of the certificate, line by line, and what policies gain."""
    text = CERTIFIED.read_text(encoding="utf-8").partition("\n\n")[0]
    printed = [line.rstrip() for line in text.splitlines()]
    return {"printed": printed, "policies": read_json(POLICIES)}


def probes(bundled: Mapping[str, Any]) -> list[str]:
    """What linear probes read from the bundled encoder, by block: mean AUROC, and that of the two
    findings that are hardest to see."""
    areas = {
        name: of_finding
        for name, of_finding in bundled["vision"]["held_out_auroc"].items()
        if name != "thumbnails"
    }
    lines = [["all findings", *(short(fmean(one.values())) for one in areas.values())]]
    for finding, name in {"fracture": "fractures", "lung lesion": "lung lesions"}.items():
        lines.append([name, *(short(one[finding]) for one in areas.values())])
    *heads, last = (name.capitalize() for name in areas)
    return table(["", *heads, f"{last}, the last"], lines)


def places(bundled: Mapping[str, Any]) -> list[str]:
    """How well the state of a patch of the bundled encoder reveals the patch's place."""
    shares = bundled["vision"]["held_out_place"].values()
    return paragraph(
        f"- The state of a patch reveals its row and column (R² {min(shares):.2f} to "
        f"{max(shares):.2f} at each depth).",
        indent="  ",
    )


def lists(bundled: Mapping[str, Any]) -> list[str]:
    """How often the bundled language model contradicts a list that it is given."""
    shares = bundled["language"]["held_out_contradictions"]
    return paragraph(
        "As a test, the language model wrote reports for held-out lists. When the positions of the "
        f"visual tokens held words that agree with the list, {percent(shares['agreeing'])} of the "
        "reports contradicted it; when they held the words of another report, "
        f"{percent(shares['contrary'])} did."
    )


#: KIND of a block -> its lines, from what :data:`RESULTS` returns for its NAME.
KINDS = {
    kind.__name__: kind
    for kind in (
        *(run, sources, size, reports, expected, compared, example, policies),
        *(probes, places, lists),
    )
} | {"rates": rates.beside}
#: NAME of a block -> what it is made of; other names are tables of experiments.
RESULTS = {
    "default": released,
    "bundled": bundled,
    "certificate": certificate,
    "examples": lambda: COMPARED.read_text(encoding="utf-8"),
    "phantom": lambda: read_json(rates.MEASURED),
}
