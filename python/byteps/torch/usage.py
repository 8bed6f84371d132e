"""Which parameters have a gradient on some rank: what nobody used must stay as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import torch

from byteps.common.process_sets import ProcessSet, global_process_set
from byteps.common.types import Operation
from byteps.torch.submit import Call, exchange, finished

# How a gradient is stored: not at all, dense, or sparse, where the number of sparse dimensions is
# added to DENSE. Where ranks differ, the higher number counts.
NO_GRADIENT, DENSE = 0, 1

_BEFORE_ALL_GRADIENTS = 1


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

    def __init__(self, layouts: Sequence[int], call: Call) -> None:
        """Start to ask. All ranks ask for the same parameters."""
        own = torch.tensor(layouts, dtype=torch.uint8)
        self._handle = exchange(call, own, own)

    def wait(self) -> list[int]:
        """Return the layouts, in the order of the question. Once only."""
        return cast("list[int]", finished(self._handle).tolist())


class UsageOf:
    """The usage of some parameters, by parameter. One thread at a time."""

    def __init__(self, parameters: Mapping[torch.Tensor, str], name: str) -> None:
        """Start to ask who has a gradient of the parameters, which have these names."""
        self._parameters = list(parameters)
        call = usage_call(name, list(parameters.values()))
        self._usage = Usage([layout_of(parameter) for parameter in self._parameters], call)
        self._layouts: dict[torch.Tensor, int] | None = None
        self._error: Exception | None = None

    def layouts(self) -> dict[torch.Tensor, int]:
        """Wait; return how the ranks' gradients are stored, NO_GRADIENT where no rank has one."""
        if self._error is not None:
            raise self._error
        if self._layouts is None:
            try:
                layouts = self._usage.wait()
            except Exception as error:
                self._error = error
                raise
            self._layouts = dict(zip(self._parameters, layouts, strict=True))
        return self._layouts
