"""``pacer probe``: does a system use the sources that it is given? Heavy imports wait until it
runs."""

from pathlib import Path

from pacer.config.corpus import Delimiter
from pacer.core.errors import ConfigError
from pacer.core.io import check_replaceable
from pacer.display import terminal
from pacer.display.terminal import CORPUS, echo


def make(
    out: Path = Path("probe"),
    records: Path = CORPUS,
    split: str = "test",
    context: list[str] | None = None,
    limit: int | None = None,
    seed: int = 0,
    boxes: Path | None = None,
) -> None:
    """Write inputs.csv: records, plus copies with one source removed, swapped or altered. The
    system under test must write one report per row, to a CSV file with the columns probe_id and
    report."""
    chosen = terminal.check_contexts(context)
    records = records / CORPUS.name if records.is_dir() else records
    terminal.check_exists(
        records, records.with_name("images.parquet"), remedy="pass a corpus with --records"
    )
    terminal.check_exists(boxes)
    from pacer.core.schemas import SPLITS, of_split, read_images, read_records
    from pacer.extras.probe.make import IMAGES, INPUTS, KEY, boxes_of_truth, make_probe, read_boxes

    if split not in (*SPLITS, "all"):
        raise ConfigError(f"--split {split}: expected one of {', '.join(SPLITS)}, all")
    check_replaceable(out, (INPUTS, KEY, IMAGES) if (out / KEY).is_file() else ())
    table = of_split(read_records(records), split)
    table = table.filter(table["context"].is_in(chosen)) if chosen else table
    paths = dict(
        read_images(records.with_name("images.parquet")).select("image_id", "path").iter_rows()
    )
    truth = records.with_name("truth.parquet")
    places = {}
    if truth.is_file():
        places = boxes_of_truth(truth, table)
    if boxes is not None:
        places = read_boxes(boxes, {*table["frontal"], *table["lateral"].drop_nulls()})
    key = make_probe(table, paths, out, seed, limit, places)
    for twin, count in key.group_by("twin", maintain_order=True).len().iter_rows():
        echo(f"{twin}: {count:,}")
    if not places:
        echo("no finding is covered: the corpus has no bounding boxes; pass a table with --boxes")
    echo(
        f"next: write a report for each of the {len(key):,} rows of {out / INPUTS}; keep {KEY} "
        "(the references) private"
    )


def score(
    reports: list[str],
    out: Path,
    folder: Path = Path("probe"),
    hypothesis_id: str | None = None,
    hypothesis_text: str | None = None,
    delimiter: Delimiter | None = None,
) -> None:
    """Show which sources each system uses, in a table, a chart and a page."""
    systems = terminal.named_paths(reports)
    terminal.check_exists(folder, *systems.values())
    from pacer.extras.probe.page import OUTPUTS, write_probe
    from pacer.extras.probe.use import read_probe, system_use

    check_replaceable(out, OUTPUTS if (out / "use.json").is_file() else ())
    key = read_probe(folder)
    uses = [
        system_use(name, key, file, (hypothesis_id, hypothesis_text), delimiter)
        for name, file in systems.items()
    ]
    echo(write_probe(uses, out))
    echo(f"page: {out / 'index.html'}")
