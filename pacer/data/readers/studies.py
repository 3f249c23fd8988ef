"""From rows of images to examinations: what the readers of a table and of MIMIC-CXR share.

A study of two images has two rows, which repeat the study's fields; what one of them leaves out is taken from the
other, and where they differ the study is a problem. The previous report is looked up by date and time
(:mod:`pacer.data.priors`).

A study that is a problem, or that is not used, still stands between its neighbours: a problem counts as an earlier
study without a report, and a study with a report but without a frontal image can be a prior.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import time
from functools import lru_cache
from typing import Any, NamedTuple

import polars as pl

from pacer.config import Corpus
from pacer.core.contexts import contexts_within
from pacer.core.hygiene import CONTROL, is_absent
from pacer.data.priors import DatedStudy, choose_priors
from pacer.data.readers.dates import DATE_FORMS, TIME_FORMS, read_day, read_time
from pacer.data.readers.views import is_special, parse_view
from pacer.data.rows import Examination, LeftOut, Notes, Place, Prior, Problem, Row, shown_view
from pacer.data.splits import seeded_split

#: Columns of the rows: those that there must be, and those that there may be.
REQUIRED = ("subject", "study", "view", "image")
REPORT = ("findings", "impression")  # at least one of them
OPTIONAL = ("date", "time", "indication", "history", "split")
COLUMNS = (*REQUIRED, *REPORT, *OPTIONAL)
#: Columns whose text is taken as it stands.
TEXTS = (*REPORT, "indication", "history")
#: Why a study is not used, where its reader knows; its report, if it has one, can still be a previous one.
UNUSED = "unused"

_SPLITS = dict.fromkeys(("val", "valid", "validate", "validation", "dev"), "val") | {"train": "train", "test": "test"}
_CONTROL = re.compile(CONTROL)
_MIDNIGHT = time()
#: Fields in which the rows of a study must agree.
_COMPARED = ("date", "time", "split", *TEXTS)
#: What can be wrong with a study, as field and reason; the first that applies counts.
_FAULTS: dict[str, tuple[str, str]] = {
    "subjects": ("study", "the study is given under more than one subject"),
    "no day": ("date", DATE_FORMS),
    "no time": ("time", TIME_FORMS),
    "two times": ("time", "the date holds another time of day"),
    "unknown split": ("split", "expected train, val (valid, validate, validation, dev) or test"),
    "no split": ("split", "splits are given, but none for this study"),
    **{f"control {name}": (name, "a control character is in it; give plain text") for name in TEXTS},
    **{f"differ {name}": (name, "the rows of the study differ in it") for name in _COMPARED},
}
#: Views in the order in which they are chosen.
_VIEWS = ("PA", "AP", "other", "lateral")
_LATERAL = _VIEWS.index("lateral")


def examinations(images: pl.DataFrame, file: str, role: str, config: Corpus, notes: Notes) -> Iterator[Row]:
    """Every study, and every row that is part of none.

    Rows that name no study come first, then the studies in the order of the rows.

    Args:
        images: a row per image with the columns of ``REQUIRED``, one of ``REPORT`` and any of ``OPTIONAL``, and their
            line in the file as ``row`` (of Parquet their number).
        file, role: where the rows come from, for messages.
        notes: gets the topics ``absent_words``, ``unknown_views`` and ``priors``.
    """
    studies, without_study = _grouped(images, role, notes)
    for row, subject, is_empty in without_study:
        if is_empty:
            yield LeftOut(Place(file, "", row), "an empty row")
        else:
            yield Problem(Place(file, "", row), "study" if subject else "subject", "the id is missing")
    for study, prior in zip(studies, _priors(studies, role, notes), strict=True):
        yield from _rows_of(study, prior, file, config)


class _Study:
    """One study, put together from its rows.

    Attributes:
        images: line, rank of the view and path of each row. values: of each field of ``_COMPARED`` and ``UNUSED`` the
            first that is not empty. faults: keys of ``_FAULTS``.
    """

    def __init__(self, subject: str, study: str):
        self.subject, self.study = subject, study
        self.images: list[tuple[int, int | None, str | None]] = []
        self.values: dict[str, Any] = dict.fromkeys((*_COMPARED, UNUSED))
        self.faults: set[str] = set()

    @property
    def has_report(self) -> bool:
        return any(self.values[name] is not None for name in REPORT)

    def add(self, values: dict[str, Any], faults: dict[str, bool]) -> None:
        """Take in the fields of a row, None for what it leaves out."""
        self.faults.update(name for name, applies in faults.items() if applies)
        for name, value in values.items():
            if self.values[name] is None:
                self.values[name] = value
            elif value not in (None, self.values[name]) and name in _COMPARED:
                self.faults.add(f"differ {name}")


def _grouped(images: pl.DataFrame, role: str, notes: Notes) -> tuple[list[_Study], list[tuple[int, str | None, bool]]]:
    """The studies in the order of their first rows; line, subject and whether it is empty, of rows that name none."""
    has_times, has_splits = "time" in images.columns, False
    missing = [name for name in (*COLUMNS, UNUSED) if name not in images.columns]
    images = images.with_columns(pl.lit(None, pl.String).alias(name) for name in missing)
    days = [_parsed(read_day, _bare(value)) or (None, None) for value in images["date"]]
    # dates that are all at midnight are days, written as instants; midnight beside another time is no time either
    dates_have_times = any(clock not in (None, _MIDNIGHT) for _, clock in days)
    studies: dict[tuple[str, str], _Study] = {}
    without_study = []
    for raw, (day, clock_of_day) in zip(images.iter_rows(named=True), days, strict=True):
        given = {name: _bare(raw[name]) for name in COLUMNS} | {name: _text(raw[name], name, notes) for name in TEXTS}
        subject, study, image, view, split = (_id(given[n]) for n in ("subject", "study", "image", "view", "split"))
        is_empty = all(given[name] is None for name in COLUMNS)
        rank = None if view is None else _rank_of(view)
        if rank is None and not is_empty:
            notes.count("unknown_views", role, "(none)" if view is None else shown_view(view))
        has_splits |= split is not None
        if subject is None or study is None:
            without_study.append((raw["row"], subject, is_empty))
            continue
        clock = _parsed(read_time, given["time"])
        faults = {
            "no day": given["date"] is not None and day is None,
            "no time": given["time"] is not None and clock is None,
            "two times": clock is not None and clock_of_day not in (None, _MIDNIGHT, clock),
            "unknown split": split is not None and split.lower() not in _SPLITS,
        } | {f"control {name}": _CONTROL.search(given[name] or "") is not None for name in TEXTS}
        if clock is None and dates_have_times:
            clock = clock_of_day
        own = studies.setdefault((subject, study), _Study(subject, study))
        own.images.append((raw["row"], rank, image))
        texts = {name: given[name] for name in TEXTS}
        values = {"date": day, "time": clock, "split": split and _SPLITS.get(split.lower()), UNUSED: raw[UNUSED]}
        own.add(values | texts, faults)
    owners = Counter(study for _, study in studies)
    for own in studies.values():
        lacks_split = has_splits and own.values["split"] is None and own.values[UNUSED] is None
        # where there is no column of times they are those of the dates
        differ_in_date = not has_times and "differ time" in own.faults
        own.add({}, {"subjects": owners[own.study] > 1, "no split": lacks_split, "differ date": differ_in_date})
    return list(studies.values()), without_study


def _bare(value: Any) -> Any:
    """A value, text without white space around it; None for NaN and where nothing is left."""
    if isinstance(value, str):
        return value.strip() or None
    return None if value != value else value


def _id(value: Any) -> str | None:
    """As text; 7.0 is 7, because an id does not change its name when its column has gaps."""
    return None if value is None else str(int(value) if isinstance(value, float) and value.is_integer() else value)


def _text(value: str | None, name: str, notes: Notes) -> str | None:
    """A text as it stands; None where it is blank or a word for no text, which is counted."""
    if value is not None and is_absent(value):
        notes.count("absent_words", "texts", name)
        return None
    return value if value and value.strip() else None


def _parsed(read: Callable[[Any], Any], value: Any) -> Any:
    """What ``read`` makes of a value; None where it cannot, or of None."""
    try:
        return None if value is None else read(value)
    except ValueError:
        return None


@lru_cache(maxsize=256)
def _rank_of(view: str) -> int | None:
    """The place of a view in ``_VIEWS``, None for an unknown one. That of a special view is beyond the list: it is
    taken where there is no usual one."""
    found = parse_view(view)
    if found is None:
        return None
    usual = _LATERAL if found.kind == "lateral" else _VIEWS.index(found.view)
    return usual + len(_VIEWS) * is_special(view)


class _Image(NamedTuple):
    """An image and :func:`_rank_of` its view; ``row``: its line in the file."""

    rank: int
    row: int
    path: str

    @property
    def is_lateral(self) -> bool:
        return self.rank % len(_VIEWS) == _LATERAL

    @property
    def view(self) -> str:
        """Of a frontal image: ``PA``, ``AP`` or ``other``."""
        return _VIEWS[self.rank % len(_VIEWS)]


def _priors(studies: list[_Study], role: str, notes: Notes) -> list[Prior | None]:
    """The previous study of each."""
    chosen: list[Prior | None] = [None] * len(studies)
    subjects: dict[str, list[int]] = defaultdict(list)
    for number, study in enumerate(studies):
        subjects[study.subject].append(number)
    for numbers in subjects.values():
        own = {studies[number].study: studies[number] for number in numbers}
        dated = [
            DatedStudy(name, s.values["date"], s.values["time"], s.has_report and not s.faults)
            for name, s in own.items()
        ]
        for number, study, choice in zip(numbers, dated, choose_priors(dated), strict=True):
            if study.day is None:
                notes.count("priors", role, "undated")
            if choice.unordered:
                notes.count("priors", role, "same day, order unknown")
            if choice.study_id is not None:
                texts = (own[choice.study_id].values[name] for name in REPORT)
                chosen[number] = Prior(*texts, *choice[:-1])
            elif choice.passed_over:
                notes.count("priors", role, "earlier studies, none with a report")
    return chosen


def _rows_of(study: _Study, prior: Prior | None, file: str, config: Corpus) -> Iterator[Row]:
    """What becomes of the rows of a study."""
    whole, rows = Place(file, "", study.images[0][0]), len(study.images)
    if study.faults:
        fault = next(said for name, said in _FAULTS.items() if name in study.faults)
        yield Problem(whole, *fault, rows)
        return
    if study.values[UNUSED] is not None:
        yield LeftOut(whole, study.values[UNUSED], rows)
        return
    if study.has_report and not any(path for _, _, path in study.images):
        yield LeftOut(whole, "no image: its report can only be a previous one", rows)
        return
    usable: list[_Image] = []
    for row, rank, path in study.images:
        if path is None:
            yield Problem(Place(file, "", row), "image", "the image path is missing")
        elif rank is None:
            yield LeftOut(Place(file, "", row), "unknown view")
        else:
            usable.append(_Image(rank, row, path))
    if not usable:
        return
    first = Place(file, "", min(image.row for image in usable))
    if not study.has_report:
        yield LeftOut(first, "neither findings nor impression", len(usable))
        return
    usable.sort(key=lambda image: (image.rank, image.row))
    frontals, laterals = ([image for image in usable if image.is_lateral == side] for side in (False, True))
    if not frontals:
        yield LeftOut(first, "no frontal image", len(usable))
        return
    for image in frontals[1:]:
        yield LeftOut(Place(file, "", image.row), "a further frontal image of the study")
    for image in laterals[1:]:
        yield LeftOut(Place(file, "", image.row), "a further lateral image of the study")
    lateral = laterals[0].path if laterals else None
    frontal = frontals[0]
    yield Examination(
        place=Place(file, "", frontal.row),
        id=study.study,
        study_id=study.study,
        subject_id=study.subject,
        contexts=contexts_within(lateral is not None, prior is not None),
        split=study.values["split"] or seeded_split(study.subject, config.seed, config.split.val, config.split.test),
        view=frontal.view,
        frontal=frontal.path,
        lateral=lateral,
        findings=study.values["findings"],
        impression=study.values["impression"],
        prior=prior,
        indication=study.values["indication"],
        history=study.values["history"],
        rows=1 + (lateral is not None),
    )
