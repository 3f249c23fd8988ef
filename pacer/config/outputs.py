"""The folders of the pipeline's outputs."""

from pathlib import Path

from pacer.core.errors import ConfigError

#: The folders that stages write; an output of DVC is one of them or lies in one.
FOLDERS = (
    "data/source",
    "data/corpus",
    "data/anchors",
    "data/emphasis",
    "data/features",
    "data/labels",
    "data/pictures",
    "models/standins",
    "models/backbones",
    "models/warmup",
    "models/parent",
    "models/calibrate",
    "models/lists",
    "predictions",
    "metrics",
    "reports",
    "baselines/models",
    "baselines/predictions",
    "baselines/metrics",
)


def check_folders(root: Path) -> None:
    """Raise a ConfigError if a link puts a folder of outputs outside the repository: DVC would
    refuse it, but only after the work is done. Files may be links, because DVC links files of a
    cache on another disk."""
    inside = root.resolve()
    for name in FOLDERS:
        place = (root / name).resolve()
        if not place.is_relative_to(inside):
            raise ConfigError(
                f"{name} is a link to {place}, but DVC cannot track outputs outside the "
                "repository; remove the link. To keep outputs on that disk, run `dvc cache dir "
                f"--local {place.parent / 'pacer-cache'}`, then `dvc checkout --relink` after each "
                "run"
            )
