"""Annotation of the pairs of texts before scoring: the only place where the cases get columns and
their ledger of findings.

Texts are put on one line, labelled (if there is a labeller), read by the rules, and compared word
by word. METEOR's program runs beside all this.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from io import BytesIO
from pathlib import Path
from typing import IO, NamedTuple

import polars as pl

from pacer.config.decode import ScoreSettings
from pacer.core.errors import DataError
from pacer.core.findings import FINDINGS
from pacer.core.machine import core_count
from pacer.core.progress import Ticker
from pacer.core.schemas import TRUTH_SCHEMA, read_table
from pacer.metrics.cases import COLUMNS, LABELS, OPTIONAL, controls_of
from pacer.metrics.columns import check_names, metric_columns, metrics_of
from pacer.metrics.meteor import MeteorError, meteor_run
from pacer.metrics.nlg import meteor_columns, single_line, with_word_scores
from pacer.metrics.options import Scoring
from pacer.metrics.reading import read_pairs
from pacer.metrics.scores import SCORE_OF
from pacer.tables.columns import read_columns
from pacer.tables.ids import format_ids
from pacer.tables.values import mapped
from pacer.text.cleaning.cleaners import CLEANERS

#: Rows that a process reads at a time; fewer reports are read sooner than processes start.
_ROWS = 2_000
#: The form of original findings by ``score.originals``, with its name. The paper does not state
#: which one it used.
ORIGINALS: Mapping[str, tuple[Callable[[str], str], str]] = {
    **{name: (clean, f"cleaned by {name}") for name, clean in CLEANERS.items()},
    "as_is": (lambda text: " ".join(text.split()), "spaces collapsed, case and punctuation kept"),
    "lowercase": (
        lambda text: " ".join(text.lower().split()),
        "spaces collapsed, lower-cased, punctuation kept",
    ),
}
#: Names that would be mistaken for ids or row numbers, or that scoring computes itself.
_TAKEN = {
    "threshold",
    "states",
    "id",
    "ids",
    "image_id",
    "case",
    "index",
    "level_0",
    "rownames",
    "row_nr",
}


class Annotated(NamedTuple):
    """Cases with all their columns. ``ledger``: the rows of their findings, which are collected
    last, as they are many. ``originals``: the cases whose original findings section is known, with
    it as reference. ``own``: the user's columns. ``meanings``: what the columns mean that the
    user's functions returned. ``failed``: scores that could not be computed, with the reason."""

    cases: pl.DataFrame
    ledger: pl.LazyFrame
    originals: pl.DataFrame
    own: pl.DataFrame
    meanings: dict[str, str]
    failed: dict[str, str]


def annotate(cases: pl.DataFrame, options: Scoring, threshold: float | None = None) -> Annotated:
    """Return paired cases with everything that scores need. ``threshold``: the least probability of
    a finding that counts as present."""
    failed: dict[str, str] = {}
    # a file of labels is made from the references as given, before they are put on one line
    references = cases.select("record_id", report="reference") if options.labels else None
    cases = _with_single_line_texts(cases)
    originals = _against_originals(cases, options.settings)
    meteor = (
        nullcontext()
        if "meteor" in options.without
        else meteor_run(cases["reference"].to_list(), cases["hypothesis"].to_list())
    )
    with meteor as finish_meteor:
        own, meanings = _own_columns(cases, options)
        cases = _with_labels(cases, references, options)
        cases = cases.with_columns(pl.lit(threshold, pl.Float64).alias("threshold"))
        columns, ledger = _read(cases)
        cases = cases.hstack(columns).hstack(own)
        if options.truth is not None:
            cases = with_truth(cases, options.truth)
        if finish_meteor is not None:
            try:
                cases = cases.with_columns(meteor_columns(finish_meteor()))
            except MeteorError as error:
                failed["meteor"] = str(error)
    return Annotated(cases, ledger, originals, own, meanings, failed)


def _with_single_line_texts(cases: pl.DataFrame) -> pl.DataFrame:
    """Put the reference and all hypotheses on one line, and add which controls gave the same
    report."""
    texts = ["reference", *_hypotheses(cases)]
    cases = cases.with_columns(mapped(name, single_line) for name in texts)
    same = {
        f"{name}_unchanged": pl.col(f"{name}_hypothesis") == pl.col("hypothesis")
        for name in controls_of(cases)
    }
    return cases.with_columns(**same)


def _hypotheses(cases: pl.DataFrame) -> list[str]:
    return ["hypothesis", *(f"{control}_hypothesis" for control in controls_of(cases))]


def _against_originals(cases: pl.DataFrame, settings: ScoreSettings) -> pl.DataFrame:
    """Return the cases that have original findings, with these as references in the form that the
    settings name."""
    form, _ = ORIGINALS[settings.originals]
    written = cases.filter(pl.col("findings_original").fill_null("") != "")
    originals = mapped("findings_original", lambda text: single_line(form(text)))
    return with_word_scores(written.with_columns(reference=originals))


def _own_columns(cases: pl.DataFrame, options: Scoring) -> tuple[pl.DataFrame, dict[str, str]]:
    """Return the user's columns of the cases, from the file and from the functions, and what those
    from the functions mean."""
    read = pl.DataFrame()
    if options.settings.columns is not None:
        read = read_columns(options.settings.columns, cases["record_id"].to_list())
    functions = {**metrics_of(options.settings.metrics), **options.metrics}
    taken = {*_TAKEN, *COLUMNS, *OPTIONAL, *cases.columns, *SCORE_OF}
    check_names([*read.columns, *functions], taken)
    numbers, meanings = metric_columns(functions, cases)
    return pl.DataFrame([*read, *numbers]), meanings


def _with_labels(
    cases: pl.DataFrame, references: pl.DataFrame | None, options: Scoring
) -> pl.DataFrame:
    """Add CheXbert's labels of every text; null columns without a labeller. Labels of the
    ``references`` (``record_id`` and ``report``) come from the file ``options.labels`` if given; it
    is created if it does not exist."""
    if options.chexbert is None:
        return cases.with_columns(
            pl.lit(None, LABELS).alias(f"{side}_labels") for side in ("reference", "hypothesis")
        )
    # imports torch, which no other score needs
    from pacer.backbones.chexbert import CheXbert, known_labels, label_references

    sides = _hypotheses(cases)
    if options.labels is None or references is None:
        sides.append("reference")
    else:
        if not options.labels.is_file():
            label_references(references, options.chexbert, options.labels)
        known = known_labels(options.labels, references, options.chexbert)
        cases = cases.with_columns(pl.Series("reference_labels", known, dtype=LABELS))
    return cases.with_columns(CheXbert(options.chexbert).columns(cases, sides))


def _read(cases: pl.DataFrame) -> tuple[pl.DataFrame, pl.LazyFrame]:
    """Return the new columns and the findings of :func:`read_pairs`, which do not depend on the
    number of cores that make them."""
    if len(cases) <= _ROWS:
        columns, findings = read_pairs(cases)
        return columns, findings.lazy()
    # imported here, because small tables need no further processes; those of loky do not import the
    # user's main module, unlike multiprocessing's
    from joblib import Parallel, delayed
    from joblib.externals.loky import get_reusable_executor

    # what is read stays compressed: the columns until the other processes have ended, the findings
    # until the scores are computed
    parts: list[tuple[bytes, bytes]] = []
    slices = (delayed(_read_compressed)(part) for part in cases.iter_slices(_ROWS))
    with Ticker("reading reports", len(cases)) as ticker:
        for part in Parallel(core_count(), return_as="generator")(slices):
            parts.append(part)
            ticker.advance(min(_ROWS, len(cases) - _ROWS * (len(parts) - 1)))
    get_reusable_executor().shutdown()  # the idle processes would keep their memory for minutes
    columns, findings = zip(*parts, strict=True)
    sources: list[IO[bytes]] = [BytesIO(part) for part in findings]
    return pl.concat(map(pl.read_ipc, columns), rechunk=True), pl.scan_ipc(sources, glob=False)


def _read_compressed(cases: pl.DataFrame) -> tuple[bytes, bytes]:
    """Return the frames of :func:`read_pairs` as compressed files."""
    columns, findings = (
        frame.write_ipc(None, compression="zstd").getvalue() for frame in read_pairs(cases)
    )
    return columns, findings


def with_truth(cases: pl.DataFrame, path: str | Path) -> pl.DataFrame:
    """Add the latent findings of each case's study, ``truth``, and their ``states``. Raises a
    DataError, as :func:`~pacer.core.schemas.read_table`; or a study is missing."""
    table = read_table(path, TRUTH_SCHEMA)
    if missing := cases.join(table, on="study_id", how="anti")["study_id"].to_list():
        raise DataError(f"{path} does not contain study {format_ids(missing, 1)}")
    stated = pl.concat_list(
        pl.when(pl.col(finding)).then(pl.lit(finding)) for finding in FINDINGS
    ).list.drop_nulls()
    latent = table.select("study_id", stated.alias("truth"), "states")
    return cases.join(latent, on="study_id", how="left", maintain_order="left")
