"""A mode that notes what would make the host wait for a GPU, on any device."""

from typing import Any, Self

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

#: Operations whose result, or its shape, the host must read.
READING = {
    torch.ops.aten._local_scalar_dense.default: "item",  # .item(), int(), float(), bool()
    torch.ops.aten.nonzero.default: "nonzero",
    torch.ops.aten.masked_select.default: "masked_select",
    torch.ops.aten._unique2.default: "unique",
    torch.ops.aten.repeat_interleave.Tensor: "repeat_interleave",
}
INDEXING = {torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default, torch.ops.aten.index_put_.default}
#: Calls that copy to the host, or from memory that is not page-locked.
CALLS = {
    Tensor.tolist: "tolist",
    Tensor.cpu: "cpu",
    Tensor.numpy: "numpy",
    Tensor.new_tensor: "new_tensor",
    torch.tensor: "tensor",
    torch.as_tensor: "as_tensor",
    torch.from_numpy: "from_numpy",
}


class _Operations(TorchDispatchMode):
    def __init__(self, seen: list[str]):
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        if function in READING:
            self.seen.append(READING[function])
        elif function in INDEXING:
            masks = [one for one in arguments[1] if one is not None and one.dtype in (torch.bool, torch.uint8)]
            self.seen += ["mask"] * bool(masks)
        return function(*arguments, **(keywords or {}))


class Syncs(TorchFunctionMode):
    """``seen``: the names of what was called inside, in order. As :meth:`torch.cuda.set_sync_debug_mode` counts them,
    but a copy that :func:`pacer.core.devices.sent` makes is none."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.operations = _Operations(self.seen)

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        if function in CALLS:
            self.seen.append(CALLS[function])
        return function(*arguments, **(keywords or {}))

    def __enter__(self) -> Self:
        self.operations.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.operations.__exit__(*error)
