"""Which view an image shows, from a table of images: Kaggle's projections of Open-I, MIMIC-CXR-JPG's metadata, or a
table with columns ``image`` and ``view``.

The same image is named differently in each distribution. Tables and readers meet at :func:`image_key`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pacer.core.errors import DataError
from pacer.data.tables import open_table, shown_columns

#: Columns that name the image and its view, in lower case; where a table has several, the first with a value counts.
IMAGE_COLUMNS = ("image", "filename", "dicom_id")
VIEW_COLUMNS = ("view", "projection", "viewposition")

#: Images from which on a table of views must know half.
_HANDFUL = 20
_ENDINGS = re.compile(r"(?:\.(?:dcm|png|jpe?g))+$", re.IGNORECASE)
#: Open-I writes ``CXR10_IM-0002-1001`` and ``CXR1_1_IM-0001-4001``, Kaggle ``10_IM-…`` and ``1_IM-…``.
_OPENI = re.compile(r"^CXR([0-9]+)_(?:\1_)?")

_LONG_NAMES = ((re.compile(r"POSTERO[ -]?ANTERIOR"), "PA"), (re.compile(r"ANTERO[ -]?POSTERIOR"), "AP"))
#: Posture and place, as they are written behind the direction in one word: ``APSUPINE``, ``PAerect``.
_JOINED = re.compile(
    r"(?<![A-Z])(AP|PA)(?=(?:SEMI|SUPINE|ERECT|UPRIGHT|SITTING|STANDING|PORTABLE|MOBILE|AXIAL|LORDOTIC|HORIZONTAL)+"
    r"(?![A-Z]))"
)
_FRONTAL = {"AP", "PA", "APPA", "FRONTAL"}
_LATERAL = {"LATERAL", "LAT", "LL", "RL"}
#: Lying on the side: "lateral" then describes the patient, not the beam.
_DECUBITUS = {"DECUBITUS", "DECUB", "LLD", "RLD"}
#: Views that are taken beside the usual ones, or of a patient who lies.
_SPECIAL = _DECUBITUS | {"AXIAL", "LORDOTIC", "XTABLE"}
#: Neither frontal nor lateral.
_OBLIQUE = {"OBLIQUE", "LAO", "RAO", "LPO", "RPO", "LLO", "RLO"}


class View(NamedTuple):
    """What an image shows; ``view`` is ``other`` for a lateral, and for a frontal of unknown direction."""

    kind: Literal["frontal", "lateral"]
    view: Literal["AP", "PA", "other"]


def parse_view(text: Any) -> View | None:
    """The view that a text names, as tables and DICOM files write it (``PA``, ``AP SUPINE``, ``LL``, ``Frontal``, …).

    None for anything else: no text, an oblique view, or a text that names both a frontal and a lateral view.
    """
    return _parse(text) if isinstance(text, str) else None


@lru_cache(maxsize=256)  # tables hold few different texts, and the views of their images are then shared
def _parse(text: str) -> View | None:
    text = text.strip().upper()
    if text == "L":  # a letter that means a lateral only where it stands alone
        return View("lateral", "other")
    for pattern, short in _LONG_NAMES:
        text = pattern.sub(short, text)
    text = _JOINED.sub(r"\1 ", text)
    words = set(re.findall(r"[A-Z]+", text))
    frontal = words & _FRONTAL
    lateral = words & _LATERAL and not words & _DECUBITUS
    if words & _OBLIQUE or bool(frontal) == bool(lateral):
        return None
    if lateral:
        return View("lateral", "other")
    directions = frontal & {"AP", "PA"}
    if directions == {"AP"}:
        return View("frontal", "AP")
    return View("frontal", "PA" if directions == {"PA"} else "other")


def is_special(text: str) -> bool:
    """Whether a text names a view of a patient on the side, across the table, axial or lordotic."""
    return not _SPECIAL.isdisjoint(re.findall(r"[A-Z]+", text.upper()))


def image_key(name: str) -> str:
    """The name of an image without what differs between distributions.

    ``CXR1_1_IM-0001-4001``, ``1_IM-0001-4001.dcm.png`` and ``1_IM-0001-4001.jpg`` are all ``1_IM-0001-4001``. Folders
    stay.
    """
    folder, slash, last = name.strip().rpartition("/")
    return folder + slash + _OPENI.sub(r"\1_", _ENDINGS.sub("", last))


def view_of(views: Mapping[str, View], image: str) -> View | None:
    """The view of an image path: its key, or the nearest end of it, in a table of :func:`read_views`."""
    key = image_key(image)
    while key not in views and "/" in key:
        key = key.partition("/")[2]
    return views.get(key)


def read_views(path: str | Path) -> dict[str, View]:
    """Read a table of views; see :func:`~pacer.data.tables.open_table` for its kinds.

    It names the image in a column ``image``, ``filename`` or ``dicom_id`` and its view in ``view``, ``projection`` or
    ``ViewPosition``. Of several view columns, the first that is understood says whether the image is frontal; the
    others may add AP or PA.

    Returns:
        ``{key: view}``, see :func:`image_key`, in the table's order. An image in a folder can also be found by its
        name alone, where the table holds that name once. Images whose view is not understood are not in it.

    Raises:
        DataError: the file is missing or malformed, lacks a column, has a row without an image, or gives an image two
            different views.
    """
    views: dict[str, View] = {}
    alone: dict[str, str] = {}  # name without folder: key; empty where several images have the name
    for place, row in _rows(path):
        name = _first_text(row)
        if name is None:
            raise DataError(f"{path}, {place} names no image in {', '.join(IMAGE_COLUMNS)}")
        key = image_key(name)
        folder, _, last = key.rpartition("/")
        if folder:
            alone[last] = key if alone.get(last, key) == key else ""
        view = _view_in(row)
        if view is not None and views.setdefault(key, view) != view:
            raise DataError(f"{path}, {place} gives image {key!r:.80} another view than an earlier {place.split()[0]}")
    for last, key in alone.items():
        if key in views:
            views.setdefault(last, views[key])
    return views


def check_coverage(path: Path, known: int, named: int) -> None:
    """Refuse a table of views that knows few of the images that a corpus names.

    Raises:
        DataError: it knows less than half; of a handful of images, the list of rows left out says it as well.
    """
    if named >= _HANDFUL and 2 * known < named:
        raise DataError(
            f"{path} gives the view of {known:,} of the {named:,} images that the reports name; name the table that "
            "belongs to them, or complete it"
        )


def _view_in(row: dict[str, Any]) -> View | None:
    named = [view for view in map(parse_view, map(row.get, VIEW_COLUMNS)) if view is not None]
    known = (view for view in named if view.kind == named[0].kind and view.view != "other")
    return next(known, named[0] if named else None)


def _first_text(row: dict[str, Any]) -> str | None:
    """The first text or whole number in the columns that name the image, without white space around it."""
    for value in map(row.get, IMAGE_COLUMNS):
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
            return str(value).strip()
    return None


def _rows(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place (``line 3``) and values, by the names in lower case, of each row of a table that is not empty."""
    table = open_table(path)
    columns = {name: column for name in (*IMAGE_COLUMNS, *VIEW_COLUMNS) if (column := table.only(name)) is not None}
    for group in (IMAGE_COLUMNS, VIEW_COLUMNS):
        if columns.keys().isdisjoint(group):
            raise DataError(
                f"{path} needs one of the columns {', '.join(group)}; it has {shown_columns(table.columns)}"
            )
    values = [table.values(column) for column in columns.values()]
    for place, row, *wanted in zip(table.places, table.rows, *values, strict=True):
        if table.kind != "csv" or any((cell or "").strip() for cell in row):
            yield place, dict(zip(columns, wanted, strict=True))
