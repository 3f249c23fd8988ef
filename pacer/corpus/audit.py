"""The audit of a corpus: counts, leaks, and checks of whether the corpus can be trusted."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import polars as pl

from pacer.config import Corpus
from pacer.core.contexts import CONTEXTS, availability
from pacer.core.schemas import SPLITS
from pacer.corpus.account import BAD, LEFT_OUT, PRIOR_ONLY, Account, Notes
from pacer.corpus.checks import IN_POLARS, TOPICS, mender, on_one_line
from pacer.corpus.images import DECODED
from pacer.display.numbers import Check, counted, number, share
from pacer.images.greyscale import MISSING

#: Scenario records of MIMIC-RG4 (paper, table of the appendix "Dataset Splits and Availability
#: Settings").
PAPER_RECORDS: dict[str, dict[str, int]] = {
    "sn": {"train": 172_608, "val": 1_391, "test": 2_357},
    "sw": {"train": 112_776, "val": 937, "test": 2_026},
    "mn": {"train": 91_341, "val": 701, "test": 1_004},
    "mw": {"train": 47_686, "val": 371, "test": 828},
}

#: A check is flagged if more than this share of the targets presuppose an absent previous report.
WORDING_LIMIT = 0.05
#: A check is flagged if more than this share of the input rows were left out.
LEFT_OUT_LIMIT = 0.1
#: A check is flagged if more than this number of days (100 years) lie between two examinations.
GAP_LIMIT = 36_525
#: Number of reasons that a line names; the others are only counted.
_NAMED = 5
#: Number of values that the line of a note names; the others are only counted.
_VALUES = 8


def audit_corpus(
    records: pl.DataFrame,
    priors: pl.DataFrame,
    images: pl.DataFrame,
    unusable: pl.DataFrame,
    pictures: pl.DataFrame,
    config: Corpus,
    account: Account,
) -> dict[str, Any]:
    """Return the content of ``audit.json``, without the settings. A researcher should read its
    ``checks`` before trusting the corpus; those not marked good need attention.

    Args:
        records, priors, images: the finished tables.
        unusable: ``problem`` of each image that cannot be used.
        pictures: the pictures of the records, by content (:func:`pacer.corpus.images.pictures_of`).
    """
    contexts = count_records(records, config.contexts)
    # a corpus that is used only for evaluation has no train split
    has_train = any(counts["train"]["records"] for counts in contexts.values())
    splits = SPLITS if has_train else SPLITS[1:]
    rows = {
        "used": int(records.unique("examination")["rows"].sum()),
        "bad": account.rows(BAD),
        "left_out": account.rows(LEFT_OUT),
        "previous_only": account.rows(PRIOR_ONLY),
        "beyond_limit": account.notes.beyond_limit,
    }
    bad = account.reasons(BAD)
    left_out = account.reasons(LEFT_OUT)
    read = account.notes.read
    topics = {
        topic: {
            source: dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
            for source, counts in sources.items()
        }
        for topic, sources in sorted(account.notes.topics.items())
    }
    checks = [
        _fault("Studies in two splits", _shared(records, "study_id")),
        _fault("Patients in two splits", _shared(records, "subject_id")),
        _rows(read, rows),
        _fault("Bad rows or records", _reasons(bad)),
        _fault("Rows or records left out", _reasons(left_out))._replace(
            good=rows["left_out"] <= LEFT_OUT_LIMIT * read.total()
        ),
        _reused(pictures),
        *_images(images, unusable),
        _empty(contexts, splits),
        _wording(account.notes.wording, config.unseen_comparisons),
        *_priors(priors, set(records["context"]), config, account.notes),
        *(
            note(topic, by_source, mender(config) if config.format == "table" else None)
            for topic, by_source in topics.items()
        ),
    ]
    if config.original_references is not None:
        originals = records["findings_original"].count()
        detail = f"for {number(originals)} of {number(records.height)} records"
        checks.append(Check("Original references", detail, originals > 0))
    return {
        "records": records.height,
        "contexts": contexts,
        "splits": list(splits),
        "rows": {"read": dict(read)} | rows,
        "excluded": {"count": sum(bad.values()), "reasons": bad},
        "left_out": {"count": sum(left_out.values()), "reasons": left_out},
        "notes": topics,
        "checks": [check._asdict() for check in checks],
    }


def count_records(
    records: pl.DataFrame, contexts: Sequence[str]
) -> dict[str, dict[str, dict[str, int]]]:
    """Return ``{context: {split: {records, studies, subjects, paper}}}``, including splits without
    records."""
    groups = records.group_by("context", "split").agg(
        records=pl.len(),
        studies=pl.col("study_id").n_unique(),
        subjects=pl.col("subject_id").n_unique(),
    )
    counts = {(row.pop("context"), row.pop("split")): row for row in groups.to_dicts()}
    none = {"records": 0, "studies": 0, "subjects": 0}
    return {
        context: {
            split: counts.get((context, split), none) | {"paper": PAPER_RECORDS[context][split]}
            for split in SPLITS
        }
        for context in contexts
    }


def plain(text: str, longest: int = 100) -> str:
    """Return ``text`` on one line, shortened to ``longest`` characters."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    text = " ".join(printable.split())
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def _fault(name: str, detail: str) -> Check:
    """Return a check of something that should not exist."""
    return Check(name, detail or "none", not detail)


def _shared(records: pl.DataFrame, column: str) -> str:
    """Count the ids that two splits share."""
    ids = {split: set(records.filter(split=split)[column]) for split in SPLITS}
    shared = {f"{a} and {b}": len(ids[a] & ids[b]) for a, b in combinations(SPLITS, 2)}
    return counted(shared, "{} in {}")


def _rows(read: Mapping[str, int], rows: Mapping[str, int]) -> Check:
    """Account for every row that was read."""
    if sum(read.values()) != sum(rows.values()):
        raise RuntimeError(
            f"{sum(read.values())} rows were read, but {sum(rows.values())} are accounted for"
        )
    names = {
        "left_out": "left out",
        "previous_only": "previous report only",
        "beyond_limit": "beyond the limit",
    }
    outcomes = counted({names.get(name, name): count for name, count in rows.items()})
    total = number(sum(read.values()))
    if len(read) > 1:
        total += f" ({', '.join(f'{name} {number(count)}' for name, count in read.items())})"
    return Check("Rows read", f"{total}: {outcomes}")


def _reasons(reasons: Mapping[str, int]) -> str:
    """Return the number of rows, the most frequent reasons with their counts, and the number of
    other reasons."""
    if not reasons:
        return ""
    first = list(reasons.items())[:_NAMED]
    parts = [
        f"{number(count)} × {plain(reason.partition(IN_POLARS)[0])}" for reason, count in first
    ]
    if rest := list(reasons.values())[_NAMED:]:
        others = "another reason" if len(rest) == 1 else f"{number(len(rest))} other reasons"
        parts.append(f"{number(sum(rest))} for {others}")
    return f"{number(sum(reasons.values()))}: {'; '.join(parts)}"


def _reused(pictures: pl.DataFrame) -> Check:
    """Count the pictures, by content, in records of more than one patient, split, examination and
    view."""
    owners = {
        "two patients": "subject_id",
        "two splits": "split",
        "two studies": "study_id",
        "two roles": "role",
    }
    used = pictures.group_by("picture").agg(pl.col(*owners.values()).n_unique() > 1)
    counts = {name: int(used[column].sum()) for name, column in owners.items()}
    detail = counted(counts, "{} in {}")
    return _fault(
        "Images used more than once",
        detail and f"{detail} (problems.csv lists those shared by patients or splits)",
    )


def _images(images: pl.DataFrame, unusable: pl.DataFrame) -> Iterator[Check]:
    """Describe the images in use, and count the others."""
    missing = unusable.filter(problem=MISSING).height
    yield _fault(
        "Images missing or unreadable",
        counted({"missing": missing, "unreadable": unusable.height - missing}),
    )
    many = images.height + unusable.height > DECODED
    decoded = (
        f"{DECODED} decoded (a seeded sample; `features` decodes the others)"
        if many
        else "all decoded"
    )
    yield Check("Images", f"{number(images.height)}; {decoded}")


def _empty(contexts: Mapping[str, Mapping[str, Mapping[str, Any]]], splits: Sequence[str]) -> Check:
    """Name the contexts and splits without a record, and the setting that needs the val split."""
    empty = [
        f"{context.upper()} {split}"
        for context, counts in contexts.items()
        for split in splits
        if not counts[split]["records"]
    ]
    detail = ", ".join(empty)
    if any(name.endswith(" val") for name in empty):
        detail += "; only train.checkpoint: best needs the val split"
    return _fault("Contexts and splits without records", detail)


def _wording(wording: Mapping[str, tuple[int, int]], treated: str) -> Check:
    """Describe, by context, how many targets presuppose an absent previous report."""
    counts = {context: wording[context] for context in CONTEXTS if context in wording}
    shares = ", ".join(f"{context} {share(*pair)}" for context, pair in counts.items())
    many = any(part > WORDING_LIMIT * whole for part, whole in counts.values())
    detail = shares or "every context in use has the previous report"
    if shares and treated != "keep":
        detail += "; stripped (corpus.unseen_comparisons)"
    elif many:
        detail += (
            "; corpus.unseen_comparisons: strip removes these sentences and the findings in them"
        )
    return Check(
        "Targets that refer to a previous report they do not have",
        detail,
        treated != "keep" or not many,
    )


def _priors(
    priors: pl.DataFrame, contexts: Collection[str], config: Corpus, notes: Notes
) -> Iterator[Check]:
    """Describe the choice of previous reports. Examinations without a date neither have nor can be
    a previous examination."""
    name = "Time since the previous study"
    if priors.height:
        gap = pl.col("gap_days")
        median, longest = priors.select(
            median=gap.median().round(2), longest=gap.max().round(2)
        ).row(0)
        days = (
            "only the order is known"
            if median is None
            else f"median {median:,g} days, longest {longest:,g} days"
        )
        yield Check(name, f"{days}; {number(priors.height)} studies", (longest or 0) <= GAP_LIMIT)
    else:
        any_prior = any(availability(context)[1] for context in contexts)
        detail = "the format does not say" if any_prior else "no records have a previous report"
        undated = sum(counts["undated"] for counts in notes.topics.get("priors", {}).values())
        if undated and not any_prior:
            detail += (
                f"; {number(undated)} studies have no date, so their previous studies cannot "
                "be found"
            )
        is_wanted = any(availability(context)[1] for context in config.contexts)
        yield Check(name, detail, any_prior or not is_wanted)
    if notes.empty_priors and not config.keep_empty_priors:
        yield Check("Previous reports empty after cleaning", number(notes.empty_priors), False)


def note(
    topic: str, by_source: Mapping[str, Mapping[str, int]], mend: Callable[..., str] | None = None
) -> Check:
    """Describe one topic of a reader's notes, even if it has no title in :data:`TOPICS`. Inputs
    with the same description are merged.

    Args:
        mend: for a user's own table, the polars lines by name; the description ends with what to
            do.
    """
    about = TOPICS.get(topic, {})
    alike: dict[str, list[str]] = {}
    for source, values in by_source.items():
        first = list(values.items())[:_VALUES]
        parts = [f"{number(count)} × {plain(value, 120)}" for value, count in first]
        if len(values) > _VALUES:
            parts.append(f"{number(len(values) - _VALUES)} others")
        alike.setdefault(", ".join(parts), []).append(source)
    detail = "; ".join(f"{', '.join(sources)}: {words}" for words, sources in alike.items())
    if mend and "remedy" in about:
        detail += f"; {about['remedy']}"
    if mend and "line" in about:
        values = {"column": next(iter(by_source))} | about.get("values", {})
        detail += f"{IN_POLARS}{on_one_line(mend(about['line'], **values))}"
    return Check(
        about.get("title", topic.replace("_", " ").capitalize()),
        detail,
        about.get("harmless", False),
    )
