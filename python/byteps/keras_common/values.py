"""Operations on values: tensors, variables of Keras, numbers, lists and arrays.

A tensor or a variable gives a tensor; everything else gives an array of numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import byteps.numpy as arrays
from byteps.common.gradients.compression import Compressor, NoneCompressor
from byteps.common.operations.reduction import Average, ReduceOp
from byteps.common.session.process_sets import ProcessSet, global_process_set


class Values:
    """The operations, for one framework."""

    def __init__(
        self,
        tensors: ModuleType,
        tensor_of: Callable[[Any], Any],
        as_tensor: Callable[[Any], Any],
    ) -> None:
        """`tensors` exchanges tensors; `tensor_of` returns that of a variable or tensor, and None
        for other values; `as_tensor` makes a tensor of any value."""
        self._tensors = tensors
        self._tensor_of = tensor_of
        self._as_tensor = as_tensor

    def _of(self, value: Any) -> tuple[Any, Any]:
        """Return the module that exchanges the value, and what that takes."""
        tensor = self._tensor_of(value)
        return (arrays, value) if tensor is None else (self._tensors, tensor)

    def push_pull(self, value: Any, name: str | None = None, average: bool = True) -> Any:
        """Return the average, or the sum, of all ranks' values. Averages of integers round down.

        Example::

            mean = bps.push_pull(loss, name="loss")
        """
        module, value = self._of(value)
        return module.push_pull(value, average=average, name=name)

    def allreduce(
        self,
        value: Any,
        name: str | None = None,
        average: bool | None = None,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        op: ReduceOp | None = None,
        compression: Compressor | type[Compressor] = NoneCompressor,
        process_set: ProcessSet = global_process_set,
    ) -> Any:
        """Return the combination of all ranks' values: their average, or what `op` says.

        `average` is deprecated: use `op`.

        Example::

            largest = bps.allreduce(loss, name="largest loss", op=bps.Max)
        """
        module, value = self._of(value)
        more: dict[str, Any] = {}
        if compression is not NoneCompressor:
            module, value = self._tensors, self._as_tensor(value)
            more["compression"] = compression
        return module.allreduce(
            value,
            average=average,
            name=name,
            op=op,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
            process_set=process_set,
            **more,
        )

    def allgather(
        self, value: Any, name: str | None = None, process_set: ProcessSet = global_process_set
    ) -> Any:
        """Return the values of all ranks, joined along the first dimension in rank order.

        Example::

            predictions = bps.allgather(predictions, name="predictions")
        """
        module, value = self._of(value)
        return module.allgather(value, name=name, process_set=process_set)

    def broadcast(
        self,
        value: Any,
        root_rank: int,
        name: str | None = None,
        process_set: ProcessSet = global_process_set,
    ) -> Any:
        """Return the root's value, bit for bit.

        Example::

            epoch = int(bps.broadcast(epoch, root_rank=0, name="epoch"))
        """
        module, value = self._of(value)
        return module.broadcast(value, root_rank=root_rank, name=name, process_set=process_set)

    def alltoall(
        self,
        value: Any,
        splits: Any = None,
        name: str | None = None,
        process_set: ProcessSet = global_process_set,
    ) -> Any:
        """Give each rank some rows, and return those that came, in the order of ranks.

        `splits` says how many rows each rank gets; then the number of rows from each rank is
        returned as well.

        Example::

            rows = bps.alltoall(rows, name="rows")
        """
        module, value = self._of(value)
        return module.alltoall(value, splits=splits, name=name, process_set=process_set)

    def reducescatter(
        self,
        value: Any,
        name: str | None = None,
        op: ReduceOp = Average,
        process_set: ProcessSet = global_process_set,
    ) -> Any:
        """Return this rank's rows of the combination of all ranks' values.

        Example::

            mine = bps.reducescatter(rows, name="rows", op=bps.Sum)
        """
        module, value = self._of(value)
        return module.reducescatter(value, name=name, op=op, process_set=process_set)
