"""Sections of composed MIMIC-CXR reports, compared with those of the official section parser.

    python bench/sections.py PARSER [REPORTS]

PARSER is `mimic-iv-cxr/txt/section_parser.py` of https://github.com/MIT-LCP/mimic-code; REPORTS is 20,000 by default.
A report has at most one peculiarity. The table says in how many reports of each the sections differ. Those of SAME must
not differ, else the exit status is 1; every other is a row of the table in docs/readings.md.
"""

from __future__ import annotations

import argparse
import random
import runpy
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pacer.data.sections import Sections, find_sections

NAMES = ("findings", "impression", "indication", "history")
SENTENCES = (
    *("The lungs are clear.", "No pneumothorax.", "Small left effusion is new.", "Heart size is normal."),
    *("Seen at 9:30 a.m. on ___.", "A 1.2 cm nodule projects over the left base."),
)
SMALL = (
    "Comparison",
    "Recommendation",
    "Technique",
    "Notification",
    "Exam",
    "Addendum",
    "History",
    "Impression",
    "Lungs",
)
SAME = (
    "none",
    "words in small letters",
    "two findings",
    "neither section",
    "a view as heading",
    "misspelt by list",
    "neither section, no paragraphs",
    "time of day",
)


def compose(rng: random.Random, peculiarity: str) -> str:
    """Return a report in MIMIC's layout: lines begin with a blank, headings are capitals before a colon."""

    def text(most: int = 4) -> str:
        return "\n ".join(rng.choices(SENTENCES, k=rng.randint(1, most)))

    sections = {"EXAMINATION": "CHEST (PA AND LAT)", "INDICATION": "Cough.", "HISTORY": "COPD."}
    always = peculiarity == "indication, history in small letters"
    sections = {heading: words for heading, words in sections.items() if always or rng.random() < 0.7}
    sections |= {"COMPARISON": "___.", "FINDINGS": text(), "IMPRESSION": text(2)}
    if rng.random() < 0.3 and peculiarity not in ("a view as heading", "both in one", "heading without colon"):
        del sections[rng.choice(["FINDINGS", "IMPRESSION"])]
    main = [heading for heading in ("FINDINGS", "IMPRESSION") if heading in sections]
    first, last = main[0], main[-1]
    renamed = {
        "a view as heading": ("FINDINGS", rng.choice(["CHEST, TWO VIEWS", "PORTABLE AP CHEST"])),
        "misspelt by list": (first, {"FINDINGS": "FINDGINGS", "IMPRESSION": "IMPRESSOIN"}[first]),
        "misspelt otherwise": (first, {"FINDINGS": "FINDIGNS", "IMPRESSION": "IMPRESSIOM"}[first]),
        "slips of the official table": (last, rng.choice(["PFI", "NDICATION"])),
        "both in one": ("FINDINGS", "FINDINGS AND IMPRESSION"),
        "combined indication": ("COMPARISON", "COMPARISON AND INDICATION"),
        "digits in heading": (first, f"{first} #1"),
    }
    if peculiarity in renamed:
        old, new = renamed[peculiarity]
        sections = {new if heading == old else heading: words for heading, words in sections.items()}
    if peculiarity == "both in one":
        sections.pop("IMPRESSION")
    elif peculiarity == "words in small letters":
        sections[last] += f"\n {rng.choice(SMALL)}: {text(2)}"
    elif peculiarity == "capitals inside a section":
        sections[last] += f"\n {rng.choice(['HEART', 'LINES AND TUBES', 'PORTABLE CHEST'])}: {text(2)}"
    elif peculiarity == "two findings":
        sections = {"WET READ": "___", "FINDINGS ": text()} | sections
    elif peculiarity == "neither section":
        sections["COMPARISON"] += f"\n \n {text()}\n \n {text()}"
        sections = {heading: words for heading, words in sections.items() if heading not in main}
    elif peculiarity == "neither section, no paragraphs":
        sections = {heading: words for heading, words in sections.items() if heading not in main}
    elif peculiarity == "text below the indication":
        sections["INDICATION"] = f"Cough.\n \n {text()}"
    parts = [f" {heading}:  {words}\n \n" for heading, words in sections.items()]
    report = " " * 33 + "FINAL REPORT\n" + "".join(parts)
    changes: dict[str, Callable[[], str]] = {
        "heading without colon": lambda: report.replace("FINDINGS:", "FINDINGS\n"),
        "all in small letters": lambda: "".join(
            f" {line.strip().capitalize()}\n" if line.isupper() else line
            for line in report.replace(":  ", ":\n ").splitlines(True)
        ),
        "findings, impression in small letters": lambda: report.replace(
            f" {first}:", f" {first.capitalize()}:"
        ).replace(f" {last}:", f" {last.capitalize()}:"),
        "indication, history in small letters": lambda: report.replace(" HISTORY:", " History:").replace(
            " INDICATION:", " Indication:"
        ),
        "no indentation": lambda: report.replace(f" {last}:", f"{last}:"),
        "heading below a heading": lambda: report.replace(f" {first}:", f" TECHNIQUE:\n {first}:"),
        "time of day": lambda: report.replace("REPORT\n", "REPORT\n AP CHEST, 8:13 A.M., ___\n \n"),
        "no blank after the colon": lambda: report.replace(f"{last}:  ", f"{last}:"),
    }
    return changes[peculiarity]() if peculiarity in changes else report


PECULIARITIES = (
    *SAME,
    *("misspelt otherwise", "both in one", "combined indication", "digits in heading", "capitals inside a section"),
    *("text below the indication", "heading without colon", "all in small letters"),
    *("no indentation", "no blank after the colon", "heading below a heading", "slips of the official table"),
    *("findings, impression in small letters", "indication, history in small letters"),
)


def official(section_text: Callable[[str], tuple[list[str], list[str], list[int]]], report: str) -> Sections:
    """The official sections, the last non-empty of each name; its last paragraph is an impression, as here."""
    texts, names, _ = section_text(report)
    found = {name: words for name, text in zip(names, texts) if (words := " ".join(text.split()))}
    findings, impression, indication, history = (found.get(name) for name in NAMES)
    return Sections(findings, found.get("last_paragraph") or impression, indication, history)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("parser", type=Path)
    arguments.add_argument("reports", type=int, nargs="?", default=20_000)
    options = arguments.parse_args()
    if not options.parser.is_file():
        arguments.error(f"{options.parser} is not a file; it must be section_parser.py of MIT-LCP/mimic-code")
    section_text = runpy.run_path(str(options.parser))["section_text"]
    rng = random.Random(0)
    total, differ, examples = Counter[str](), Counter[str](), dict[str, str]()
    for _ in range(options.reports):
        kind = rng.choice(PECULIARITIES)
        report = compose(rng, kind)
        ours, theirs = find_sections(report), official(section_text, report)
        total[kind] += 1
        if ours != theirs:
            differ[kind] += 1
            examples.setdefault(kind, f"{report}\n  here:     {ours}\n  official: {theirs}")
    print("| peculiarity | reports | differ |\n|---|---|---|")
    for kind in PECULIARITIES:
        print(f"| {kind} | {total[kind]:,} | {differ[kind]:,} |")
    unexpected = [kind for kind in SAME if differ[kind]]
    for kind in unexpected:
        print(f"\nunexpected, {kind}:\n{examples[kind]}")
    return 1 if unexpected else 0


if __name__ == "__main__":
    raise SystemExit(main())
