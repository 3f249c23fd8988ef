"""PACER: chest X-ray reports when the lateral view or the previous report may be missing."""

import os

# OpenMP's threads wait for each other in a loop. Beside another busy process that takes many times as long as the work,
# so they give the core up after a short while (docs/performance.md). It is read when torch is first imported; a value
# of the user's own stays.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
