"""The lines of a corpus's audit: the checks that show whether the corpus can be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.filesize import decimal

from pacer.core.audits import Check, counted, number, percent, reading_audit, share
from pacer.core.contexts import CONTEXTS, availability
from pacer.data.schemas import SPLITS

Counts = Mapping[str, int]

#: Limits above which a check is flagged: targets that presuppose an absent previous report, ...
WORDING_LIMIT = 0.05
#: ... test reports that occur verbatim in train, ...
REPEATED_LIMIT = 0.2
#: ... and input rows that were left out.
LEFT_OUT_LIMIT = 0.1

#: Number of reasons, or of a note's values, that a line names; the others are only counted.
_NAMED = 5

#: Headings of the readers' notes, and whether the note is harmless. A topic missing here is shown under its own name
#: and flagged.
TOPICS = {
    "absent_words": ("Texts such as N/A, which count as absent", False),
    "assumed_views": ("Views assumed, from the order of the images", False),
    "checked_priors": ("Previous reports of annotations, by PhysioNet's metadata", True),
    "doubted_priors": ("Previous reports of annotations that are not known to be of an earlier study", False),
    "ignored_fields": ("Images with a DICOM field that has no meaning and is not followed", False),
    "lateral_of_another_study": ("Lateral image of another study", False),
    "long_gaps": ("Intervals between studies that deserve a look", False),
    "other_parts": ("Images whose DICOM tag names another part of the body", False),
    "priors": ("Studies that have no certain predecessor", True),
    "residue": ("Texts with residue of another format, which is learnt as words", False),
    "two_texts": ("Studies with two texts that differ only in dates; the first is used", False),
    "unescaped": ("Texts that were escaped for another format, and are read as they were before", True),
    "unknown_fields": ("Fields that are not used", False),
    "unknown_views": ("Images whose view is not known", False),
}


def corpus_checks(audit: Mapping[str, Any]) -> list[Check]:
    """Return the checks a researcher needs before trusting a corpus; those not marked good deserve attention.

    Raises:
        DataError: the audit lacks a part.
    """
    with reading_audit("corpus"):
        contexts, images, shared, overlap = (audit[part] for part in ("contexts", "images", "shared_images", "overlap"))
        records = {context: sum(split["records"] for split in splits.values()) for context, splits in contexts.items()}
        used = splits_in_use(contexts)
        empty = [f"{c.upper()} {s}" for c, splits in contexts.items() for s in used if not splits[s]["records"]]
        among = {"two patients": shared["subject"], "two splits": shared["split"], "two studies": shared["study"]}
        unread = {name: images[name] for name in ("missing", "unreadable")}
        smallest, largest = (f"{width} × {height}" for width, height in (images["smallest"], images["largest"]))
        pixels = smallest if smallest == largest else f"{smallest} to {largest}"
        clinical = audit["clinical_context"].items()
        return [
            _fault("Studies in two splits", _overlapping(overlap["study"])),
            _fault("Patients in two splits", _overlapping(overlap["subject"])),
            *_rows(audit),
            _fault("Images used more than once", counted(among, "{} in {}")),
            _fault("Images of two splits that are the same file", _overlapping(audit["image_copies"])),
            _fault("Images missing or unreadable", counted(unread)),
            Check("Images", f"{number(images['count'])}, {decimal(images['bytes'])}, {pixels} pixels"),
            _fault("Contexts and splits without a record", ", ".join(empty)),
            *_repeats(audit["repeated_texts"], contexts),
            _wording(audit["prior_wording"], audit["unseen_comparisons"]),
            *_priors(audit["priors"], records, _undated(audit["notes"])),
            Check("Views", _by_context(audit["views"])),
            Check("Sections", _by_context(audit["sections"])),
            *(
                Check(f"With {name}", _together({c: percent(counts[name], records[c]) for c, counts in clinical}))
                for name in ("indication", "history")
            ),
            *(_note(topic, values) for topic, values in audit["notes"].items() if values),
            _originals(audit["original_references"]),
        ]


def splits_in_use(contexts: Mapping[Any, Mapping[str, Counts]]) -> tuple[str, ...]:
    """Return the splits to report: a corpus used only for evaluation has no train split."""
    evaluated_only = not any(splits["train"]["records"] for splits in contexts.values())
    return SPLITS[1:] if evaluated_only else SPLITS


def plain(text: str, longest: int = 100) -> str:
    """Return ``text`` on one line, shortened to ``longest`` characters."""
    text = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def _fault(name: str, detail: str) -> Check:
    """Return a check of something that should not exist."""
    return Check(name, detail or "none", not detail)


def _together(by_source: Mapping[str, str]) -> str:
    """Return the description of each input, merging inputs with the same description."""
    alike: dict[str, list[str]] = {}
    for source, words in by_source.items():
        alike.setdefault(words, []).append(source)
    return "; ".join(f"{', '.join(sources)}: {words}" for words, sources in alike.items())


def _by_context(counts: Mapping[str, Counts]) -> str:
    """Return the shares of each context's values."""
    present = {context: counts[context] for context in CONTEXTS if any(counts.get(context, {}).values())}
    shares: dict[str, str] = {
        context: ", ".join(f"{value} {percent(n, sum(values.values()))}" for value, n in values.items() if n)
        for context, values in present.items()
    }
    return _together(shares) or "none"


def _overlapping(pairs: Mapping[str, Mapping[str, Any]]) -> str:
    return counted({pair.replace("-", " and "): shared["count"] for pair, shared in pairs.items()}, "{} in {}")


def _rows(audit: Mapping[str, Any]) -> Iterator[Check]:
    """Account for every row that was read."""
    rows = audit["rows"]
    read = sum(rows["read"].values())
    fates: dict[str, int] = {name.replace("_", " "): rows[name] for name in ("used", "bad", "left_out")}
    fates["beyond the limit"] = rows["beyond_limit"]
    inputs = f" ({', '.join(f'{name} {number(n)}' for name, n in rows['read'].items())})" * (len(rows["read"]) > 1)
    lost = read - sum(fates.values())
    unknown = f", {number(lost)} not accounted for" if lost else ""
    yield Check("Rows read", f"{number(read)}{inputs}: {counted(fates)}{unknown}", not lost)
    yield _fault("Bad rows or records", _reasons(audit["excluded"]))
    left_out = _reasons(audit["left_out"]) or "none"
    yield Check("Rows or records left out", left_out, rows["left_out"] <= LEFT_OUT_LIMIT * read)


def _reasons(rows: Mapping[str, Any]) -> str:
    """Return the number of rows, the most frequent reasons with their counts, and the number of other reasons."""
    listed = list(rows["reasons"].items())
    parts = [f"{number(count)} × {plain(reason)}" for reason, count in listed[:_NAMED]]
    if rest := [count for _, count in listed[_NAMED:]]:
        others = "another reason" if len(rest) == 1 else f"{number(len(rest))} other reasons"
        parts.append(f"{number(sum(rest))} for {others}")
    return f"{number(rows['count'])}: {'; '.join(parts)}" if rows["count"] else ""


def _repeats(repeated: Mapping[str, Any], contexts: Mapping[str, Any]) -> Iterator[Check]:
    tests = {c: contexts[c]["test"]["records"] for c in contexts if contexts[c]["train"]["records"]}
    known = {c: (n["test"], tests[c]) for c, n in repeated["known_from_train"].items() if tests.get(c)}
    shares = ", ".join(f"{context} {share(*counts)}" for context, counts in known.items())
    many = any(count > REPEATED_LIMIT * records for count, records in known.values())
    advice = "; a model that remembers train does well on these" if many else ""
    if "train" in splits_in_use(contexts):
        yield Check("Test reports word for word in train", (shares or "no context has both splits") + advice, not many)


def _wording(wording: Mapping[str, Mapping[str, Counts]], treated: str) -> Check:
    name = "Targets that mention an absent previous report"
    rates = {}
    for context in CONTEXTS:
        splits = wording.get(context, {}).values()
        comparing, records = sum(n["comparing"] for n in splits), sum(n["records"] for n in splits)
        if records:
            rates[context] = comparing, records
    if not rates:
        return Check(name, "no context in use lacks the previous report")
    many = any(comparing > WORDING_LIMIT * records for comparing, records in rates.values())
    advice = "; corpus.unseen_comparisons: strip takes out these sentences, and the findings in them" if many else ""
    if treated != "keep":
        advice = "; stripped (corpus.unseen_comparisons)"
    shares = ", ".join(f"{context} {share(*counts)}" for context, counts in rates.items())
    return Check(name, shares + advice, treated != "keep" or not many)


def _undated(notes: Mapping[str, Mapping[str, Counts]]) -> int:
    return sum(counts.get("undated", 0) for counts in notes.get("priors", {}).values())


def _priors(priors: Mapping[str, Any], records: Counts, undated: int) -> Iterator[Check]:
    """Describe the previous reports; ``undated``: studies without a date, which neither have nor can be a previous
    study."""
    name = "Time since the previous study"
    if priors["known"]:
        median, longest = priors["median_gap_days"], priors["longest_gap_days"]
        days = "only the order is known" if median is None else f"median {median:,g} days, longest {longest:,g} days"
        rules = counted(priors["rules"], "{} by {}")
        yield Check(name, f"{days}; {number(priors['known'])} studies: {rules}")
        tied = f"{number(priors['tied'])}: the larger id was taken" if priors["tied"] else ""
        yield _fault("Previous studies equally near", tied)
    else:
        with_prior = [context for context in records if availability(context)[1]]
        some = any(records[context] for context in with_prior)
        words = "the format does not say" if some else "no record has a previous report"
        if undated and not some:
            words += f"; {number(undated)} studies have no date, so their previous studies cannot be found"
        yield Check(name, words, some or not with_prior)
    if priors["empty"]:
        yield Check("Previous reports empty after cleaning", number(priors["empty"]), False)


def _note(topic: str, by_source: Mapping[str, Counts]) -> Check:
    """Describe one topic of a reader's notes, known or not."""
    title, harmless = TOPICS.get(topic, (topic.replace("_", " ").capitalize(), False))
    listed: dict[str, str] = {}
    for source, values in by_source.items():
        named = list(values)[:_NAMED]
        parts = [f"{number(values[value])} × {plain(value, 40)}" for value in named]
        rest = len(values) - len(named)
        listed[source] = ", ".join([*parts, *([f"{number(rest)} others"] if rest else [])])
    return Check(title, _together(listed), harmless)


def _originals(originals: Mapping[str, Any]) -> Check:
    if not originals["supplied"]:
        return Check("Original references", "not available")
    available, records = originals["records"], originals["records"] + originals["without"]
    return Check("Original references", f"for {number(available)} of {number(records)} records", available > 0)
