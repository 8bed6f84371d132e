"""Which parameters have a gradient on some rank: what nobody used must stay as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import cast

import torch

from byteps.common.call import Call
from byteps.common.errors import InvalidArgumentError
from byteps.common.process_sets import ProcessSet, global_process_set
from byteps.common.types import Operation
from byteps.torch.submit import exchange, finished

# How a gradient is stored: not at all, dense, or sparse, where the number of sparse dimensions is
# added to DENSE. Where ranks differ, the higher number counts.
NO_GRADIENT, DENSE = 0, 1
# On its way, a layout with this bit says that the gradient was changed after it was sent.
_CHANGED = 0x80

_BEFORE_ALL_GRADIENTS = 1


class SentGradient:
    """A parameter's gradient as it was when it was sent."""

    __slots__ = ("_gradient", "_parameter", "_version")

    def __init__(self, parameter: torch.Tensor) -> None:
        """Note the gradient that the parameter has now; there may be none."""
        self._parameter = parameter
        self._gradient = parameter.grad
        self._version = 0 if self._gradient is None else self._gradient._version

    def is_changed(self) -> bool:
        """Return whether somebody wrote to it, or put another in its place.

        What wrote through `grad.data` is not seen. REQUIRES: the average has not been written.
        """
        current = self._parameter.grad
        if self._gradient is None or current is None:
            return False
        return current is not self._gradient or current._version != self._version


def changed_error(names: Sequence[str], own: Sequence[str]) -> InvalidArgumentError:
    """Return what every rank raises when gradients of these names were changed on their way, `own`
    on this rank."""
    first, who = (own[0], "this rank") if own else (names[0], "another rank")
    more = f" (and {len(names) - 1} others)" if len(names) > 1 else ""
    return InvalidArgumentError(
        f"{who} changed the gradient of '{first}'{more} after backward had sent it and before "
        "step(), so the ranks' models would differ; no rank has stepped. To clip or change "
        "gradients of a DistributedOptimizer, call optimizer.synchronize() first, and step() "
        "inside 'with optimizer.skip_synchronize():'; those of a CrossBarrier cannot be changed."
    )


def layout_of(parameter: torch.Tensor, sparse_as_dense: bool = False) -> int:
    """Return how this rank's gradient of the parameter is stored."""
    if parameter.grad is None:
        return NO_GRADIENT
    is_sparse = parameter.grad.is_sparse and not sparse_as_dense
    return DENSE + parameter.grad.sparse_dim() if is_sparse else DENSE


def zeros_of(parameter: torch.Tensor, layout: int) -> torch.Tensor:
    """Return a gradient of zeros, stored as other ranks' gradients are."""
    if layout <= DENSE:
        return torch.zeros_like(parameter)
    dimensions, shape = layout - DENSE, parameter.shape
    indices = torch.empty((dimensions, 0), dtype=torch.int64, device=parameter.device)
    rows = torch.empty((0, *shape[dimensions:]), dtype=parameter.dtype, device=parameter.device)
    return torch.sparse_coo_tensor(indices, rows, shape, is_coalesced=True, check_invariants=False)


def usage_call(
    name: str, names: Sequence[str], process_set: ProcessSet = global_process_set
) -> Call:
    """Return the call that asks who has gradients of the parameters of these names.

    Ranks that mean other parameters get a MismatchError with both lists.
    """
    return Call(
        Operation.MAX,
        f"{name}.used",
        priority=_BEFORE_ALL_GRADIENTS,
        process_set=process_set,
        detail=f"{len(names)} parameters: {', '.join(names)}",
    )


class Usage:
    """The layouts of some gradients, over all ranks: on its way, beside the gradients.

    Wait for it before the gradients: a rank that has other parameters never sends some of them.
    """

    def __init__(self, layouts: Sequence[int], are_changed: Sequence[bool], call: Call) -> None:
        """Start to ask. All ranks ask for the same parameters."""
        pairs = zip(layouts, are_changed, strict=True)
        told = [layout | (_CHANGED if is_changed else 0) for layout, is_changed in pairs]
        own = torch.tensor(told, dtype=torch.uint8)
        self._handle = exchange(call, own, own)

    def wait(self) -> tuple[list[int], list[int]]:
        """Return the layouts, in the order of the question, and the numbers of the gradients that
        some rank has changed on their way. Once only."""
        told = cast("list[int]", finished(self._handle).tolist())
        changed = [number for number, layout in enumerate(told) if layout & _CHANGED]
        return [layout & ~_CHANGED for layout in told], changed


class UsageOf:
    """The usage of some parameters, by parameter. One thread at a time."""

    def __init__(
        self,
        parameters: Mapping[torch.Tensor, str],
        name: str,
        changed: Set[torch.Tensor] = frozenset(),
    ) -> None:
        """Start to ask who has a gradient of the parameters, which have these names; this rank has
        changed those of `changed` on their way."""
        self._names = dict(parameters)
        self._own = [name for parameter, name in self._names.items() if parameter in changed]
        call = usage_call(name, list(parameters.values()))
        layouts = [layout_of(parameter) for parameter in parameters]
        self._usage = Usage(layouts, [parameter in changed for parameter in parameters], call)
        self._layouts: dict[torch.Tensor, int] | None = None
        self._error: Exception | None = None

    def layouts(self) -> dict[torch.Tensor, int]:
        """Wait; return how the ranks' gradients are stored, NO_GRADIENT where no rank has one.

        Raises if some rank has changed a gradient on its way.
        """
        if self._error is not None:
            raise self._error
        if self._layouts is None:
            try:
                layouts, changed = self._usage.wait()
                if changed:
                    names = list(self._names.values())
                    raise changed_error([names[number] for number in changed], self._own)
            except Exception as error:
                self._error = error
                raise
            self._layouts = dict(zip(self._names, layouts, strict=True))
        return self._layouts
