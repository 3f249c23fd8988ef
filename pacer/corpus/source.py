"""Where a raw corpus lies: ``source.json``, written for real corpora and for the phantom alike.

    {"root": folder, "images": folder below root, "annotations": {context: {"path", "bytes", "sha256"}}}

``root`` is absolute for a corpus that stays where it is, and ``"."`` (the folder of ``source.json``) for the phantom;
the other paths are relative to it. Size and hash of each annotation file are recorded, because those files lie
outside the pipeline: when one changes, reading it is refused until the source is described anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pacer.core.config import Corpus
from pacer.core.errors import DataError
from pacer.core.io import hash_file, read_json, write_json

#: The splits of an annotation file, in order.
SPLITS: tuple[str, ...] = ("train", "val", "test")


@dataclass(frozen=True)
class Source:
    """A raw corpus on disk.

    Attributes:
        images: folder that the image paths of the annotation files are relative to.
        annotations: annotation file per context.
        truth: table of the latent state of every study, where the corpus is generated.
    """

    images: Path
    annotations: dict[str, Path]
    truth: Path | None


def point_to_files(config: Corpus, out: Path) -> None:
    """Check a corpus of files and write ``out/source.json``, which points to it.

    Raises:
        DataError: the root, the image folder or an annotation file is missing, or a file is not JSON with
            train, val and test; all problems are listed at once.
    """
    root = Path(str(config.root)).expanduser().resolve()
    if not root.is_dir():
        raise DataError(f"corpus.root is {root}, which is not a folder; set it to the folder of the annotation files")
    problems = []
    if not (root / config.images).is_dir():
        problems.append(f"corpus.images: {root / config.images} is not a folder")
    paths: dict[str, str] = {context: str(getattr(config.annotations, context)) for context in config.contexts}
    for context, path in paths.items():
        problem = _problem_of(root / path)
        if problem:
            problems.append(f"corpus.annotations.{context}: {problem}")
    if problems:
        raise DataError("; ".join(problems))
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "source.json", describe_source(root, str(root), config.images, paths))


def describe_source(folder: Path, root: str, images: str, annotations: Mapping[str, str]) -> dict[str, Any]:
    """The content of ``source.json``.

    Args:
        folder: where the files lie now.
        root: what is recorded as their root (``"."`` when ``source.json`` lies in the same folder).
        images: folder of the images, relative to the root.
        annotations: annotation file per context, relative to the root.
    """
    return {
        "root": root,
        "images": images,
        "annotations": {
            context: {"path": path, "bytes": (folder / path).stat().st_size, "sha256": hash_file(folder / path)}
            for context, path in annotations.items()
        },
    }


def read_source(directory: str | Path) -> Source:
    """Read ``directory/source.json`` and make sure that the annotation files are the ones it describes.

    Raises:
        DataError: it is missing or malformed, or an annotation file is missing or has changed.
    """
    directory = Path(directory)
    raw = read_json(directory / "source.json")
    try:
        root = directory / raw["root"]
        images = root / raw["images"]
        described = {
            context: (root / entry["path"], entry["bytes"], entry["sha256"])
            for context, entry in raw["annotations"].items()
        }
    except (KeyError, TypeError, AttributeError):
        raise DataError(
            f"{directory / 'source.json'} must hold root, images and annotations (path, bytes, sha256 per context); "
            "make the source again"
        ) from None
    for context, (path, size, content_hash) in described.items():
        if not path.is_file():
            raise DataError(f"the {context} annotation file {path} does not exist; restore it or make the source again")
        if path.stat().st_size != size or hash_file(path) != content_hash:
            raise DataError(
                f"the {context} annotation file {path} has changed since the source was made; make the source again"
            )
    truth = directory / "truth.parquet"
    annotations = {context: path for context, (path, _, _) in described.items()}
    return Source(images, annotations, truth if truth.exists() else None)


def read_annotations(path: Path) -> dict[str, list]:
    """The records of one annotation file per split; a split that the file leaves out is empty.

    Raises:
        DataError: the file is missing, is not JSON, or is not a mapping of splits to lists.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise DataError(f"{path} must be a JSON object with {', '.join(SPLITS)}; it holds a {type(content).__name__}")
    unknown = sorted(set(content) - set(SPLITS))
    if unknown or not content:
        raise DataError(f"{path} must hold the splits {', '.join(SPLITS)}; it holds {', '.join(unknown) or 'none'}")
    for split, rows in content.items():
        if not isinstance(rows, list):
            raise DataError(f"{path}: {split} must be a list of records; it is a {type(rows).__name__}")
    return {split: content.get(split, []) for split in SPLITS}


def _problem_of(path: Path) -> str | None:
    if not path.is_file():
        return f"{path} does not exist"
    try:
        read_annotations(path)
    except DataError as error:
        return str(error)
    return None
