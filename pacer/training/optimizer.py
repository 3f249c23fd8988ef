"""AdamW on blocks of parameters; it skips the blocks that no record of an update uses."""

from collections.abc import Mapping, Set

from torch.nn import Parameter
from torch.optim import AdamW

from pacer.model.pacer import Pacer
from pacer.training.phases import Phase


class BlockOptimizer:
    """Steps the blocks that an update's records use.

    A block of a source that no record of any process has is skipped: it gets no weight decay and no
    momentum, and its steps are not counted. Upstream does the same, because it does not call the
    source's module then.
    """

    def __init__(self, model: Pacer, parameters: Mapping[str, Parameter], phase: Phase):
        self.model = model
        self.parameters = parameters
        #: The blocks of each parameter, each with the contexts whose records use it.
        self.blocks = {
            name: [
                (Parameter(block), contexts)
                for block, contexts in model.blocks(name, parameter.detach())
            ]
            for name, parameter in parameters.items()
        }
        whole = [
            block for blocks in self.blocks.values() for block, _ in blocks if len(blocks) == 1
        ]
        parts = [block for blocks in self.blocks.values() for block, _ in blocks if len(blocks) > 1]
        # a group for each, because a GPU steps a group together only if all of it is contiguous
        groups = [{"params": group} for group in (whole, parts) if group]
        self.adamw = AdamW(
            groups, lr=phase.schedule.learning_rate, weight_decay=phase.train.weight_decay
        )

    def step(self, learning_rate: float, present: Set[str]) -> None:
        """Step the blocks that records of the contexts ``present`` use."""
        for group in self.adamw.param_groups:
            group["lr"] = learning_rate
        for name, blocks in self.blocks.items():
            gradient = self.parameters[name].grad
            if gradient is None:
                parts = [None] * len(blocks)
            else:
                parts = [part for part, _ in self.model.blocks(name, gradient)]
            for (block, contexts), part in zip(blocks, parts, strict=True):
                block.grad = None if present.isdisjoint(contexts) else part
        self.adamw.step()

    def never_stepped(self, contexts: Set[str]) -> list[str]:
        """Return the sorted names of parameters that records of these contexts use and that have
        had no gradient, once for each block."""
        return sorted(
            name
            for name, blocks in self.blocks.items()
            for block, used_by in blocks
            if not contexts.isdisjoint(used_by) and block not in self.adamw.state
        )
