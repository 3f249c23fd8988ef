"""The command ``pacer``: profiles, a look at the machine, and decoding and scoring outside the pipeline.

Each command reads its arguments and calls one function of a room. Heavy imports wait until a command needs them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from pacer.core.errors import ConfigError, run_cleanly
from pacer.params import load_params
from pacer.profiles import profile_in_use, profile_names, use_profile
from pacer.serving.commands import export, generate, serve
from pacer.serving.terminal import COLOURS, chips

if TYPE_CHECKING:
    import polars as pl

    from pacer.doctor import Finding
    from pacer.params import Params
    from pacer.reporting.tables import Table
    from pacer.studies.study import Study

CONFIGS, PARAMS, STORE = Path("configs"), Path("params.yaml"), Path("data/features")
STUDIES = Path("studies")

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
study = typer.Typer(no_args_is_help=True, help="Run many experiments and set them in one table (docs/studies.md).")
app.add_typer(study, name="study")
baseline = typer.Typer(no_args_is_help=True, help="Run models that others have published.")
app.add_typer(baseline, name="baseline")
console = Console(highlight=False)

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
    from pacer.corpus.build_corpus import OUTPUTS, build_corpus
    from pacer.corpus.ledger import COLUMNS
    from pacer.corpus.source.files import point_to_files
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
    from pacer.core.io import refuse_foreign
    from pacer.decoding.run import OUTPUTS, decode_records
    from pacer.params import parse_params
    from pacer.records.schemas import read_records

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


app.command()(export)
app.command()(generate)
app.command()(serve)


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
    out: Annotated[Path, typer.Option(help="Folder for scores, details, signature and cases.")],
    records: Annotated[Path | None, typer.Option(help="records.parquet that the predictions belong to.")] = None,
    predictions: Annotated[Path | None, typer.Option(help="Folder of {context}.jsonl; of any model.")] = None,
    references: Annotated[
        Path | None, typer.Option(help="Instead: references as CSV, JSONL, JSON or Parquet (docs/scoring.md).")
    ] = None,
    hypotheses: Annotated[Path | None, typer.Option(help="And the reports of any system, in any of these.")] = None,
    chexbert: Annotated[Path, typer.Option(help="The labeller of the findings.")] = Path("models/backbones/chexbert"),
    labels: Annotated[
        Path | None, typer.Option(help="Keep the labels of the references here; a file that is there is used.")
    ] = None,
    truth: Annotated[Path | None, typer.Option(help="truth.parquet of a generated corpus.")] = None,
    split: Annotated[
        str | None, typer.Option(help="Split to score; default: the decoded one, or test of --references with splits.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="Score this context of the references alone.")] = None,
    missing: Annotated[str, typer.Option(help="A reference without a report: error, or empty.")] = "error",
    duplicates: Annotated[str, typer.Option(help="An id that stands twice: error, first, or all.")] = "error",
    extract: Annotated[str, typer.Option(help="boxed: the last \\boxed{} of each report; none.")] = "none",
    deduplicate: Annotated[bool, typer.Option(help="Drop repeated sentences of a report.")] = False,
    clean_references: Annotated[str, typer.Option(help="Clean the references: none, upstream, careful.")] = "none",
    clean_hypotheses: Annotated[str, typer.Option(help="Clean the reports: none, upstream, careful.")] = "none",
    reference_id: Annotated[str | None, typer.Option(help="Column of the ids of the references.")] = None,
    reference_text: Annotated[str | None, typer.Option(help="Column of their texts.")] = None,
    hypothesis_id: Annotated[str | None, typer.Option(help="Column of the ids of the reports.")] = None,
    hypothesis_text: Annotated[str | None, typer.Option(help="Column of their texts.")] = None,
    params: ParamsFile = PARAMS,
) -> None:
    """Score reports against their references: predictions of this pipeline's form, or anyone's files."""
    from pacer.core.io import read_json
    from pacer.external.foreign import Protocol, score_reports
    from pacer.reporting.audits import reading_notes, signature_line, standin_note
    from pacer.reporting.comparisons import convention_table
    from pacer.reporting.tables import original_table, report_content_table, score_table

    protocol = Protocol(
        missing,
        duplicates,
        extract,
        deduplicate,
        clean_references,
        clean_hypotheses,
        split,
        context,
        reference_id,
        reference_text,
        hypothesis_id,
        hypothesis_text,
    )
    settings = load_params(params)
    common = {
        "convention": settings.score.convention,
        "originals": settings.score.originals,
        "batch_size": settings.score.batch_size,
        "rules": settings.anchors.rules,
    }
    if records and predictions and not (references or hypotheses):
        if protocol != Protocol(split=protocol.split):
            raise ConfigError(
                "--missing, --duplicates, --extract, --deduplicate, --context, --clean-* and the names "
                "of columns go with --references and --hypotheses"
            )
        scores = _score_predictions(records, predictions, chexbert, labels, truth, split, out, common)
    elif references and hypotheses and not (records or predictions or truth):
        scores = score_reports(references, hypotheses, chexbert, out, protocol, labels_path=labels, **common)
    else:
        raise ConfigError("give --records and --predictions (and --truth), or --references and --hypotheses")
    signature = read_json(out / "signature.json")
    _print_table(score_table(scores))
    originals = original_table(scores, signature["language"]["target"])
    if originals is not None:
        console.print(f"\nAgainst the original findings ({signature['language']['original_references']})")
        _print_table(originals)
    console.print("\nBy label convention")
    _print_table(convention_table(scores))
    console.print("\nPolarity of the findings, and comparison with earlier examinations")
    _print_table(report_content_table(scores))
    console.print()
    for line in (*reading_notes(signature), signature_line(signature)):
        console.print(Text(line), soft_wrap=True)
    if note := standin_note(signature):
        console.print(Text(note), soft_wrap=True)
    console.print(f"\nwritten to {out}")


@study.command("run")
def run_one_study(
    name: Annotated[str, typer.Argument(help="Study in studies/ (`pacer study list`).")],
    row: Annotated[list[str] | None, typer.Option(help="Run this row alone; may be given more than once.")] = None,
) -> None:
    """Make the runs of a study that are not there yet, one after another, and write its table."""
    import signal

    from pacer.params.baselines import BaselineParams
    from pacer.studies.pipeline import BASELINE_PARAMS
    from pacer.studies.plan import KINDS
    from pacer.studies.run import run_study
    from pacer.studies.study import load_study

    chosen = load_study(STUDIES, name)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # `kill` ends a study as Ctrl-C does: tidily
    run_study(
        chosen,
        Path.cwd(),
        lambda line: console.print(Text(line), soft_wrap=True),
        kinds={**KINDS, BASELINE_PARAMS: BaselineParams},
        rows=frozenset(row or ()),
    )
    _write_study(chosen)


@study.command("show")
def show_study(name: Annotated[str, typer.Argument(help="Study in studies/ (`pacer study list`).")]) -> None:
    """Write and print the table of a study from the runs that exist."""
    from pacer.studies.study import load_study

    print(_write_study(load_study(STUDIES, name)))


@study.command("list")
def list_studies() -> None:
    """List the studies and how many of their runs exist."""
    from pacer.studies.run import folders, results_folder
    from pacer.studies.study import load_study, study_names

    grid = Grid(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for known in study_names(STUDIES):
        found = load_study(STUDIES, known)
        wanted = len(found.seeds) * sum(row.files is None for row in found.rows)
        there = len(list(folders(found, results_folder(Path.cwd()))))
        grid.add_row(known, f"{there} of {wanted}", Text(found.title))
    console.print(grid)


@study.command("restore")
def restore_study() -> None:
    """Put the workspace back as it was before a study that was killed."""
    from pacer.studies.run import restore_workspace

    restore_workspace(Path.cwd(), lambda line: console.print(Text(line), soft_wrap=True))


def _write_study(chosen: Study) -> str:
    """Write a study's table in all formats; returns it as Markdown."""
    from pacer.studies.paired import compare
    from pacer.studies.render import markdown, write_table
    from pacer.studies.run import results_folder
    from pacer.studies.table import build_table, collect

    results = results_folder(Path.cwd())
    table = build_table(chosen, collect(chosen, Path.cwd(), results), compare)
    written = write_table(table, results / chosen.name)
    console.print(Text(f"written: {', '.join(str(path.relative_to(Path.cwd())) for path in written)}"), soft_wrap=True)
    return markdown(table)


@anchors.command("show")
def show_anchor(
    record: Annotated[str, typer.Argument(help="Record id, such as those in predictions/*.jsonl.")],
    html: Annotated[Path | None, typer.Option(help="Write the explanation as a page.")] = None,
    records: Annotated[Path, typer.Option(help="The corpus.")] = Path("data/corpus/records.parquet"),
    table: Annotated[Path, typer.Option("--anchors", help="Its commitments.")] = Path("data/anchors/anchors.parquet"),
    answers: Annotated[Path, typer.Option(help="Answers of the labelling model, for its evidence; may be missing.")] = (
        Path("data/anchors/llm_cache.jsonl")
    ),
) -> None:
    """Explain one commitment: the report with the words that the rules read, coloured by polarity."""
    from pacer.core.io import write_text
    from pacer.reporting.explanation import KINDS, explain, explanation_page

    if html is not None and html.is_dir():
        raise ConfigError(f"--html {html} is a folder; name a file")
    found = explain(record, records, table, answers)
    made_by = "the labelling model" if found.origin == "llm" else f"the rules, version {found.version}"
    console.print(Text(f"{record}, {found.context.upper()}, {found.split}; made by {made_by}\n"))
    console.print(chips(found.anchor))
    if found.origin == "llm":
        same = found.by_rules == found.anchor
        console.print(Text("the rules alone would say: ") + (Text("the same") if same else chips(found.by_rules)))
    if found.evidence:
        console.print("\nwhat the labelling model gives as evidence")
        _print_cells(
            ("finding", "phrase", ""),
            [
                (phrase.finding, phrase.text, "" if phrase.found else "not in the report in these words")
                for phrase in found.evidence
            ],
        )
    report = Text()
    for run in found.runs:
        style = " ".join([COLOURS.get(run.polarity or "", ""), "bold" * run.decided, "underline" * run.cue])
        report.append(run.text, style.strip())
    console.print(Text("\n").append_text(report))
    legend = Text("\n")
    for polarity, colour in COLOURS.items():
        legend.append(polarity, colour).append(", ")
    legend.append("bold", "bold").append(": decides, ").append("underlined", "underline").append(": because of it")
    console.print(legend)
    console.print("\nwhat the rules read")
    _print_cells(
        ("words", "finding", "polarity", "because of", "which", "decides"),
        [
            (
                words,
                mention.finding,
                mention.polarity or "nothing said",
                cue,
                KINDS.get(mention.kind or "", ""),
                "yes" if mention.decided else "",
            )
            for mention, words, cue in found.mentions
        ],
    )
    if html is not None:
        write_text(html, explanation_page(found))
        console.print(Text(f"\nwritten to {html}"))


@baseline.callback()
def _baseline() -> None:
    """Keep the name of a single command."""


@baseline.command()
def chexone(
    records: Annotated[Path, typer.Option(help="records.parquet of a corpus.")],
    images: Annotated[Path, typer.Option(help="images.parquet of the corpus.")],
    model: Annotated[Path, typer.Option(help="Folder of the released weights, in Hugging Face format.")],
    out: Annotated[Path, typer.Option(help="Folder for generated.jsonl and manifest.json; replaced.")],
    split: Annotated[str, typer.Option(help="Split to answer for.")] = "test",
    context: Annotated[str, typer.Option(help="Context of the records; the frontal image is shown.")] = "sn",
    limit: Annotated[int | None, typer.Option(help="Records at most.")] = None,
    max_new_tokens: Annotated[int, typer.Option(help="Tokens of an answer at most.")] = 1024,
    max_pixels: Annotated[int, typer.Option(help="Pixels of an image after resizing.")] = 512 * 512,
    batch_size: Annotated[int, typer.Option(help="Images at a time.")] = 4,
) -> None:
    """Write CheXOne's answers to the published prompt, one beam; scoring takes the findings from the last box."""
    from pacer.baselines.chexone import OUTPUTS, Settings, run_chexone
    from pacer.core.io import refuse_foreign
    from pacer.records.schemas import read_images, read_records

    refuse_foreign(out, OUTPUTS)
    settings = Settings(max_new_tokens=max_new_tokens, max_pixels=max_pixels, batch_size=batch_size)
    found = run_chexone(
        read_records(records), read_images(images), model, out, settings, split=split, context=context, limit=limit
    )
    console.print(
        f"{found['records']} answers written to {out}, {found['not_ended']} of them cut at {max_new_tokens} tokens"
    )


@app.command()
def compare(
    first: Annotated[Path, typer.Argument(metavar="RUN_A", help="Folder of scores, or a folder with metrics/.")],
    second: Annotated[Path, typer.Argument(metavar="RUN_B", help="The other one; differences are B - A.")],
    convention: Annotated[str, typer.Option(help="Label convention of the F1.")] = "llm-rg4",
    unit: Annotated[str | None, typer.Option(help="Resample: subject, study or record; default: as known.")] = None,
    resamples: Annotated[int, typer.Option(help="Bootstrap samples, and as many of randomisation.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of both.")] = 0,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
) -> None:
    """Compare two scored runs case by case: paired bootstrap intervals and approximate randomisation."""
    from pacer.comparison.compare import compare_runs
    from pacer.reporting.comparisons import comparison_notes, comparison_table

    found = compare_runs(first, second, convention=convention, unit=unit, resamples=resamples, seed=seed, level=level)
    if json:
        from json import dumps

        print(dumps(found.as_dict(), indent=2))
        return
    _print_table(comparison_table(found))
    console.print()
    for line in comparison_notes(found):
        console.print(Text(line), soft_wrap=True)


def _print_cells(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """A table of texts that are no markup."""
    grid = Grid(*headings, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for row in rows:
        grid.add_row(*map(Text, row))
    console.print(grid)


def main() -> None:
    """Entry point of the console script: a PacerError is one line and exit code 1."""
    run_cleanly(app)


def _encode(records: pl.DataFrame, images: Path, params: Params, model: Path, backbones: Path, features: Path) -> None:
    """Encode what the records need, as the model was trained; what ``features`` holds already is reused."""
    import polars as pl

    from pacer.core.io import read_json
    from pacer.encoding.build_store import build_store
    from pacer.records.schemas import read_images

    depths = read_json(model / "config.json")["model"]["features"]["depths"]
    wanted = records.filter(pl.col("split") == params.decode.split)
    ids = set(wanted["frontal"]) | set(wanted["lateral"].drop_nulls())
    paths = read_images(images).filter(pl.col("image_id").is_in(list(ids)))
    recipe = params.features.model_copy(update={"depths": depths})
    build_store(recipe, paths, wanted["prior_report"].drop_nulls().to_list(), backbones, features)


def _score_predictions(
    records: Path,
    predictions: Path,
    chexbert: Path,
    labels: Path | None,
    truth: Path | None,
    split: str | None,
    out: Path,
    settings: dict[str, Any],
) -> dict[str, Any]:
    from pacer.metrics.chexbert.reference_labels import label_references
    from pacer.metrics.scoring import decoded_records, limit_note, score_predictions
    from pacer.records.schemas import read_about, read_records

    table = read_records(records)
    wanted = decoded_records(table, predictions, split)
    if note := limit_note(table, predictions, split):
        console.print(Text(note), soft_wrap=True)
    if labels is not None and not labels.is_file():
        label_references(wanted, chexbert, labels, settings["batch_size"])
    return score_predictions(
        wanted,
        predictions,
        labels,
        None,
        chexbert,
        truth,
        out,
        train_records=_train(table) if truth is not None else None,
        about=read_about(records),
        **settings,
    )


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


def _print_table(table: Table | None) -> None:
    if table is None:
        return
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
