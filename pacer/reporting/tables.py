"""Result tables: one form that renders as HTML (through the page's template), Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.metrics.cases import UNKNOWN

#: Key in ``scores.json``, column heading.
SCORE_COLUMNS = (
    ("precision", "P"),
    ("recall", "R"),
    ("f1", "F1"),
    ("bleu1", "BLEU-1"),
    ("bleu2", "BLEU-2"),
    ("bleu3", "BLEU-3"),
    ("bleu4", "BLEU-4"),
    ("rougeL", "ROUGE-L"),
    ("meteor", "METEOR"),
    ("cider", "CIDEr"),
    ("n", "n"),
)

#: The same for the original findings of the source as references.
ORIGINAL_COLUMNS = (
    *((f"original_{key}", label) for key, label in SCORE_COLUMNS if key.startswith(("bleu", "rouge", "meteor"))),
    ("original_n", "n"),
)

#: The same for what the scores say about commitments, gate and extraction.
COMMITMENT_COLUMNS = (
    ("anchor_agreement", "Agreement"),
    ("anchor_stated_agreement", "Stated"),
    ("anchor_positive_f1", "Positive F1"),
    ("anchor_negative_f1", "Negative F1"),
    ("anchor_uncertain_f1", "Uncertain F1"),
    ("report_follows_anchor", "Report follows"),
    ("report_covered_by_anchor", "Report covered"),
    ("gate", "Gate"),
    ("fallback_rate", "Fallback"),
    ("unclosed_rate", "Unclosed"),
    ("truncated_rate", "Truncated"),
    ("empty_anchor_rate", "Commits nothing"),
    ("empty_rate", "Empty"),
)

#: The same for what any system's reports tell: polarity of the findings, and wording of comparison.
REPORT_COLUMNS = (
    ("report_positive_f1", "Positive F1"),
    ("report_negative_f1", "Negative F1"),
    ("report_uncertain_f1", "Uncertain F1"),
    ("temporal_f1", "Temporal F1"),
    ("prior_wording_rate", "Compares"),
    ("reference_prior_wording_rate", "References compare"),
    ("unfounded_prior_wording_rate", "Compares without a prior"),
)

#: What each context gives the model.
CONTEXT_SOURCES = {
    "sn": "frontal",
    "sw": "frontal + previous report",
    "mn": "frontal + lateral",
    "mw": "frontal + lateral + previous report",
}


@dataclass(frozen=True)
class Table:
    """Rows of already formatted cells under ``columns``.

    ``summary`` is the index of a row set apart (the mean), or None; ``rules`` are the rows that open a new group;
    ``numeric`` says which columns align right; ``quiet`` rows belong to the one above (intervals, published values).
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    numeric: tuple[bool, ...] = ()
    summary: int | None = None
    rules: frozenset[int] = frozenset()
    quiet: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if not self.numeric:
            object.__setattr__(self, "numeric", (False,) + (True,) * (len(self.columns) - 1))

    def markdown(self) -> str:
        """A GitHub-flavoured Markdown table, the caption above it."""
        rule = ["---:" if right else ":---" for right in self.numeric]
        lines = [self.columns, rule, *self.rows]
        body = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
        return (f"{self.caption}\n\n" if self.caption else "") + body + "\n"

    def latex(self) -> str:
        """A ``booktabs`` tabular in a ``table`` environment."""
        align = "".join("r" if right else "l" for right in self.numeric)
        lines = []
        for index, row in enumerate(self.rows):
            if index == self.summary or index in self.rules:
                lines.append("\\midrule")
            lines.append(" & ".join(latex_text(cell) for cell in row) + " \\\\")
        caption = [f"\\caption{{{latex_text(self.caption)}}}"] if self.caption else []
        head = " & ".join(latex_text(column) for column in self.columns) + " \\\\"
        return (
            "\n".join(
                [
                    "% needs \\usepackage{booktabs}",
                    "\\begin{table}",
                    "\\centering",
                    *caption,
                    f"\\begin{{tabular}}{{@{{}}{align}@{{}}}}",
                    "\\toprule",
                    head,
                    "\\midrule",
                    *lines,
                    "\\bottomrule",
                    "\\end{tabular}",
                    "\\end{table}",
                ]
            )
            + "\n"
        )


def latex_text(text: str) -> str:
    """``text`` with the characters that LaTeX gives a meaning escaped."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "−": "$-$", "–": "--"}
    special |= {character: "\\" + character for character in "&%$#_{}"}
    return "".join(special.get(character, character) for character in text)


def number(value: float | int | None, digits: int = 3) -> str:
    """A score as ``0.123``, a count as ``1,234``, and an undefined value as an en dash."""
    if value is None:
        return "–"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.{digits}f}"


def score_cell(value: float | int | None) -> str:
    """A score of ``scores.json``, where ``None`` says that it has no denominator: never 0."""
    return "undefined" if value is None else number(value)


def percent(part: float, whole: float) -> str:
    """``part`` of ``whole`` as a percentage, a dash when ``whole`` is 0."""
    return f"{100 * part / whole:.1f} %" if whole else "–"


def contexts_in(scores: Mapping) -> Sequence[str]:
    """The contexts that ``scores`` holds, in the paper's order, or that of reports whose context is not known.

    Raises:
        DataError: it holds none.
    """
    present = [context for context in (*CONTEXTS, UNKNOWN) if context in scores]
    if not present:
        raise DataError(f"the scores hold no context; expected {', '.join(CONTEXTS)}, found {', '.join(scores)}")
    return present


def score_table(scores: Mapping, caption: str = "") -> Table:
    """The contexts' scores and their plain mean; columns that no context has are left out."""
    return _context_table(scores, SCORE_COLUMNS, caption)


def original_table(scores: Mapping, target: str | None, caption: str = "") -> Table | None:
    """Language scores against the original findings, "not available" where the corpus has none.

    Args:
        target: ``corpus.target`` of the references; None is returned unless it is ``findings``, the protocol that has
            such columns.
    """
    if target != "findings":
        return None
    contexts = contexts_in(scores)
    names = [*contexts, "mean"] if "mean" in scores else contexts
    rows = []
    for name in names:
        cells = [
            score_cell(scores[name][key])
            if key in scores[name]
            else ""
            if (name, key) == ("mean", "original_n")
            else "not available"
            for key, _ in ORIGINAL_COLUMNS
        ]
        rows.append((name.upper() if name != "mean" else "Mean", *cells))
    headings = tuple(label for _, label in ORIGINAL_COLUMNS)
    return Table(("Context", *headings), tuple(rows), caption, summary=len(contexts) if "mean" in scores else None)


def commitment_table(scores: Mapping) -> Table:
    """How the generated commitments compare with the reference ones, and what the reports make of them."""
    return _context_table(scores, COMMITMENT_COLUMNS)


def report_content_table(scores: Mapping, caption: str = "") -> Table:
    """What the reports say of the findings' polarity and of earlier examinations, against the references."""
    return _context_table(scores, REPORT_COLUMNS, caption)


def _context_table(scores: Mapping, columns: Sequence[tuple[str, str]], caption: str = "") -> Table:
    contexts = contexts_in(scores)
    shown = [(key, label) for key, label in columns if any(key in scores[context] for context in contexts)]
    names = [*contexts, "mean"] if "mean" in scores else contexts
    rows = []
    for name in names:
        absent = "" if name == "mean" else "–"
        cells = [score_cell(scores[name][key]) if key in scores[name] else absent for key, _ in shown]
        rows.append((name.upper() if name != "mean" else "Mean", *cells))
    return Table(
        columns=("Context", *(label for _, label in shown)),
        rows=tuple(rows),
        caption=caption,
        summary=len(contexts) if "mean" in scores else None,
    )


def control_table(scores: Mapping, caption: str = "") -> Table | None:
    """F1 against the references with the case's own sources and with each control's; None when no control was run."""
    controls = scores.get("controls") or {}
    if not controls:
        return None
    titles = {
        "another_patient": "Another patient's sources",
        "no_lateral": "Without the lateral view",
        "no_prior": "Without the previous report",
    }
    rows = []
    for context in contexts_in(scores):
        found = [controls[control].get(context, {}).get("f1") for control in controls]
        rows.append((context.upper(), number(scores[context].get("f1")), *(number(value) for value in found)))
    return Table(
        ("Context", "Own sources", *(titles.get(name, name.replace("_", " ")) for name in controls)),
        tuple(rows),
        caption,
    )


def truth_groups(truth: Mapping[str, float]) -> list[tuple[str, list[tuple[str, float]]]]:
    """What ``scores.json["truth"]`` compares, as (question, [(who, F1 or recall against the latent state)]).

    Groups whose numbers are missing are left out; the first entry of a group is what the others are compared with.
    """
    questions = (
        (
            "Does the model use its sources?",
            (
                ("PACER with the case's own sources", "mean_f1"),
                ("PACER with another patient's sources", "another_patient_f1"),
                ("One constant report for every case", "constant_f1"),
            ),
        ),
        (
            "Does it use the lateral view? (MN cases)",
            (
                ("PACER with the lateral view", "mn_with_lateral_f1"),
                ("PACER without the lateral view", "mn_without_lateral_f1"),
            ),
        ),
        (
            "Recall of what only the lateral view shows (MN cases)",
            (
                ("Recall with the lateral view", "lateral_only_recall"),
                ("Recall without the lateral view", "lateral_only_recall_without_lateral"),
            ),
        ),
        (
            "Does it use the previous report? (SW cases)",
            (
                ("PACER with the previous report", "sw_with_prior_f1"),
                ("PACER without the previous report", "sw_without_prior_f1"),
            ),
        ),
        (
            "Recall of what only the previous report tells (SW cases)",
            (
                ("Recall with the previous report", "prior_only_recall"),
                ("Recall without the previous report", "prior_only_recall_without_prior"),
            ),
        ),
        ("By context", tuple((f"{name.upper()}: {CONTEXT_SOURCES[name]}", f"{name}_f1") for name in CONTEXTS)),
    )
    groups = []
    for question, entries in questions:
        found = [(who, float(truth[key])) for who, key in entries if truth.get(key) is not None]
        if found:
            groups.append((question, found))
    return groups


def truth_table(truth: Mapping[str, float], caption: str = "") -> Table:
    """Findings in a report against the latent state of the generated world: micro-F1, or recall where it says so."""
    rows: list[tuple[str, ...]] = []
    rules = set()
    for question, entries in truth_groups(truth):
        reference = entries[0][1]
        rules.add(len(rows))
        for index, (who, value) in enumerate(entries):
            compared = "" if index == 0 or question == "By context" else f"{value - reference:+.3f}".replace("-", "−")
            rows.append((who, number(value), compared))
    return Table(("What writes the report", "Score", "Difference"), tuple(rows), caption, rules=frozenset(rules - {0}))
