"""Display of reports on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from pacer.cli.terminal import chips, console, say
from pacer.core.contexts import SOURCES, Context
from pacer.reporting.marks import spans, statements
from pacer.serving.case import NOTICE, Result, notes_of

#: Colour of statements that the first context's report does not make.
_NEW = "green"


def show_result(result: Result) -> None:
    """Print one report with its commitment and the model's internals: depths, gate, tokens."""
    console.print(Text(f"{result.context.upper()}: {SOURCES[result.context]}; view {result.view}"))
    if result.commitment is not None:
        say(Text("\nCommitment  ").append_text(chips(result.commitment)))
    console.print(Text(f"\n{result.report}\n"))
    means = ", ".join(f"{mean:.2f} of block {depth}" for depth, mean in result.frontal.means().items())
    gate = "" if result.gate is None else f"gate {result.gate:.3f}; "
    console.print(Text(f"{gate}frontal depths {means}; {result.tokens} tokens"))
    _show_notes({result.context: result})


def show_contexts(results: Mapping[Context, Result]) -> None:
    """Print the same case in several contexts side by side, with differences in colour."""
    first = next(iter(results))
    table = Table(box=SIMPLE_HEAD, show_lines=True, pad_edge=False)
    table.add_column("")
    for context in results:
        table.add_column(context.upper(), ratio=1)
    table.add_row("sources", *(SOURCES[context] for context in results))
    table.add_row("gate", *("" if r.gate is None else f"{r.gate:.3f}" for r in results.values()))
    shared = set.intersection(*(set(result.findings().items()) for result in results.values()))
    table.add_row("commitment", *(chips(r.commitment, "\n", shared) for r in results.values()))
    table.add_row("report", *(_marked(result.report, results[first].report) for result in results.values()))
    table.add_row("tokens", *(str(r.tokens) for r in results.values()))
    console.print(table)
    if len(results) > 1:
        legend = Text("Findings in bold", "bold").append(": not in every context. Statements ", "not bold")
        legend.append(f"in {_NEW}", f"not bold {_NEW}").append(f": not in {first.upper()}.", "not bold")
        console.print(legend)
    _show_notes(results)


def show_summary(reports: int, truncated: int, out: Path, notes: Sequence[str]) -> None:
    """Summarise the results of many cases; ``notes``: apply to every report."""
    say(f"{reports:,} reports written to {out}")
    if truncated == reports > 1:
        say("warning: every report stopped at the token limit; the model has not learnt to end one", "yellow")
    elif truncated:
        say(f"note: {truncated:,} reports stopped at the token limit; their ends may be missing", "yellow")
    for note in notes:
        say(f"note: {note}", "yellow")
    say(NOTICE, "bold")


def _marked(report: str, first: str) -> Text:
    """Return the report, with statements on findings or comparisons coloured if they are not in the first context's."""
    marked = spans(report, "commitment", None, statements(first))
    return Text.assemble(*((span.text, _NEW if span.changed else "") for span in marked))


def _show_notes(results: Mapping[Context, Result]) -> None:
    for note in notes_of(results.values()):
        say(f"note: {note}", "yellow")
    say(NOTICE, "bold")
