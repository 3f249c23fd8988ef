"""Profiles: the files of ``configs/``, one of which is active as ``params.yaml``."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from pacer.config.profiles import load_profile, profile_text
from pacer.core.errors import ConfigError
from pacer.core.io import write_text


def profile_names(configs: Path) -> list[str]:
    """Return the profiles below ``configs``, sorted.

    Raises:
        ConfigError: there are none, for example because the command runs outside the repository.
    """
    names = sorted(path.stem for path in configs.glob("*.yaml"))
    if not names:
        raise ConfigError(f"{configs.resolve()} holds no profiles; run this from the root of the repository")
    return names


def profile_in_use(params: Path, configs: Path) -> str | None:
    """Return the profile with the same values as ``params``; None if it has been edited.

    Raises:
        ConfigError: ``params`` does not load.
    """
    values = load_profile(params)
    return next((name for name in profile_names(configs) if load_profile(configs / f"{name}.yaml") == values), None)


def use_profile(name: str, params: Path, configs: Path, *, force: bool = False) -> None:
    """Write a complete profile to ``params``, but only if it is valid.

    Args:
        name: of ``configs/{name}.yaml``, or the path of the user's own file, ending in ``.yaml``.
        force: overwrite values that are not those of any profile.

    Raises:
        ConfigError: there is no such profile, it is invalid, or ``params`` was edited by hand.
    """
    names = profile_names(configs)
    is_path = name.endswith(".yaml")
    if not is_path and name not in names:
        raise ConfigError(f"unknown profile {name!r}; {configs}/ contains {', '.join(names)}")
    chosen = Path(name) if is_path else configs / f"{name}.yaml"
    load_profile(chosen)
    in_use = None
    with suppress(ConfigError):  # a file that does not load equals no profile
        in_use = profile_in_use(params, configs)
    if params.exists() and not force and in_use is None:
        raise ConfigError(
            f"{params} equals no profile in {configs} (edited, or written from a file of yours); save it with "
            f"`cp {params} {configs}/mine.yaml` if you need it, and add --force"
        )
    write_text(params, profile_text(chosen))
