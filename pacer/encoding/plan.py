"""What encoding will cost in bytes and time, printed before the work beside what the other mode would cost."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
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
    """What one process is to encode of one kind: ``entries``, and what one of its first batch cost (nothing where none
    could be read), in this mode and in the ``other`` (None: it makes no difference)."""

    kind: str
    entries: int
    cost: Cost
    other: Cost | None


def fits(size: float, free: float) -> bool:
    """Whether features of this many bytes may be put on a disk with this many free."""
    return size <= _USABLE * free


def announce(shares: list[Share], other_mode: str, out: Path, state: PartialState) -> None:
    """Print what all processes together are to encode, and refuse what the disk cannot hold.

    Raises:
        PacerError: the disk cannot hold it (on all processes); the mode with which it could is named.
    """
    every: list[list[Share]] = gather_object([shares])
    out.parent.mkdir(parents=True, exist_ok=True)
    free = broadcast_object_list([shutil.disk_usage(out.parent).free])[0]
    parts = [_described(kind, [share for part in every for share in part if share.kind == kind]) for kind in WORDS]
    if not any(parts):
        return
    need, other = _total(every), _total([[s._replace(cost=s.other or s.cost) for s in part] for part in every])
    setting = f"features.mode: {other_mode}" if any(share.other for part in every for share in part) else None
    if state.is_main_process:
        print(
            f"features: {' and '.join(filter(None, parts))} to encode, about {_duration(need.seconds)} at the rate of "
            f"the first batch; {_size(need.size)} of {_size(free)} free",
            flush=True,
        )
        if setting:
            print(
                f"features: with {setting} it would be {_size(other.size)} and about {_duration(other.seconds)}",
                flush=True,
            )
    if not fits(need.size, free):
        helps = setting and fits(other.size, free)
        remedy = f"set {setting}, or free space" if helps else "free space: no other setting fits"
        raise PacerError(f"the features need {_size(need.size)} more, {_size(free)} are free at {out.parent}; {remedy}")


def _described(kind: str, shares: Sequence[Share]) -> str:
    """The entries of one kind, their bytes, and the rate of all processes together."""
    count = sum(share.entries for share in shares)
    if not count:
        return ""
    rate = sum(1 / share.cost.seconds for share in shares if share.cost.seconds)
    known = f" ({_size(_total([shares]).size)}, {rate:,.1f}/s)" if rate else ""
    return f"{count:,} {WORDS[kind]}{known}"


def _total(every: Sequence[Sequence[Share]]) -> Cost:
    """Bytes of all entries, and seconds until the last process is ready."""
    size = 0
    for kind in WORDS:
        own = [share for part in every for share in part if share.kind == kind]
        # a process may have met no entry that it could read
        size += max((share.cost.size for share in own), default=0) * sum(share.entries for share in own)
    return Cost(size, max(sum(share.entries * share.cost.seconds for share in part) for part in every))


def _size(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"
