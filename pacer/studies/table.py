"""From scores to the cells of a study's table: mean over contexts, seeds, rounding, best and second best.

Everything is computed from unrounded scores; only what is printed is rounded. Marks go by the printed number, as in the
paper: all rows that print the best value are bold, all that print the next value are underlined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from pacer.core.errors import DataError
from pacer.core.io import read_json
from pacer.metrics.cases import MEAN
from pacer.reporting.published import (
    PrintedValue,
    PublishedBlock,
    PublishedTable,
    differences_to_published,
    load_published,
)
from pacer.reporting.score_tables import context_mean, contexts_in
from pacer.reporting.signature import caution
from pacer.reporting.tables import MARKS, Heading, Mark, Table, number
from pacer.studies.paired import NOTE, WORLDS_NOTE, Compare, Tested, compare_rows
from pacer.studies.run import RECORD, folders
from pacer.studies.study import HEADINGS, Study

ABSENT = "–"


class Block(NamedTuple):
    """Rows that are ranked together, by their label. ``published``: values of the paper."""

    heading: Heading
    rows: Mapping[str, Sequence[PrintedValue]]
    published: bool = False


class StudyTable(NamedTuple):
    """The scores, a heading over each block of rows; and the differences between rows that are tested."""

    scores: Table
    tested: Sequence[Tested]
    seeds_of: str


class ScoredRun(NamedTuple):
    """One finished run: of which row, with which seed, its scores, signature and record (None for foreign files)."""

    row: int
    seed: int | None
    folder: Path
    scores: Mapping[str, Any]
    signature: Mapping[str, Any]
    record: Mapping[str, Any] | None


def collect(study: Study, root: Path, state: Path) -> list[ScoredRun]:
    """All that exists of a study: its finished runs, and the folders that ``files`` rows name.

    Raises:
        DataError: rows were scored in different contexts.
    """
    found = [_read(*run, record=True) for run in folders(study, state)]
    files = [(index, root / row.files) for index, row in enumerate(study.rows) if row.files is not None]
    found += [_read(index, None, folder) for index, folder in files if (folder / "scores.json").is_file()]
    for run in found[1:]:
        if contexts_in(run.scores) != contexts_in(found[0].scores):
            raise DataError(
                f"study {study.name}: {run.folder} was scored in {', '.join(contexts_in(run.scores))}, but "
                f"{found[0].folder} in {', '.join(contexts_in(found[0].scores))}; a table needs the same contexts"
            )
    return found


def _read(row: int, seed: int | None, folder: Path, *, record: bool = False) -> ScoredRun:
    scores, signature = read_json(folder / "scores.json"), read_json(folder / "signature.json")
    return ScoredRun(row, seed, folder, scores, signature, read_json(folder / RECORD) if record else None)


def build_table(study: Study, runs: Sequence[ScoredRun], compare: Compare | None = None) -> StudyTable:
    """The table of a study from what exists of it.

    Args:
        compare: with it, and where the study names rows ``against``, the other rows are tested against them.
    """
    published = load_published()[study.published] if study.published is not None else None
    apart = []
    if published is not None:
        differing = [differences_to_published(published, run.scores, run.signature, run.record) for run in runs]
        apart = _said(study, runs, differing)
    where = "published" if runs and not apart else "published, not comparable"
    blocks: list[Block] = []
    beside = list(published.blocks) if published is not None else []
    for title, context, rows in _own_blocks(study, runs):
        own = ((study.rows[row].name, _values(study, runs, row, context)) for row in rows)
        blocks.append(Block(Heading(title), ranked(own)))
        near = [b for b in beside if (b.context if study.layout == "contexts" else b.name) in (context, title)]
        blocks += [_published_block(block, study.metrics, where) for block in near]
        beside = [block for block in beside if block not in near]
    blocks += [_published_block(block, study.metrics, where) for block in beside]
    notes, tested = _notes(study, runs, published, apart), []
    if compare is not None:
        places = {(run.row, run.seed): run.folder for run in runs}
        tested, untested = compare_rows(study, places, {(run.row, run.seed): run.scores for run in runs}, compare)
        note = WORLDS_NOTE if study.seeds_of == "world" else NOTE.format(seeds=" and seeds" * (len(study.seeds) > 1))
        notes += [note] * bool(tested) + untested
    return StudyTable(_table(study, blocks, notes), tested, study.seeds_of)


def _table(study: Study, blocks: Iterable[Block], notes: Iterable[str]) -> Table:
    """The blocks one below the other."""
    lines: list[tuple[str, Sequence[PrintedValue]]] = []
    headings: dict[int, Heading] = {}
    rules, quiet = set[int](), set[int]()
    for block in blocks:
        rules.add(len(lines))
        if block.heading.text:
            headings[len(lines)] = block.heading
        if block.published:
            quiet.update(range(len(lines), len(lines) + len(block.rows)))
        lines += block.rows.items()
    return Table(
        ("Model", *(HEADINGS[metric] for metric in study.metrics)),
        tuple((label, *(cell.text or ABSENT for cell in cells)) for label, cells in lines),
        study.title,
        rules=frozenset(rules),
        quiet=frozenset(quiet),
        headings=headings,
        marks={
            (row, place): cell.mark
            for row, (_, cells) in enumerate(lines)
            for place, cell in enumerate(cells, 1)
            if cell.mark is not None
        },
        notes=tuple(notes),
    )


def _published_block(block: PublishedBlock, metrics: Sequence[str], where: str) -> Block:
    rows = {name: [row.get(metric, PrintedValue()) for metric in metrics] for name, row in block.rows.items()}
    return Block(Heading(f"{block.name} ({where})", block.protocol), rows, published=True)


def ranked(lines: Iterable[tuple[str, Sequence[str | None]]]) -> dict[str, list[PrintedValue]]:
    """Mark best and second best in every column of a block, by the printed means.

    Args:
        lines: label, and for each column what :func:`printed` gave. A column with fewer than two values has no marks.
    """
    rows = dict(lines)
    marks: list[dict[str, Mark]] = []
    for column in zip(*rows.values(), strict=True):
        values = [cell.split()[0] for cell in column if cell is not None]
        order = sorted(set(values), key=float, reverse=True)
        marks.append(dict(zip(order, MARKS, strict=False)) if len(values) > 1 else {})
    return {
        label: [PrintedValue(c, m.get(c.split()[0]) if c else None) for c, m in zip(cells, marks, strict=True)]
        for label, cells in rows.items()
    }


def printed(values: Sequence[float]) -> str | None:
    """One value a seed -> rounded mean, with ± sample standard deviation for several seeds."""
    if not values:
        return None
    mean = number(float(fmean(values)))
    return mean if len(values) == 1 else f"{mean} ± {number(stdev(values))}"


def _values(study: Study, runs: Sequence[ScoredRun], row: int, context: str) -> list[str | None]:
    """What is printed of a row in each column; None where a run of it has no such score."""
    found = []
    for metric in study.metrics:
        values = [context_mean(run.scores, metric, context) for run in runs if run.row == row]
        found.append(printed([value for value in values if value is not None]) if None not in values else None)
    return found


def _own_blocks(study: Study, runs: Sequence[ScoredRun]) -> list[tuple[str, str, list[int]]]:
    """(title, context, rows) of the blocks that this repository's own rows make."""
    everything = list(range(len(study.rows)))
    if study.layout == "contexts":
        contexts = contexts_in(runs[0].scores) if runs else []
        return [(context.upper(), context, everything) for context in contexts]
    groups = dict.fromkeys(row.group for row in study.rows)
    return [(group or "", MEAN, [i for i in everything if study.rows[i].group == group]) for group in groups]


def _said(study: Study, runs: Sequence[ScoredRun], texts: Sequence[Sequence[str]]) -> list[str]:
    """The ``texts`` about the runs, each once, and about which rows where not about all."""
    rows: dict[str, dict[str, None]] = {}
    for run, said in zip(runs, texts, strict=True):
        for text in said:
            rows.setdefault(text, {})[study.rows[run.row].name] = None
    every = {run.row for run in runs}
    return [text if len(names) == len(every) else f"{text} ({', '.join(names)})" for text, names in rows.items()]


def _notes(
    study: Study, runs: Sequence[ScoredRun], published: PublishedTable | None, apart: Sequence[str]
) -> list[str]:
    own = [run.record for run in runs if run.record is not None]
    notes = []
    if runs and study.layout == "mean":
        contexts = ", ".join(context.upper() for context in contexts_in(runs[0].scores))
        notes.append(f"Plain mean over the contexts {contexts}, before rounding.")
    notes.append("Bold: best of its block; underlined: second best; ties by the printed value share their mark.")
    if len(study.seeds) > 1:
        seeds = ", ".join(map(str, study.seeds))
        notes.append(f"Mean ± sample standard deviation over seeds {seeds} of the {study.seeds_of}.")
    if own:
        notes.append(f"Scored on split {', '.join(sorted({record['split'] for record in own}))}.")
    if runs and any(metric.startswith("original_") for metric in study.metrics):
        language = [run.signature.get("language") or {} for run in runs]
        forms = _said(study, runs, [[texts.get("original_references", "not recorded")] for texts in language])
        notes.append(f"Original references: {'; '.join(forms)}.")
    if any(record["corpus"]["source"] == "phantom" for record in own):
        notes.append("Rows of this repository come from a generated corpus, not from patients.")
    notes += sorted({note for run in runs if (note := caution(run.signature)) is not None})
    alike = [[run for run in runs if study.seeds_of == "training" or run.seed == seed] for seed in study.seeds]
    if any(len({_protocol(run.signature) for run in beside}) > 1 for beside in alike):
        differing = "labeller, convention, target, cleaning or number of records"
        notes.append(f"The rows were not scored alike ({differing} differ).")
    records = [{(run.signature.get("data") or {}).get("records") for run in beside if run.record} for beside in alike]
    if max(map(len, records)) > 1:
        notes.append("The rows of this repository were not scored on the same records.")
    if published is not None:
        printed = f"The published rows are as printed in {published.where} of the paper ({published.title})."
        notes.append(f"{printed} {published.protocol}")
        if apart:
            notes.append(f"No row of this repository can be compared with a published row: {'; '.join(apart)}.")
        origins = "; ".join(f"{system}, {text}" for system, text in published.provenance.items())
        notes.append(f"Where the published rows are from: {origins}.")
    done = {(run.row, run.seed) for run in runs}
    for index, row in enumerate(study.rows):
        if row.files is not None and (index, None) not in done:
            how = f" of its reports: {row.how}" if row.how else ""
            notes.append(f"{row.name}: {row.files} holds no scores; `pacer score --out {row.files}` makes them{how}.")
        missing = [str(seed) for seed in study.seeds if row.files is None and (index, seed) not in done]
        if missing:
            needs = f" (it needs {', '.join(row.needs)})" if row.needs else ""
            notes.append(f"{row.name}: not run yet with seed {', '.join(missing)}{needs}.")
    notes += [f"No row here for {', '.join(one.systems)}: {one.why}." for one in study.absent]
    return notes


def _protocol(signature: Mapping[str, Any]) -> str:
    clinical, language = signature.get("clinical") or {}, signature.get("language") or {}
    files = (clinical.get("labeller") or {}).get("files")
    counts = {context: own.get("n") for context, own in (signature.get("counts") or {}).items()}
    return repr((clinical.get("convention"), files, language.get("target"), language.get("cleaner"), counts))
