"""What ``data/corpus/audit.json`` says: a table and the lines that decide whether a corpus can be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pacer.core.contexts import CONTEXTS, availability
from pacer.records.schemas import EMPHASIS_POSITIONS, SPLITS
from pacer.reporting.tables import Check, Table, number, percent, reading_audit

#: Shares above which a line is marked for a look: targets that presuppose an absent previous report, ...
WORDING_LIMIT = 0.05
#: ... test reports that occur word for word in train, ...
REPEATED_LIMIT = 0.2
#: ... and rows of the input that were left out.
LEFT_OUT_LIMIT = 0.1

#: Reasons, and values of a note, that one line names; the others are counted.
_NAMED = 5
#: Characters of a reason or value that are shown.
_LONGEST = 100

#: Headings of the readers' notes. A topic that is not listed here is shown under its own name, to be looked at.
TOPICS = {
    "assumed_views": "Views assumed from the order of the images",
    "blank_sections": "Sections that hold only blanks",
    "deidentified": "Sections with marks of de-identification",
    "empty_splits": "Splits without a row",
    "further_images": "Further images of a study, not used",
    "lateral_of_another_study": "Lateral image of another study",
    "other_files": "Other files among the reports",
    "other_views": "Frontal views other than AP and PA",
    "priors": "Studies that have no certain predecessor",
    "sentinel_sections": "Sections marked as absent",
    "split_field_ignored": "Field `split` that differs from its part",
    "unknown_fields": "Fields that are not used",
    "unknown_views": "Images whose view is not known",
}
_HARMLESS = frozenset(
    ("blank_sections", "deidentified", "further_images", "other_files", "other_views", "priors", "sentinel_sections")
)


def corpus_table(audit: Mapping[str, Any]) -> Table:
    """Records of each context and split, and the studies and patients of each context; MIMIC-RG4's beside the paper's.

    Raises:
        DataError: the audit lacks a part.
    """
    with reading_audit("corpus"):
        shown = ("records", "paper") if audit["format"] == "rg4" else ("records",)
        found = {context: audit["contexts"][context] for context in CONTEXTS if context in audit["contexts"]}
        rows = []
        for context, splits in found.items():
            counts = [number(splits[split][name]) for split in SPLITS for name in shown]
            whole = [number(sum(splits[split][name] for split in SPLITS)) for name in ("studies", "subjects")]
            rows.append((context.upper(), *counts, *whole))
        totals = [number(sum(splits[split][name] for splits in found.values())) for split in SPLITS for name in shown]
    headings = [heading for split in SPLITS for heading in (split, "paper")[: len(shown)]]
    return Table(
        columns=("Context", *headings, "studies", "patients"),
        # a study has records in several contexts: their sum would count it more than once
        rows=(*rows, ("All", *totals, "", "")),
        summary=len(rows),
    )


def corpus_checks(audit: Mapping[str, Any]) -> list[Check]:
    """The lines that a researcher needs before trusting a corpus; those marked not good deserve a look.

    Raises:
        DataError: the audit lacks a part.
    """
    with reading_audit("corpus"):
        return [
            *_overlap(audit["overlap"]),
            *_rows(audit),
            *_images(audit["images"], audit["shared_images"]),
            _empty(audit["contexts"]),
            *_repeats(audit["repeated_texts"], audit["contexts"]),
            _wording(audit["prior_wording"], audit["strict"]),
            *_priors(audit["priors"], audit["contexts"]),
            *_emphasis(audit["emphasis"]),
            Check("Views", _by_context(audit["views"])),
            Check("Sections", _by_context(audit["sections"])),
            Check("With indication", _clinical(audit, "indication")),
            Check("With history", _clinical(audit, "history")),
            *(_note(topic, found) for topic, found in audit["notes"].items() if found),
            _originals(audit["original_references"]),
            *_settings(audit),
        ]


def wording_rates(wording: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[str, tuple[int, int]]:
    """``{context: (targets that presuppose a previous report, targets)}`` of all splits together."""
    rates = {}
    for context in CONTEXTS:
        splits = wording.get(context, {}).values()
        if splits:
            rates[context] = sum(split["comparing"] for split in splits), sum(split["records"] for split in splits)
    return rates


def plain(text: str, longest: int = _LONGEST) -> str:
    """``text`` on one line and not too long."""
    text = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def _overlap(overlap: Mapping[str, Any]) -> Iterator[Check]:
    for kind, word in (("study", "Studies"), ("subject", "Patients")):
        shared = {pair: found["count"] for pair, found in overlap[kind].items() if found["count"]}
        found = ", ".join(f"{number(count)} in {pair.replace('-', ' and ')}" for pair, count in shared.items())
        yield Check(f"{word} in two splits", found or "none", not shared)


def _rows(audit: Mapping[str, Any]) -> Iterator[Check]:
    """Every row that was read, and what became of it."""
    rows = audit["rows"]
    read = sum(rows["read"].values())
    fates = {name.replace("_", " "): rows[name] for name in ("used", "bad", "left_out")}
    fates["beyond the limit"] = rows["beyond_limit"]
    parts = ", ".join(f"{number(count)} {name}" for name, count in fates.items() if count)
    inputs = ", ".join(f"{name} {number(count)}" for name, count in rows["read"].items())
    of = f" ({inputs})" if len(rows["read"]) > 1 else ""
    lost = read - sum(fates.values())
    yield Check(
        "Rows read", f"{number(read)}{of}: {parts}" + (f", {number(lost)} not accounted for" if lost else ""), not lost
    )
    yield Check("Records made", number(audit["records"]), audit["records"] > 0)
    for kind, name in (("excluded", "Bad rows or records"), ("left_out", "Rows or records left out")):
        count = audit[kind]["count"]
        good = rows["left_out"] <= LEFT_OUT_LIMIT * read if kind == "left_out" else not count
        yield Check(name, f"{number(count)}: {_reasons(audit[kind]['reasons'])}" if count else "none", good)
    if audit["limit"] is not None:
        found = f"the first {number(audit['limit'])} studies of each context and split (corpus.limit)"
        yield Check("Limit", found, not rows["beyond_limit"])


def _reasons(counts: Mapping[str, int]) -> str:
    """The most frequent reasons with their counts, and how many there are besides."""
    listed = list(counts.items())
    parts = [f"{number(count)} × {plain(reason)}" for reason, count in listed[:_NAMED]]
    rest = listed[_NAMED:]
    if rest:
        others = "another reason" if len(rest) == 1 else f"{number(len(rest))} other reasons"
        parts.append(f"{number(sum(count for _, count in rest))} for {others}")
    return "; ".join(parts)


def _empty(contexts: Mapping[str, Mapping[str, Mapping[str, int]]]) -> Check:
    """Splits that cannot be trained on or scored."""
    empty = [f"{c.upper()} {s}" for c, splits in contexts.items() for s in splits if not splits[s]["records"]]
    return Check("Contexts and splits without a record", ", ".join(empty) or "none", not empty)


def _clinical(audit: Mapping[str, Any], name: str) -> str:
    """Share of the records that have an indication or a history, by context."""
    records = {c: sum(split["records"] for split in splits.values()) for c, splits in audit["contexts"].items()}
    return _together({c: percent(found[name], records[c]) for c, found in audit["clinical_context"].items()})


def _images(images: Mapping[str, Any], shared: Mapping[str, int]) -> Iterator[Check]:
    several = ", ".join(
        f"{number(shared[kind])} in two {word}"
        for kind, word in (("subject", "patients"), ("split", "splits"), ("study", "studies"))
        if shared[kind]
    )
    yield Check("Images that stand for more than one", several or "none", not several)
    lost = {name: images[name] for name in ("missing", "unreadable") if images[name]}
    words = ", ".join(f"{number(count)} {name}" for name, count in lost.items())
    yield Check("Images missing or unreadable", words or "none", not lost)
    smallest, largest = (f"{width} × {height}" for width, height in (images["smallest"], images["largest"]))
    pixels = smallest if smallest == largest else f"{smallest} to {largest}"
    yield Check("Images", f"{number(images['count'])}, {_size(images['bytes'])}, {pixels} pixels")


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def _repeats(repeated: Mapping[str, Any], contexts: Mapping[str, Any]) -> Iterator[Check]:
    shown, worst = [], 0.0
    for context, known in repeated["known_from_train"].items():
        train, test = (contexts[context][split]["records"] for split in ("train", "test"))
        if train and test:
            shown.append(f"{context} {_share(known['test'], test)}")
            worst = max(worst, known["test"] / test)
    found = ", ".join(shown) or "no context has both splits"
    advice = "; a model that remembers train does well on these" if worst > REPEATED_LIMIT else ""
    yield Check("Test reports word for word in train", found + advice, worst <= REPEATED_LIMIT)
    parts = []
    for context, counts in repeated["within"].items():
        if counts["records"]:
            share = _share(counts["distinct"], counts["records"])
            most = f" (one up to {number(counts['most_frequent'])} ×)" if counts["most_frequent"] > 1 else ""
            parts.append(f"{context} {share}{most}")
    yield Check("Distinct reports", ", ".join(parts) or "none", bool(parts))


def _wording(wording: Mapping[str, Any], strict: bool) -> Check:
    name = "Targets that presuppose an absent previous report"
    rates = {context: counts for context, counts in wording_rates(wording).items() if counts[1]}
    if not rates:
        return Check(name, "no context in use lacks the previous report")
    found = ", ".join(f"{context} {_share(*counts)}" for context, counts in rates.items())
    if strict:
        return Check(name, f"{found}; left out (corpus.strict)")
    good = all(comparing <= WORDING_LIMIT * records for comparing, records in rates.values())
    return Check(name, found + ("" if good else "; corpus.strict: true leaves them out"), good)


def _priors(priors: Mapping[str, Any], contexts: Mapping[str, Any]) -> Iterator[Check]:
    with_prior = [context for context in contexts if availability(context)[1]]
    name = "Time since the previous study"
    if not priors["known"]:
        records = sum(contexts[context][split]["records"] for context in with_prior for split in SPLITS)
        words = "the format does not say" if records else "no record has a previous report"
        yield Check(name, words, bool(records) or not with_prior)
    else:
        median, longest = priors["median_gap_days"], priors["longest_gap_days"]
        days = "only the order is known" if median is None else f"median {_days(median)}, longest {_days(longest)}"
        rules = ", ".join(f"{number(count)} by {rule}" for rule, count in priors["rules"].items())
        yield Check(name, f"{days}; {number(priors['known'])} studies: {rules}")
        tied, passed = priors["tied"], priors["passed_over"]
        yield Check(
            "Previous studies equally near", f"{number(tied)}: the larger id was taken" if tied else "none", not tied
        )
        yield Check("Nearer studies without a report", f"passed over for {number(passed)}" if passed else "none")
    if priors["empty"]:
        yield Check("Previous reports empty after cleaning", number(priors["empty"]), False)


def _days(count: float) -> str:
    text = f"{count:,.2f}".rstrip("0").rstrip(".")
    return f"{text} day" if text == "1" else f"{text} days"


def _emphasis(emphasis: Mapping[str, Any]) -> Iterator[Check]:
    lists, without = emphasis["records_with_list"], emphasis["records_without_list"]
    if not lists:
        yield Check("Emphasis lists", "none")
        return
    lengths = f"{number(emphasis['shortest'])} to {number(emphasis['longest'])} entries"
    found = f"{number(lists)} of {number(lists + without)} records, {lengths}, {emphasis['mean_length']:.1f} on average"
    yield Check("Emphasis lists", found, not without)
    yield Check("Emphasised entries", number(emphasis["emphasised_entries"]), emphasis["emphasised_entries"] > 0)
    longer = emphasis[f"longer_than_{EMPHASIS_POSITIONS}"]
    cut = f"{number(longer)}: upstream's training reads no further"
    yield Check(f"Emphasis lists of more than {EMPHASIS_POSITIONS} entries", cut if longer else "none")
    outside, follow = emphasis["entries_outside_0_1"], emphasis["follow_a_longer_text"]
    yield Check("Emphasis entries other than 0 and 1", number(outside) if outside else "none", not outside)
    if follow:
        words = f"{number(follow)}: they cover the impression too"
        yield Check("Emphasis lists that follow a longer text", words)


def _by_context(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Shares of each context's values."""
    found: dict[str, str] = {}
    for context in CONTEXTS:
        values = counts.get(context, {})
        shares = [f"{value} {percent(count, sum(values.values()))}" for value, count in values.items() if count]
        if shares:
            found[context] = ", ".join(shares)
    return _together(found) or "none"


def _together(found: Mapping[str, str]) -> str:
    """What is said about each input, once for those about which the same is said."""
    alike: dict[str, list[str]] = {}
    for source, words in found.items():
        alike.setdefault(words, []).append(source)
    return "; ".join(f"{', '.join(sources)}: {words}" for words, sources in alike.items())


def _note(topic: str, found: Mapping[str, Mapping[str, int]]) -> Check:
    """A topic of a reader's notes, whichever it is."""
    title = TOPICS.get(topic, topic.replace("_", " ").capitalize())
    said: dict[str, str] = {}
    for source, values in found.items():
        parts = [f"{number(count)} × {plain(value, 40)}" for value, count in list(values.items())[:_NAMED]]
        if topic == "empty_splits":
            parts = [plain(value, 40) for value in values]
        elif len(values) > _NAMED:
            parts.append(f"{number(len(values) - _NAMED)} others")
        said[source] = ", ".join(parts)
    return Check(title, _together(said), topic in _HARMLESS)


def _originals(originals: Mapping[str, Any]) -> Check:
    if not originals["supplied"]:
        return Check("Original references", "not available")
    found, whole = originals["records"], originals["records"] + originals["without"]
    return Check("Original references", f"for {number(found)} of {number(whole)} records", found > 0)


def _settings(audit: Mapping[str, Any]) -> Iterator[Check]:
    yield Check("Format", str(audit["format"]))
    yield Check("Target", str(audit["target"]).replace("_", " "))
    lost = audit["targets_with_decimals"] if audit["cleaner"] == "upstream" else 0
    points = f"; {number(lost)} examinations lose the point of a decimal (1.2 cm becomes 12 cm)" if lost else ""
    # MIMIC-RG4's protocol has it so; one's own corpus need not
    own = bool(lost) and audit["format"] != "rg4"
    yield Check("Cleaner", audit["cleaner"] + points + ("; corpus.cleaner: careful keeps it" if own else ""), not own)
    yield Check("Strict", "yes" if audit["strict"] else "no")
    if audit["deidentified"] is not None:
        yield Check("Marks of de-identification", str(audit["deidentified"]).replace("_", " "))


def _share(part: int, whole: int) -> str:
    return f"{percent(part, whole)} of {number(whole)}"
