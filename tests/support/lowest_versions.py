"""Print the lowest versions that pyproject.toml allows, without the extras.

``python tests/support/lowest_versions.py > lowest.txt; pip install -r lowest.txt``
"""

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def lowest(requirement: str) -> str:
    """Return ``name==version.*``, or the version alone if it has all three parts."""
    name, version = requirement.split(">=")
    parts = len(re.findall(r"\d+", version))
    return f"{name}=={version}" + ".*" * (parts < 3)


if __name__ == "__main__":
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    print("\n".join(map(lowest, project["dependencies"])))
