"""PACER: chest X-ray reports when the lateral view or the previous report may be missing."""

import os

# OpenMP threads wait for each other in a busy loop. If another process uses the cores, waiting takes many times as long
# as the work, so the threads yield the core after a short while (docs/performance.md). The variable is read when torch
# is first imported; a value that the user has set is kept.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
