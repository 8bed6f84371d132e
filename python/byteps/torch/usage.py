"""Which parameters have a gradient on some rank: what nobody used must stay as it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


class Usage:
    """The layouts of some gradients, over all ranks: on its way, beside the gradients."""

    def __init__(
        self,
        layouts: Sequence[int],
        name: str,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        """Start to ask. All ranks ask under the same name, for as many parameters."""
        call = Call(
            Operation.MAX,
            f"{name}.used.{len(layouts)}",
            priority=_BEFORE_ALL_GRADIENTS,
            process_set=process_set,
        )
        own = torch.tensor(layouts, dtype=torch.uint8)
        self._handle: int | None = exchange(call, own, own)
        self._answer: list[int] = []

    def wait(self) -> list[int]:
        """Return the layouts, in the order of the question. One thread at a time."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            self._answer = cast("list[int]", finished(handle).tolist())
        return self._answer


class UsageOf:
    """The usage of some parameters, by parameter. One thread at a time."""

    def __init__(self, parameters: Iterable[torch.Tensor], name: str) -> None:
        """Start to ask who has a gradient of the parameters."""
        self._parameters = list(parameters)
        self._usage = Usage([layout_of(parameter) for parameter in self._parameters], name)
        self._used: set[torch.Tensor] | None = None

    def used(self) -> set[torch.Tensor]:
        """Wait; return the parameters of which some rank has a gradient."""
        if self._used is None:
            pairs = zip(self._parameters, self._usage.wait(), strict=True)
            self._used = {parameter for parameter, layout in pairs if layout != NO_GRADIENT}
        return self._used
