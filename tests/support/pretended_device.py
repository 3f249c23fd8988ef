"""A device that computes on the CPU and is another device to everything that asks, for machines without one.

Every operation on tensors of both is refused, as CUDA refuses it, but those that CUDA allows: copies, scalars, and
indices that lie on the CPU. So are products of matrices of whole numbers, which CUDA does not have. Built on PyTorch's
interface for backends in Python; it stays registered in its process.
"""

from __future__ import annotations

import concurrent.futures.thread
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import accelerate.state
import torch
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

import pacer.core.processes

aten = torch.ops.aten
_COPIES = (aten.copy_, aten._to_copy)
_INDEXING = (aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_)
_PRODUCTS = (aten.mm, aten.mv, aten.bmm, aten.addmm, aten.addmv, aten.dot)


class Mixed(RuntimeError):
    """An operation got tensors of both devices."""


class _Backend(backend_registration._DummyBackendModule):
    def is_available(self) -> bool:
        return True

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float32]

    def get_rng_state(self, device: object = None) -> torch.Tensor:
        return torch.empty(0)

    def set_rng_state(self, state: torch.Tensor, device: object = None) -> None:
        pass


backend_registration._setup_privateuseone_for_python_backend("pretended", backend_module=_Backend())
DEVICE = torch.device("pretended:0")


class _There(torch.Tensor):
    """A tensor on the device; ``inner`` holds its values."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> _There:
        there = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=DEVICE,
        )
        there.inner = inner
        return there

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _carried_out(operation, args, kwargs or {})

    def tolist(self) -> Any:
        return self.inner.tolist()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.inner.__reduce_ex__(protocol)  # a saved tensor is read onto the CPU

    def numpy(self, *, force: bool = False) -> Any:
        if not force:
            raise TypeError("a tensor on the device is no array")
        return self.inner.numpy(force=True)


class _Everywhere(TorchDispatchMode):
    """Sees what makes tensors on the device too."""

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _carried_out(operation, args, kwargs or {})


def _here(leaf: Any) -> Any:
    if isinstance(leaf, torch.device) and leaf.type == DEVICE.type:
        return torch.device("cpu")
    return leaf.inner if isinstance(leaf, _There) else leaf


def _carried_out(operation: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    leaves = tree_leaves((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    there = {id(tensor.inner): tensor for tensor in tensors if isinstance(tensor, _There)}
    here = [tensor for tensor in tensors if not isinstance(tensor, _There) and tensor.dim()]
    packet = operation.overloadpacket
    indexed_there = packet in _INDEXING and isinstance(args[0], _There)
    if there and here and packet not in _COPIES and not indexed_there:
        raise Mixed(f"{operation} got tensors of the CPU {[tuple(tensor.shape) for tensor in here]} and of the device")
    if there and packet in _PRODUCTS and not tensors[0].dtype.is_floating_point:
        raise RuntimeError(f'"{packet.__name__}" has no kernel for {tensors[0].dtype}')
    target = next((leaf for leaf in leaves if isinstance(leaf, torch.device)), None)
    if target is None:
        onto_device = bool(there) and (packet is not aten.copy_ or isinstance(args[0], _There))
    else:
        onto_device = target.type == DEVICE.type
    args, kwargs = tree_map(_here, (args, kwargs))
    if not onto_device:
        return operation(*args, **kwargs)

    def carried(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        known = there.get(id(leaf))
        return _There(leaf) if known is None else known

    with torch.inference_mode(False):  # what it makes could not be a view of anything else
        return tree_map(carried, operation(*args, **kwargs))


@contextmanager
def pretended() -> Iterator[torch.device]:
    """The device is there, in other threads too, and accelerate's own choice."""
    begin, run = accelerate.state.PartialState.__init__, concurrent.futures.thread._WorkItem.run

    def choosing(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        self.device = DEVICE

    def running(self: Any, *args: Any) -> None:
        with _Everywhere():
            run(self, *args)

    torch._C._set_only_lift_cpu_tensors(True)  # else `torch.tensor(..., device=...)` does not come by here
    torch.__future__.set_swap_module_params_on_conversion(True)
    with (
        patch.object(accelerate.state.PartialState, "__init__", choosing),
        patch.object(pacer.core.processes, "compute_device", lambda: DEVICE),
        patch.object(concurrent.futures.thread._WorkItem, "run", running),
        _Everywhere(),
    ):
        yield DEVICE
