"""Say in one sentence why PACER cannot be set up here, before anything is downloaded; `make setup`
runs this.

It also runs on a Python that is too old for PACER.
"""

import os
import platform
import shutil
import sys

#: The oldest and the newest Python for which all pinned packages have wheels.
OLDEST, NEWEST = (3, 11), (3, 14)


def obstacle():
    """Return what stands against the set-up, with the remedy; None if nothing does."""
    python = f"{sys.executable} is Python {platform.python_version()}"
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        return (
            f"{python}, expected 3.{OLDEST[1]} to 3.{NEWEST[1]}; try: make setup PYTHON=python3.12"
        )
    if sys.platform not in ("linux", "darwin"):
        return f"this is {platform.system()}, expected Linux or macOS; on Windows, use WSL"
    if sys.platform == "darwin" and platform.machine() != "arm64":
        return (
            f"{python} for Intel Macs, which PyTorch no longer supports; use an arm64 Python "
            "on Apple silicon"
        )
    if shutil.which("git") is None:
        return "git is not on the PATH; install it, because the pipeline runs in a git repository"
    if not os.path.exists(".git"):
        remedy = "clone PACER with git, or run: git init && git add --all && git commit -m PACER"
        return f"{os.getcwd()} is not a git repository, which the pipeline needs; {remedy}"
    return None


if __name__ == "__main__":
    found = obstacle()
    sys.exit(found and f"error: {found}")
