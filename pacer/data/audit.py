"""The audit of a corpus: counts, leaks, and the lines that show whether the corpus can be
trusted."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import polars as pl
from rich.filesize import decimal

from pacer.config import Corpus
from pacer.core.contexts import CONTEXTS, availability
from pacer.core.io import yaml_beside
from pacer.data.account import BAD, LEFT_OUT, Account
from pacer.data.greyscale import MISSING
from pacer.data.images import DECODED
from pacer.data.schemas import SPLITS
from pacer.display.numbers import Check, counted, number, share

#: Scenario records of MIMIC-RG4 (paper, table of the appendix "Dataset Splits and Availability
#: Settings").
PAPER_RECORDS: dict[str, dict[str, int]] = {
    "sn": {"train": 172_608, "val": 1_391, "test": 2_357},
    "sw": {"train": 112_776, "val": 937, "test": 2_026},
    "mn": {"train": 91_341, "val": 701, "test": 1_004},
    "mw": {"train": 47_686, "val": 371, "test": 828},
}

#: Limits above which a check is flagged: shares of targets that presuppose an absent previous
#: report, and of input rows that were left out; and days between studies (100 years).
WORDING_LIMIT, LEFT_OUT_LIMIT, GAP_LIMIT = 0.05, 0.1, 36_525
#: Number of reasons, or of a note's values, that a line names; the others are only counted.
_NAMED, _VALUES = 5, 8

#: Titles of the readers' notes and what cures them, by topic.
_TOPICS = yaml_beside(__file__, "topics.yaml")


def audit_corpus(
    records: pl.DataFrame,
    priors: pl.DataFrame,
    images: pl.DataFrame,
    unusable: pl.DataFrame,
    pictures: pl.DataFrame,
    config: Corpus,
    account: Account,
) -> dict[str, Any]:
    """Return the content of ``audit.json``, without the settings. Its ``checks`` are what a
    researcher needs before trusting the corpus; those not marked good deserve attention.

    Args:
        records, priors, images: the finished tables. unusable: ``problem`` of each image that
            cannot be used.
        pictures: those of the records, by content (:func:`pacer.data.images.pictures_of`).
    """
    contexts = count_records(records, config.contexts)
    # a corpus that is used only for evaluation has no train split
    splits = (
        SPLITS if any(counts["train"]["records"] for counts in contexts.values()) else SPLITS[1:]
    )
    overlap = {name: _overlap(records, f"{name}_id") for name in ("study", "subject")}
    rows = {"used": int(records.unique("number")["rows"].sum()), "bad": account.rows(BAD)}
    rows |= {"left_out": account.rows(LEFT_OUT), "beyond_limit": account.beyond_limit}
    bad, left_out = account.reasons(BAD), account.reasons(LEFT_OUT)
    notes = {
        topic: {
            source: dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
            for source, counts in sources.items()
        }
        for topic, sources in sorted(account.notes.items())
    }
    originals, unset = records["findings_original"].count(), config.original_references is None
    referenced = (
        "not available" if unset else f"for {number(originals)} of {number(records.height)} records"
    )
    checks = [
        _fault("Studies in two splits", _shared(overlap["study"])),
        _fault("Patients in two splits", _shared(overlap["subject"])),
        _rows(account.read, rows),
        _fault("Bad rows or records", _reasons(bad)),
        _fault("Rows or records left out", _reasons(left_out))._replace(
            good=rows["left_out"] <= LEFT_OUT_LIMIT * account.read.total()
        ),
        _reused(pictures),
        *_images(images, unusable),
        _empty(contexts, splits),
        _wording(account.wording, config.unseen_comparisons),
        *_priors(priors, set(records["context"]), config, account),
        *(note(topic, by_source, config.format) for topic, by_source in notes.items()),
        Check("Original references", referenced, originals > 0 or unset),
    ]
    return {
        "records": records.height,
        "contexts": contexts,
        "splits": list(splits),
        "rows": {"read": dict(account.read)} | rows,
        "excluded": {"count": sum(bad.values()), "reasons": bad},
        "left_out": {"count": sum(left_out.values()), "reasons": left_out},
        "notes": notes,
        "overlap": overlap,
        "images": {"count": images.height},
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
        c: {s: counts.get((c, s), none) | {"paper": PAPER_RECORDS[c][s]} for s in SPLITS}
        for c in contexts
    }


def plain(text: str, longest: int = 100) -> str:
    """Return ``text`` on one line, shortened to ``longest`` characters."""
    text = " ".join(
        "".join(character if character.isprintable() else " " for character in text).split()
    )
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def _fault(name: str, detail: str) -> Check:
    """Return a check of something that should not exist."""
    return Check(name, detail or "none", not detail)


def _overlap(records: pl.DataFrame, column: str) -> dict[str, dict[str, Any]]:
    """Return the number of values that two splits share, and at most 20: ``{"train-val": {count,
    examples}, ...}``."""
    ids = {split: set(records.filter(split=split)[column]) for split in SPLITS}
    shared = {f"{a}-{b}": sorted(ids[a] & ids[b]) for a, b in combinations(SPLITS, 2)}
    return {splits: {"count": len(both), "examples": both[:20]} for splits, both in shared.items()}


def _shared(pairs: Mapping[str, Mapping[str, Any]]) -> str:
    return counted(
        {pair.replace("-", " and "): shared["count"] for pair, shared in pairs.items()}, "{} in {}"
    )


def _rows(read: Mapping[str, int], rows: Mapping[str, int]) -> Check:
    """Account for every row that was read."""
    if sum(read.values()) != sum(rows.values()):
        raise RuntimeError(
            f"{sum(read.values())} rows were read, but {sum(rows.values())} are accounted for"
        )
    names = {"left_out": "left out", "beyond_limit": "beyond the limit"}
    fates = counted({names.get(fate, fate): count for fate, count in rows.items()})
    inputs = f" ({', '.join(f'{name} {number(count)}' for name, count in read.items())})" * (
        len(read) > 1
    )
    return Check("Rows read", f"{number(sum(read.values()))}{inputs}: {fates}")


def _reasons(reasons: Mapping[str, int]) -> str:
    """Return the number of rows, the most frequent reasons with their counts, and the number of
    other reasons."""
    parts = [f"{number(count)} × {plain(reason)}" for reason, count in [*reasons.items()][:_NAMED]]
    if rest := [*reasons.values()][_NAMED:]:
        others = "another reason" if len(rest) == 1 else f"{number(len(rest))} other reasons"
        parts.append(f"{number(sum(rest))} for {others}")
    return f"{number(sum(reasons.values()))}: {'; '.join(parts)}" if reasons else ""


def _reused(pictures: pl.DataFrame) -> Check:
    """Count the pictures, by content, in records of more than one patient, split, study and
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
    sizes = images.select("width", "height")
    smallest, largest = (
        f"{width} × {height}" for width, height in (sizes.min().row(0), sizes.max().row(0))
    )
    pixels = smallest if smallest == largest else f"{smallest} to {largest}"
    many = images.height + unusable.height > DECODED
    decoded = (
        f"{DECODED} decoded (a seeded sample; `features` decodes the others)"
        if many
        else "all decoded"
    )
    yield Check(
        "Images",
        f"{number(images.height)}, {decimal(sum(images['bytes']))}, {pixels} pixels; {decoded}",
    )


def _empty(contexts: Mapping[str, Mapping[str, Mapping[str, Any]]], splits: Sequence[str]) -> Check:
    """Name the contexts and splits without a record, and what an empty val stops."""
    empty = [
        f"{c.upper()} {s}"
        for c, counts in contexts.items()
        for s in splits
        if not counts[s]["records"]
    ]
    without_val = "; only train.checkpoint: best needs the val split"
    detail = ", ".join(empty) + (
        without_val if any(name.endswith(" val") for name in empty) else ""
    )
    return _fault("Contexts and splits without records", detail)


def _wording(wording: Mapping[str, tuple[int, int]], treated: str) -> Check:
    """Describe, by context, how many targets presuppose an absent previous report."""
    counts = {context: wording[context] for context in CONTEXTS if context in wording}
    shares = ", ".join(f"{context} {share(*pair)}" for context, pair in counts.items())
    many = any(part > WORDING_LIMIT * whole for part, whole in counts.values())
    advice = (
        "; corpus.unseen_comparisons: strip removes these sentences and the findings in them"
        if many
        else ""
    )
    if shares and treated != "keep":
        advice = "; stripped (corpus.unseen_comparisons)"
    detail = (shares or "every context in use has the previous report") + advice
    return Check(
        "Targets that refer to a previous report they do not have",
        detail,
        treated != "keep" or not many,
    )


def _priors(
    priors: pl.DataFrame, contexts: Collection[str], config: Corpus, account: Account
) -> Iterator[Check]:
    """Describe the choice of previous reports. Studies without a date neither have nor can be a
    previous study."""
    name, gap = "Time since the previous study", pl.col("gap_days")
    if priors.height:
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
        some = any(availability(context)[1] for context in contexts)
        words = "the format does not say" if some else "no records have a previous report"
        undated = sum(counts["undated"] for counts in account.notes.get("priors", {}).values())
        if undated and not some:
            words += (
                f"; {number(undated)} studies have no date, so their previous studies cannot "
                "be found"
            )
        yield Check(
            name, words, some or not any(availability(context)[1] for context in config.contexts)
        )
    if account.empty_priors and not config.keep_empty_priors:
        yield Check("Previous reports empty after cleaning", number(account.empty_priors), False)


def note(topic: str, by_source: Mapping[str, Mapping[str, int]], form: str) -> Check:
    """Describe one topic of a reader's notes, known or not; inputs with the same description are
    merged."""
    about = _TOPICS.get(topic, {})
    alike: dict[str, list[str]] = {}
    for source, values in by_source.items():
        parts = [
            f"{number(count)} × {plain(value, 120)}" for value, count in [*values.items()][:_VALUES]
        ]
        others = [f"{number(len(values) - _VALUES)} others"] if len(values) > _VALUES else []
        alike.setdefault(", ".join([*parts, *others]), []).append(source)
    detail = "; ".join(f"{', '.join(sources)}: {words}" for words, sources in alike.items())
    cure = f"; {about['cure']}" if "cure" in about and form == "table" else ""
    return Check(
        about.get("title", topic.replace("_", " ").capitalize()),
        detail + cure,
        about.get("harmless", False),
    )
