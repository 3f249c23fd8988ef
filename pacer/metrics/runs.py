"""Which run scores are of: its profile and parameters, and when, from which commit, on which
processor and with how many threads they were computed.

The signature has the parameters. The rest differs between runs whose tracked files are equal, so it
lies in ``runs/`` beside the scores, which git and DVC ignore, in a file for each ``scores.json``,
named after its hash.
"""

import json
import subprocess
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from pacer.config import Params
from pacer.config.params import closest_profile
from pacer.core.io import hash_file, read_json, write_json
from pacer.core.machine import processor, thread_count
from pacer.metrics.result import SCORES_FILE, read_scores

#: How far single runs differ, in the words of docs/training.md and docs/pipeline.md.
SPREAD = (
    "With the default profile, another processor, number of threads or seed moves the mean F1 by "
    "up to 0.025, and F1 of one context by up to 0.05. To claim a difference, make replicates with "
    "several seeds (`pacer study`), and test it with `pacer compare`."
)
#: The folder of this module's files, beside the scores.
_RUNS = "runs"
#: The code whose uncommitted changes are noted.
_CODE = ("pacer", "stages")


def parameters_of(params: Params) -> dict[str, Any]:
    """Return the closest profile, the seed of training, and the other values that differ from this
    profile, by key."""
    profile, changed = closest_profile(params)
    changed.pop("train.seed", None)
    return {"profile": profile, "seed": params.train.seed, "changed": changed}


def parameter_line(parameters: Mapping[str, Any]) -> str:
    """Describe the parameters of a run, as :func:`parameters_of` returns them."""
    changed = [f"{key}={json.dumps(value)}" for key, value in parameters["changed"].items()]
    line = f"profile {parameters['profile']}, seed {parameters['seed']}"
    return f"{line}, with {', '.join(changed)}" if changed else line


def short_hash(metrics: Path) -> str:
    """Return the first eight characters of the SHA-256 of a folder's ``scores.json``."""
    return hash_file(metrics / SCORES_FILE)[:8]


def record_run(metrics: Path) -> None:
    """Note that the scores in a folder were computed now, by this machine and the code of the
    current commit."""
    threads = thread_count()
    about = {
        "time": datetime.now().astimezone().isoformat(sep=" ", timespec="minutes"),
        "commit": _commit(),
        "processor": f"{processor()}, {threads} {'thread' if threads == 1 else 'threads'}",
    }
    write_json(metrics / _RUNS / f"{short_hash(metrics)}.json", about)


def describe_run(metrics: Path) -> str:
    """Describe the run that the scores in a folder are of, in one line. Raises a DataError if its
    files are missing, damaged or of different runs."""
    _, signature = read_scores(metrics)
    run = short_hash(metrics)
    parts = [parameter_line(signature.parameters)] if signature.parameters else []
    record = metrics / _RUNS / f"{run}.json"
    if record.exists():
        about = read_json(record)
        parts.append(f"scores {run} of {about['time']}")
        parts += [f"commit {about['commit']}"] if about["commit"] else []
        parts.append(about["processor"])
    else:
        parts.append(f"scores {run}, which this clone did not compute")
    return "; ".join(parts)


def _commit() -> str | None:
    """Return the current commit, and whether the code differs from it; None outside git."""
    described = _git("rev-parse", "--short=8", "HEAD")
    if described and _git("status", "--porcelain", "--", *_CODE):
        described += " with uncommitted changes"
    return described


def _git(*arguments: str) -> str | None:
    """Return the output of a git command; None if it fails."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, check=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
