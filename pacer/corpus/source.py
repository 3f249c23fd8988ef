"""Location of a raw corpus: ``source.json``, written both for real corpora and for the phantom.

    {"root": folder, "images": folder below root, "files": {role: {"path", "bytes", "sha256"}}}

``root`` is absolute for an existing corpus, and ``"."`` (the folder of ``source.json``) for the
phantom; the other paths are relative to it. The role of a MIMIC-RG4 file is its context; for other
formats it is the file's purpose. The size and hash of each file are recorded, because the files are
outside the pipeline. If a file changes, reading fails until the source is made again. A folder is
recorded by the names and sizes of its files.
"""

import glob
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pacer.config import Corpus
from pacer.core.errors import DataError
from pacer.core.io import files_below, hash_bytes, hash_file, read_json, write_json


class Source(NamedTuple):
    """A raw corpus on disk."""

    #: Folder that the image paths are relative to.
    images: Path
    #: File or folder per role.
    files: dict[str, Path]
    #: Table of the latent state of every examination; None unless the corpus is generated.
    truth: Path | None


class NamedFile(NamedTuple):
    """A file or folder that ``params.yaml`` names."""

    #: Its key in ``params.yaml``.
    key: str
    path: Path
    #: The reason why it cannot be used; None if it can.
    problem: str | None


def look_at_files(config: Corpus) -> tuple[Path, list[NamedFile]]:
    """Return the root of a file corpus, and its image folder and input files with any problems.
    Raises a DataError if the root is not a folder."""
    root = Path(str(config.root)).expanduser().resolve()
    if not root.is_dir():
        raise DataError(
            f"corpus.root: {root} is not a folder; set it to the folder that contains the corpus"
        )
    images = root / config.images
    problem = None if images.is_dir() else f"{images} is not a folder"
    checked = [NamedFile("images", images, problem)]
    for key, name in config.input_files().values():
        path = root / name
        problem = None if matching_files(path) else f"{path} does not exist"
        checked.append(NamedFile(key, path, problem))
    return root, checked


def point_to_files(config: Corpus, out: Path) -> None:
    """Check a file corpus and write ``out/source.json``, which points to it. Raises a DataError
    that lists all problems if the root, the image folder or a file is missing."""
    root, checked = look_at_files(config)
    problems = [f"corpus.{file.key}: {file.problem}" for file in checked if file.problem]
    if problems:
        raise DataError(f"{'; '.join(problems)}; correct these keys, or corpus.root")
    out.mkdir(parents=True, exist_ok=True)
    paths = {role: path for role, (_, path) in config.input_files().items()}
    try:
        described = describe_source(root, str(root), config.images, paths)
    except OSError as error:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}") from None
    write_json(out / "source.json", described)


def describe_source(
    folder: Path, root: str, images: str, files: Mapping[str, str]
) -> dict[str, Any]:
    """Return the content of ``source.json``.

    Args:
        folder: current folder of the files.
        root: the root to record (``"."`` if ``source.json`` is in the same folder).
        images: folder of the images, relative to the root.
        files: file or folder per role, relative to the root.
    """
    described = {role: {"path": path} | _fingerprint(folder / path) for role, path in files.items()}
    return {"root": root, "images": images, "files": described}


def read_source(directory: Path) -> Source:
    """Read ``directory/source.json`` and check that the files match its description. Raises a
    DataError if it is missing or malformed, or a file is missing or has changed."""
    raw = read_json(directory / "source.json")
    try:
        root = directory / raw["root"]
        files = dict(raw["files"])
        paths = {role: root / described["path"] for role, described in files.items()}
        images = root / raw["images"]
    except (KeyError, TypeError, ValueError):
        raise DataError(
            f"{directory}/source.json must have root, images and files; rerun the `source` stage"
        ) from None
    for role, path in paths.items():
        if not matching_files(path):
            raise DataError(f"{path} does not exist; restore it or rerun the `source` stage")
        if files[role] != {"path": files[role]["path"]} | _fingerprint(path):
            raise DataError(f"{path} has changed since the `source` stage ran; rerun the stage")
    truth = directory / "truth.parquet"
    return Source(images, paths, truth if truth.exists() else None)


def matching_files(path: Path) -> list[Path]:
    """Return the files that a path names: itself if it exists, else those that fit its pattern
    (``train-*.parquet``), sorted."""
    if path.exists():
        return [path]
    return [Path(name) for name in sorted(glob.glob(str(path)))]


def _fingerprint(path: Path) -> dict[str, Any]:
    """Return size and hash of a file, of the files of a pattern, or of a folder's file names and
    sizes (it may hold hundreds of thousands)."""
    if not path.exists():
        parts = [_fingerprint(file) for file in matching_files(path)]
        hashes = "".join(part["sha256"] for part in parts)
        return {
            "bytes": sum(part["bytes"] for part in parts),
            "sha256": hash_bytes(hashes.encode()),
        }
    if path.is_file():
        return {"bytes": path.stat().st_size, "sha256": hash_file(path)}
    sizes = {
        file.relative_to(path): file.stat().st_size for file in files_below(path) if file.is_file()
    }
    listing = "".join(f"{name}\0{size}\0" for name, size in sizes.items())
    return {"bytes": sum(sizes.values()), "sha256": hash_bytes(listing.encode())}
