"""The command ``pacer``: profiles, a look at the machine, and decoding and scoring outside the pipeline.

Each command reads its arguments and calls one function of a room. Heavy imports wait until a command needs them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from pacer.core.config import load_params
from pacer.core.errors import ConfigError, run_cleanly
from pacer.profiles import profile_in_use, profile_names, use_profile

if TYPE_CHECKING:
    import polars as pl

    from pacer.anchors.anchor import Anchor
    from pacer.core.config import Params
    from pacer.doctor import Finding
    from pacer.reporting.tables import Table

CONFIGS, PARAMS, STORE = Path("configs"), Path("params.yaml"), Path("data/features")

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="PACER: chest X-ray reports when the lateral view or the previous report may be missing. "
    "The pipeline itself runs with `dvc repro`. Any command takes --traceback. For research use only.",
)
anchors = typer.Typer(no_args_is_help=True, help="Look at commitments.")
app.add_typer(anchors, name="anchors")
console = Console(highlight=False)

#: Colours of polarities on a terminal.
COLOURS = {"positive": "red", "uncertain": "yellow", "negative": "blue"}

ParamsFile = Annotated[Path, typer.Option("--params", help="Parameter file to use.", show_default="params.yaml")]


@app.command()
def use(
    name: Annotated[str | None, typer.Argument(help="Profile in configs/; none: list them.")] = None,
    force: Annotated[bool, typer.Option(help="Overwrite a params.yaml that was edited by hand.")] = False,
) -> None:
    """Put a profile in use: copy configs/NAME.yaml over params.yaml."""
    if name is None:
        current = profile_in_use(PARAMS, CONFIGS) if PARAMS.exists() else None
        for known in profile_names(CONFIGS):
            console.print(f"{'*' if known == current else ' '} {known}")
        return
    use_profile(name, PARAMS, CONFIGS, force=force)
    console.print(f"params.yaml is now the profile {name}")


@app.command()
def doctor(params: ParamsFile = PARAMS) -> None:
    """Show what this machine has, what a run lacks, and what each stage will cost."""
    from pacer.doctor import diagnose

    diagnosis = diagnose(load_params(params))
    for title, findings in (("Machine", diagnosis.machine), ("Corpus", diagnosis.data), ("Weights", diagnosis.weights)):
        _print_findings(title, findings)
    counts = diagnosis.counts
    if counts is None:
        console.print("\nCost: not known before the stage `corpus` has read the corpus (`dvc repro corpus`)")
    else:
        origin = "counted" if counts.measured else "expected"
        console.print(f"\nCost, estimated to a factor of two or three ({counts.all:,} records {origin})")
        grid = Grid(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
        for cost in diagnosis.costs:
            size = _size(cost.bytes) if cost.bytes else ""
            grid.add_row(f"  {cost.stage}", _duration(cost.seconds), size, cost.work)
        grid.add_row("  all", _duration(sum(cost.seconds or 0.0 for cost in diagnosis.costs)), "", "")
        console.print(grid)
    if not diagnosis.healthy:
        raise ConfigError("a run would stop: see what is marked `missing` above")


@app.command()
def audit(
    params: ParamsFile = PARAMS,
    out: Annotated[Path | None, typer.Option(help="Keep the corpus, audit.json and problems.csv here.")] = None,
) -> None:
    """Read the corpus that params.yaml names and report what is in it and what is wrong with it."""
    from pacer.core.io import refuse_foreign
    from pacer.corpus.build import OUTPUTS, build_corpus
    from pacer.corpus.ledger import COLUMNS
    from pacer.corpus.source import point_to_files
    from pacer.reporting.corpus_audit import corpus_checks, corpus_table

    corpus = load_params(params).corpus
    if out is not None:
        refuse_foreign(out, OUTPUTS)
    problems = Path("problems.csv") if out is None else None
    # a refused corpus leaves its problems here, and a later audit removes them: never a file of the user's own
    ours = ",".join(COLUMNS).encode()
    if problems is not None and problems.exists() and not problems.read_bytes().startswith(ours):
        raise ConfigError(f"{problems} exists and is not from an earlier audit; move it, or give --out")
    with tempfile.TemporaryDirectory() as scratch:
        source = Path("data/source")
        if corpus.source == "files":
            source = Path(scratch) / "source"
            point_to_files(corpus, source)
        found = build_corpus(corpus, source, out or Path(scratch) / "corpus", problems)
    _print_table(corpus_table(found))
    grid = Grid(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for check in corpus_checks(found):
        # Text: what stands in a corpus's files is no markup
        grid.add_row("ok" if check.good else "[yellow]look[/]", Text(check.name), Text(check.found))
    console.print()
    console.print(grid)
    if out is not None:
        listed = found["excluded"]["count"] + found["left_out"]["count"]
        where = f"{out / 'problems.csv'} lists what is bad or left out ({listed:,})"
        console.print(Text(f"\nwritten to {out}; {where}"), soft_wrap=True)


@app.command()
def decode(
    records: Annotated[Path, typer.Option(help="records.parquet of a corpus (`pacer audit --out` makes it).")],
    out: Annotated[Path, typer.Option(help="Folder for the predictions; replaced.")],
    model: Annotated[Path, typer.Option(help="Trained model.")] = Path("models/calibrate"),
    backbones: Annotated[Path, typer.Option(help="Frozen models.")] = Path("models/backbones"),
    features: Annotated[
        Path | None, typer.Option(help="Feature store; default: data/features, with --images OUT.features.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="images.parquet of the corpus: its images are encoded into --features first.")
    ] = None,
    split: Annotated[str, typer.Option(help="Split to decode: test or val.")] = "test",
    limit: Annotated[int | None, typer.Option(help="Records a context at most.")] = None,
    params: ParamsFile = PARAMS,
) -> None:
    """Write reports for a set of records, with the decoding settings of params.yaml and without controls."""
    from pacer.core.config import parse_params
    from pacer.core.io import refuse_foreign
    from pacer.corpus.records import read_records
    from pacer.decoding.run import OUTPUTS, decode_records

    refuse_foreign(out, OUTPUTS)
    settings = load_params(params).model_dump()
    settings["decode"] |= {"split": split, "limit": limit, "controls": []}
    checked = parse_params(settings, "pacer decode")
    table = read_records(records)
    if images is None:
        store = features or STORE
    else:
        store = features or out.with_name(f"{out.name}.features")
        if store.resolve() == STORE.resolve():
            raise ConfigError(f"--features {store} is the pipeline's own store; give --images a folder of its own")
        _encode(table, images, checked, model, backbones, store)
    decode_records(model, backbones, table, store, checked.decode, out)
    console.print(f"predictions written to {out}")


@app.command("import-llm-rg4")
def import_llm_rg4(
    file: Annotated[Path, typer.Argument(help="Released second-stage weights, .pth or .ckpt.")],
    out: Annotated[Path, typer.Option(help="Folder for the checkpoint; an earlier import is replaced.")],
    backbones: Annotated[Path, typer.Option(help="Frozen models.")] = Path("models/backbones"),
    params: ParamsFile = PARAMS,
) -> None:
    """Turn LLM-RG4's released weights into a checkpoint: for `pacer decode --model`, or for parent.start."""
    from pacer.core.io import refuse_foreign
    from pacer.model.checkpoint import RECORD, WEIGHTS
    from pacer.training.adopt import adopt_llm_rg4

    refuse_foreign(out, (RECORD, WEIGHTS))
    weights = adopt_llm_rg4(file, load_params(params), backbones, out)
    told = ", ".join(f"{name} {value}" for name, value in weights.settings.items())
    console.print(f"{len(weights.interface)} tensors of the source interface, {len(weights.lora)} of LoRA ({told})")
    frozen = len(weights.unused) - len(weights.surplus)
    if frozen:
        console.print(f"{frozen} tensors of frozen models not taken: those of {backbones} are used")
    for name in weights.surplus:
        console.print(Text(f"unused: {name}"))
    console.print(f"written to {out}; decode with `pacer decode --model {out}`, or set parent.start: {out}")


@app.command()
def score(
    records: Annotated[Path, typer.Option(help="records.parquet that the predictions belong to.")],
    predictions: Annotated[Path, typer.Option(help="Folder of {context}.jsonl; of any model.")],
    out: Annotated[Path, typer.Option(help="Folder for scores.json, signature.json and cases.parquet.")],
    chexbert: Annotated[Path, typer.Option(help="The labeller of the findings.")] = Path("models/backbones/chexbert"),
    truth: Annotated[Path | None, typer.Option(help="truth.parquet of a generated corpus.")] = None,
    split: Annotated[str | None, typer.Option(help="Split to score; default: the decoded one.")] = None,
    params: ParamsFile = PARAMS,
) -> None:
    """Score predictions, of this or any other model, against their references."""
    from pacer.corpus.records import read_about, read_records
    from pacer.metrics.scoring import decoded_records, score_predictions
    from pacer.reporting.tables import original_table, score_table

    settings = load_params(params)
    table = read_records(records)
    scores = score_predictions(
        decoded_records(table, predictions, split), predictions, None, None, chexbert, truth, out,
        train_records=_train(table) if truth is not None else None,
        convention=settings.score.convention, batch_size=settings.score.batch_size, about=read_about(records),
        rules=settings.anchors.rules,
    )  # fmt: skip
    _print_table(score_table(scores))
    originals = original_table(scores, read_about(records).get("target"))
    if originals is not None:
        console.print("\nAgainst the untouched findings")
        _print_table(originals)
    console.print(f"\nwritten to {out}")


@anchors.command("show")
def show_anchor(
    record: Annotated[str, typer.Argument(help="Record id, such as those in predictions/*.jsonl.")],
    html: Annotated[Path | None, typer.Option(help="Write the explanation as a page.")] = None,
    records: Annotated[Path, typer.Option(help="The corpus.")] = Path("data/corpus/records.parquet"),
    table: Annotated[Path, typer.Option("--anchors", help="Its commitments.")] = Path("data/anchors/anchors.parquet"),
) -> None:
    """Explain one commitment: the report with the words that the rules read, coloured by polarity."""
    from pacer.core.io import write_text
    from pacer.reporting.explanation import KINDS, explain, explanation_page

    found = explain(record, records, table)
    made_by = "the labelling model" if found.origin == "llm" else f"the rules, version {found.version}"
    console.print(Text(f"{record}, {found.context.upper()}, {found.split}; made by {made_by}\n"))
    for name, anchor in {"": found.anchor, "by the rules: ": found.by_rules}.items():
        if name == "" or anchor != found.anchor:
            console.print(Text(name).append_text(_chips(anchor)))
    report = Text()
    for run in found.runs:
        style = " ".join([COLOURS.get(run.polarity or "", ""), "bold" * run.decided, "underline" * run.cue])
        report.append(run.text, style.strip())
    console.print(Text("\n").append_text(report))
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("words", "finding", "polarity", "because of", "which", "decides"):
        grid.add_column(heading)
    for mention, words, cue in found.mentions:
        cells = (words, mention.finding, mention.polarity or "nothing said", cue, KINDS.get(mention.kind or "", ""),
                 "yes" if mention.decided else "")
        grid.add_row(*map(Text, cells))
    console.print()
    console.print(grid)
    if html is not None:
        write_text(html, explanation_page(found))
        console.print(Text(f"\nwritten to {html}"))


def _chips(anchor: Anchor) -> Text:
    parts = [Text(f"{sign} {finding}", COLOURS[polarity]) for polarity, sign in
             (("positive", "+"), ("uncertain", "?"), ("negative", "-")) for finding in getattr(anchor, polarity)]
    return Text("   ").join(parts) if parts else Text("none")


def main() -> None:
    """Entry point of the console script: a PacerError is one line and exit code 1."""
    run_cleanly(app)


def _encode(records: pl.DataFrame, images: Path, params: Params, model: Path, backbones: Path, features: Path) -> None:
    """Encode what the records need, as the model was trained; what ``features`` holds already is reused."""
    import polars as pl

    from pacer.core.io import read_json
    from pacer.corpus.records import read_images
    from pacer.features.build import build_store

    depths = read_json(model / "config.json")["model"]["features"]["depths"]
    wanted = records.filter(pl.col("split") == params.decode.split)
    ids = set(wanted["frontal"]) | set(wanted["lateral"].drop_nulls())
    paths = read_images(images).filter(pl.col("image_id").is_in(list(ids)))
    recipe = params.features.model_copy(update={"depths": depths})
    build_store(recipe, paths, wanted["prior_report"].drop_nulls().to_list(), backbones, features)


def _train(records: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    return records.filter(pl.col("split") == "train")


def _print_findings(title: str, findings: list[Finding]) -> None:
    grid = Grid(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for finding in findings:
        style = {"ok": "green", "note": "yellow", "missing": "bold red"}[finding.state]
        grid.add_row(f"  [{style}]{finding.state}[/]", finding.what, finding.detail)
    console.print(f"\n{title}")
    console.print(grid)


def _print_table(table: Table) -> None:
    grid = Grid(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for column, right in zip(table.columns, table.numeric, strict=True):
        grid.add_column(column, justify="right" if right else "left")
    for row in table.rows:
        grid.add_row(*row)
    console.print(grid)


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _size(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count < 1e12 else f"{count / 1e12:.2f} TB"
