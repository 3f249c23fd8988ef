"""What encoding will cost in bytes and time: told before the work, with what other settings would cost."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import NamedTuple

from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object

from pacer.core.errors import PacerError

WORDS = {"images": "images", "priors": "previous reports"}

#: Part of the free disk that may be filled.
_USABLE = 0.95


class Cost(NamedTuple):
    """Bytes and seconds, of one entry or of all."""

    size: int = 0
    seconds: float = 0.0


class Share(NamedTuple):
    """What one process is to encode of one kind, and what an entry of its first batch cost.

    Attributes:
        others: what an entry would cost with another setting.
    """

    kind: str
    entries: int
    cost: Cost
    others: dict[str, Cost]


def announce(shares: list[Share], out: Path, state: PartialState) -> None:
    """Print what all processes together are to encode, and refuse what the disk cannot hold.

    Raises:
        PacerError: the disk cannot hold it (on all processes); a setting with which it could is named.
    """
    every: list[list[Share]] = gather_object([shares])
    out.parent.mkdir(parents=True, exist_ok=True)
    free = broadcast_object_list([shutil.disk_usage(out.parent).free])[0]
    parts = [_told([share for part in every for share in part if share.kind == kind]) for kind in WORDS]
    parts = [part for part in parts if part]
    if not parts:
        return
    need = _total(every)
    others = {name: _total(every, name) for part in every for share in part for name in share.others}
    if state.is_main_process:
        print(
            f"features: {' and '.join(parts)} to encode, about {_duration(need.seconds)} at the rate of the first "
            f"batch; {_size(need.size)} of {_size(free)} free",
            flush=True,
        )
        for name, cost in others.items():
            print(
                f"features: with {name} it would be {_size(cost.size)} and about {_duration(cost.seconds)}", flush=True
            )
    if need.size > _USABLE * free:
        fitting = [name for name, cost in others.items() if cost.size <= _USABLE * free]
        remedy = f"set {' or '.join(fitting)}, or free space" if fitting else "free space: no other setting fits"
        raise PacerError(f"the features need {_size(need.size)} more, {_size(free)} are free at {out.parent}; {remedy}")


def _told(shares: Sequence[Share]) -> str:
    """The entries of one kind, their bytes, and the rate of all processes together."""
    count = sum(share.entries for share in shares)
    if not count:
        return ""
    rate = sum(1 / (share.cost.seconds or inf) for share in shares if share.entries)
    known = f" ({_size(_total([shares]).size)}, {rate:,.1f}/s)" if rate else ""
    return f"{count:,} {WORDS[shares[0].kind]}{known}"


def _total(every: Sequence[Sequence[Share]], setting: str | None = None) -> Cost:
    """Bytes of all entries, and seconds until the last process is ready."""
    size, seconds = 0, []
    for kind in WORDS:
        own = [share for part in every for share in part if share.kind == kind]
        # a process may have met no entry that it could read
        size += max((_cost(share, setting).size for share in own), default=0) * sum(share.entries for share in own)
    for part in every:
        seconds.append(sum(share.entries * _cost(share, setting).seconds for share in part))
    return Cost(size, max(seconds))


def _cost(share: Share, setting: str | None) -> Cost:
    return share.others.get(setting, share.cost) if setting else share.cost


def _size(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"
