"""A process as on a Mac, as far as another machine can have one.

It lacks `sched_getaffinity`, its child processes begin anew instead of as copies, and it finds a
GPU called `mps`.

Python imports this file by itself where its folder is on PYTHONPATH. A tensor cannot be moved to
the pretended GPU.
"""

import importlib.util
import multiprocessing
import os
import sys
from types import ModuleType
from typing import Any

for name in ("sched_getaffinity", "sched_setaffinity"):
    if hasattr(os, name):
        delattr(os, name)
multiprocessing.set_start_method("spawn")


class _Torch:
    """Waits for the import of torch, which takes seconds that not every process needs."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_pretend(module: ModuleType) -> None:
                execute(module)
                mps = module.backends.mps
                mps.is_available = mps.is_built = lambda: True

            spec.loader.exec_module = execute_and_pretend
        return spec


sys.meta_path.insert(0, _Torch())
