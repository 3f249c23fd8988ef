"""Where the pipeline writes."""

from pathlib import Path

from pacer.core.errors import ConfigError

#: The folders that stages write; an output of DVC is one of them or lies in one.
FOLDERS = (
    *(
        f"data/{name}"
        for name in ("source", "corpus", "anchors", "emphasis", "features", "labels", "pictures")
    ),
    *(f"models/{name}" for name in ("backbones", "warmup", "parent", "calibrate", "findings")),
    "predictions",
    "metrics",
    "reports",
    *(f"baselines/{name}" for name in ("models", "predictions", "metrics")),
)


def check_folders(root: Path) -> None:
    """Raise a ConfigError if a link puts a folder of outputs outside the repository, which DVC
    would refuse after the work. Files may be links, which is how DVC places those of a cache on
    another disk."""
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
