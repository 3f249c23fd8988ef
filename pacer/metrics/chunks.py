"""Reading of many pairs of texts by several processes, some thousand pairs at a time."""

from io import BytesIO
from typing import IO

import polars as pl

from pacer.core.machine import core_count
from pacer.core.progress import Ticker
from pacer.metrics.reading import read_pairs

#: Pairs that are read at a time.
_ROWS = 2_000
#: Largest number of pairs that are read without further processes. These take a second of processor
#: time to start and read sentences again that another process has read.
_ALONE = 16_000


def read_in_chunks(cases: pl.DataFrame) -> tuple[pl.DataFrame, pl.LazyFrame]:
    """Return the new columns and the findings of :func:`~pacer.metrics.reading.read_pairs`, which
    do not depend on the number of cores that make them."""
    if len(cases) <= _ROWS:
        columns, findings = read_pairs(cases)
        return columns, findings.lazy()
    # imported here, because small tables do not need it; loky's processes do not import the user's
    # main module, unlike multiprocessing's
    from joblib import Parallel, delayed
    from joblib.externals.loky import get_reusable_executor

    processes = core_count() if len(cases) > _ALONE else 1
    # what is read stays compressed: the columns until the other processes have ended, the findings
    # until the scores are computed
    parts: list[tuple[bytes, bytes]] = []
    slices = (delayed(_read_compressed)(part) for part in cases.iter_slices(_ROWS))
    with Ticker("reading reports", len(cases)) as ticker:
        for part in Parallel(processes, return_as="generator")(slices):
            parts.append(part)
            ticker.advance(min(_ROWS, len(cases) - _ROWS * (len(parts) - 1)))
    if processes > 1:
        get_reusable_executor().shutdown()  # idle, they would keep their memory for minutes
    columns, findings = zip(*parts, strict=True)
    sources: list[IO[bytes]] = [BytesIO(part) for part in findings]
    return pl.concat(map(pl.read_ipc, columns), rechunk=True), pl.scan_ipc(sources, glob=False)


def _read_compressed(cases: pl.DataFrame) -> tuple[bytes, bytes]:
    """Return the frames of :func:`~pacer.metrics.reading.read_pairs` as compressed files."""
    columns, findings = (
        frame.write_ipc(None, compression="zstd").getvalue() for frame in read_pairs(cases)
    )
    return columns, findings
