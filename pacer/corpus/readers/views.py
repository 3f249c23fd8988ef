"""Views of images from a table: Kaggle's projections of Open-I, MIMIC-CXR-JPG's metadata, or a
table with columns ``image`` and ``view``.

The same image has a different name in each distribution; :func:`image_key` maps these names to a
common key.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pacer.core.errors import DataError
from pacer.images.dicom import header_view
from pacer.images.views import View, parse_view
from pacer.tables.files import open_table
from pacer.tables.hygiene import EMPTY_CELL, name_on_disk, path_outside_root
from pacer.tables.table import shown_columns
from pacer.tables.values import quoted

#: Columns for the image and its view, in order of preference.
IMAGE_COLUMNS = ("image", "filename", "dicom_id")
VIEW_COLUMNS = ("view", "projection", "ViewPosition")
#: MIMIC-CXR-JPG's second column of views; it counts where the others are empty.
VIEW_IN_FULL = "ViewCodeSequence_CodeMeaning"

_NO_DICOM = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")
_ENDINGS = re.compile(r"(?:\.(?:dcm|png|jpe?g))+$", re.IGNORECASE)
#: Open-I writes ``CXR10_IM-0002-1001`` and ``CXR1_1_IM-0001-4001``, Kaggle ``10_IM-…`` and
#: ``1_IM-…``.
_OPENI = re.compile(r"^CXR([0-9]+)_(?:\1_)?")


def header_views(images: Iterable[str], folder: Path) -> dict[str, tuple[str, str]]:
    """Return the view and the words of :func:`header_view` of the DICOM files among images in
    ``folder``, by path."""

    def read(image: str) -> tuple[str, str]:
        name = name_on_disk(image, folder)
        try:
            with open(folder / name, "rb") as file:
                return ("", "") if path_outside_root(name) else header_view(file)
        except (OSError, ValueError):  # reported by inspect_images
            return "", ""

    names = [image for image in images if may_be_dicom(image)]
    with ThreadPoolExecutor() as pool:
        return dict(zip(names, pool.map(read, names), strict=True))


def may_be_dicom(image: str) -> bool:
    """Return whether an image may be a DICOM file: its name has no extension of another format."""
    return not image.lower().endswith(_NO_DICOM)


def image_key(name: str) -> str:
    """Return the name of an image without the parts that differ between distributions; folders are
    kept. ``CXR1_1_IM-0001-4001``, ``1_IM-0001-4001.dcm.png`` and ``1_IM-0001-4001.jpg`` all become
    ``1_IM-0001-4001``."""
    folder, slash, last = name.strip().rpartition("/")
    stem = _ENDINGS.sub("", last)
    return folder + slash + _OPENI.sub(r"\1_", stem)


def view_of(views: Mapping[str, View], image: str) -> View | None:
    """Look up an image path in a table of :func:`read_views`, by its key or the longest known
    suffix of the key."""
    key = image_key(image)
    while key not in views and "/" in key:
        key = key.partition("/")[2]
    return views.get(key)


def choose_images(
    images: Sequence[str], views: Mapping[str, View]
) -> tuple[str | None, str | None, str | None]:
    """Return the first frontal image, its view, and the first lateral image. Images of unknown view
    are not used."""
    chosen: dict[str, tuple[str, str]] = {}
    for image in images:
        view = view_of(views, image)
        if view is not None:
            chosen.setdefault(view.kind, (image, view.view))
    frontal, frontal_view = chosen.get("frontal", (None, None))
    lateral, _ = chosen.get("lateral", (None, None))
    return frontal, frontal_view, lateral


def read_views(path: Path) -> dict[str, View]:
    """Read a table of views (of a kind of :func:`~pacer.tables.files.open_table`): the view of each
    :func:`image_key`, in the table's order, without images whose view is not understood.

    The image is in the first column named ``image``, ``filename`` or ``dicom_id``, and its view in
    ``view``, ``projection`` or ``ViewPosition``. If that is empty, ``ViewCodeSequence_CodeMeaning``
    is used.
    """
    table = open_table(path)
    columns = []
    for names in (IMAGE_COLUMNS, VIEW_COLUMNS):
        present = [name for name in names if name in table.columns]
        if not present:
            has = shown_columns(table.columns)
            raise DataError(f"{path} needs one of the columns {', '.join(names)}; it has {has}")
        columns.append(present[0])
    if VIEW_IN_FULL in table.columns:
        columns.append(VIEW_IN_FULL)
    views: dict[str, View] = {}
    rows = table.frame(columns).iter_rows()
    for place, (image, *texts) in zip(table.places, rows, strict=True):
        if not (image or "").strip():
            continue
        stated = [text for text in texts if not re.search(EMPTY_CELL, text or "")]
        view = parse_view(stated[0]) if stated else None
        if view is not None and views.setdefault(image_key(image), view) != view:
            key = quoted(image_key(image))
            raise DataError(
                f"{path}, {place}: the view of image {key} differs from that in an earlier row"
            )
    return views
