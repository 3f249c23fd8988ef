"""``pacer audit``; heavy imports wait until it runs."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.text import Text

from pacer.config import Params
from pacer.config.params import check_splits, load_profile
from pacer.core.errors import ConfigError, DataError
from pacer.core.io import check_replaceable
from pacer.display import terminal
from pacer.display.numbers import Check, number, percent
from pacer.display.terminal import BACKBONES, PARAMS, console, echo, print_table


def audit(
    params: Path = PARAMS,
    out: Path | None = None,
) -> None:
    """Read a corpus, and print a summary and its problems."""
    from pacer.corpus.audit_texts import audit_texts
    from pacer.corpus.build_corpus import OUTPUTS, build_corpus
    from pacer.corpus.checks import IN_POLARS
    from pacer.corpus.source import point_to_files
    from pacer.reporting.score_tables import corpus_table

    config = load_profile(params)
    corpus = config.corpus
    # the problems of a refused corpus are written here, and a later audit removes the file
    problems = Path("audit.problems.csv") if out is None else None
    if out is not None:
        check_replaceable(out, OUTPUTS)
    with tempfile.TemporaryDirectory() as scratch:
        source = Path("data/source")
        if corpus.source == "files":
            source = Path(scratch) / "source"
            point_to_files(corpus, source)
        elif not source.exists():
            raise ConfigError(
                "the phantom has not been generated yet (no data/source); run `dvc repro source` "
                "first"
            )
        read = out or Path(scratch) / "corpus"
        result = build_corpus(corpus, source, read, problems)
        checks = [Check(**line) for line in result["checks"]]
        checks += audit_texts(read / "records.parquet")
        checks += _controls(config, read / "records.parquet")
        if "train" in result["splits"]:
            try:
                check_splits(result["contexts"], config)
                splits = ("all have records", True)
            except DataError as error:
                splits = (str(error), False)
            checks += [
                Check("Splits that training needs", *splits),
                _token_limit(config, read / "records.parquet"),
            ]
    print_table(corpus_table(result))
    console.print()
    signs = {True: Text("ok"), False: Text("check", "yellow")}
    details = [check.detail.partition(IN_POLARS) for check in checks]
    terminal.print_rows(
        (signs[check.good], check.name, f"{detail}; lines of polars below" if lines else detail)
        for check, (detail, _, lines) in zip(checks, details, strict=True)
    )
    for check, (_, _, lines) in zip(checks, details, strict=True):
        if lines:
            echo(f"\n# {check.name}\n{lines}")
    if out is not None:
        import polars as pl

        table = out / "problems.csv"
        listed = pl.read_csv(table, infer_schema=False, glob=False).height
        echo(
            f"\nwritten to {out}; {table} lists what was rejected or left out, and what to check "
            f"({listed:,} lines)"
        )


def _controls(config: Params, records: Path) -> list[Check]:
    """Return whether all records that will be decoded can have another patient's sources; nothing
    without that control. The stage `decode` comes after training and would fail."""
    if "another_patient" not in config.decode.controls:
        return []
    from pacer.core.schemas import of_split, read_records
    from pacer.decoding.controls import another_patient

    try:
        another_patient(of_split(read_records(records), config.decode.split))
    except DataError as error:
        others = [name for name in config.decode.controls if name != "another_patient"]
        remedy = f"{error}: set decode: {{controls: [{', '.join(others)}]}}"
        return [Check("Control another_patient", remedy, False)]
    return [Check("Control another_patient", "possible in all contexts", True)]


def _token_limit(params: Params, records: Path) -> Check:
    """Count the train targets that the token limit cuts, if the stage `backbones` made the language
    model."""
    from pacer.backbones.pointers import provenance, resolve
    from pacer.core.schemas import read_records
    from pacer.corpus.audit import LEFT_OUT_LIMIT

    limit = params.trajectory.report_tokens
    name = f"Training targets over {limit} tokens"
    try:
        from pacer.backbones.tokenizer import read_tokenizer
        from pacer.training.trajectory import TrajectoryBuilder
    except ModuleNotFoundError:
        return Check(name, "unknown without the `pipeline` extra; run `make setup`", good=False)
    folder = BACKBONES / "language"
    if provenance(folder).get("provider") != params.backbones.language.provider:
        return Check(name, "unknown until you run `dvc repro backbones`", good=False)
    tokenizer = read_tokenizer(resolve(folder))
    builder = TrajectoryBuilder(tokenizer, limit)
    cut = 0
    train = read_records(records, ["split", "report"]).filter(split="train")
    for part in train.iter_slices(16_384):  # all ids at once would take gigabytes
        ids = tokenizer(part["report"].to_list(), add_special_tokens=False)["input_ids"]
        cut += sum(map(builder.is_cut, ids))
    detail = (
        f"{number(cut)} of {number(len(train))} ({percent(cut, len(train))}): truncated, "
        "without an end token"
    )
    detail += "; trajectory.report_tokens is the limit" if cut else ""
    return Check(name, detail, cut <= LEFT_OUT_LIMIT * len(train))
