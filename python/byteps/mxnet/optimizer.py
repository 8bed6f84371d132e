"""DistributedOptimizer: any optimizer of MXNet, on gradients averaged over all ranks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mxnet as mx

from byteps.common.gradients.exchange_options import ExchangeOptions
from byteps.common.operations.reduction import Average
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.mxnet.compression import Compression
from byteps.mxnet.errors import raises_mxnet_errors
from byteps.mxnet.gradients import Gradients


class AveragingOptimizer:
    """What DistributedOptimizer adds to the class of the optimizer. Not made by itself."""

    __slots__ = ("_gradients", "_is_averaged")

    _gradients: Gradients
    _is_averaged: bool  # the gradients of the update that runs now

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Average the gradient, then update; one weight, or lists of several."""
        with self._averaged(index, grad):
            super().update(index, weight, grad, state)  # type: ignore[misc]

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Average the gradient, then update; one weight, or lists of several."""
        with self._averaged(index, grad):
            super().update_multi_precision(index, weight, grad, state)  # type: ignore[misc]

    @contextmanager
    def _averaged(self, index: Any, grad: Any) -> Iterator[None]:
        """Average once, also where one kind of update is made of the other."""
        is_outer = not self._is_averaged
        if is_outer and self._gradients.is_active:
            self._average(index, grad)
        self._is_averaged = True
        try:
            yield
        finally:
            self._is_averaged = not is_outer

    @raises_mxnet_errors
    def _average(self, index: Any, grad: Any) -> None:
        indices, gradients = (
            (index, grad) if isinstance(index, (list, tuple)) else ([index], [grad])
        )
        self._gradients.average(
            [(i, _priority(i), gradient) for i, gradient in zip(indices, gradients, strict=True)]
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Save as the optimizer that this one was made of: it loads without byteps."""
        del protocol  # the first holds no class of the object against another's
        return undistributed(self).__reduce_ex__(1)


def _priority(index: Any) -> int:
    return -index if isinstance(index, int) else 0


def undistributed(optimizer: Any) -> Any:
    """Return the optimizer without what DistributedOptimizer has added; both share everything."""
    if not isinstance(optimizer, AveragingOptimizer):
        return optimizer
    plain: Any = object.__new__(type(optimizer).__mro__[2])
    plain.__dict__ = optimizer.__dict__
    return plain


@raises_mxnet_errors
def DistributedOptimizer(  # noqa: N802  a name of the contract
    optimizer: mx.optimizer.Optimizer,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return an optimizer like `optimizer` that averages gradients over all ranks.

    Its class has the same name and derives from the optimizer's; both objects share everything. It
    is for the Module interface and for own loops; with Gluon use DistributedTrainer. It waits for
    nothing: the engine updates a weight when its average is there. `gradient_predivide_factor`
    divides before the ranks are added up, and takes the rest of the average after. `num_groups`
    makes gradients travel together that MXNet updates together. All ranks must construct their
    optimizers in the same order.

    Example::

        optimizer = mx.optimizer.create("sgd", learning_rate=0.1, rescale_grad=1 / batch_size)
        optimizer = bps.DistributedOptimizer(optimizer)
        module.fit(data, optimizer=optimizer, kvstore=None)
    """
    if isinstance(optimizer, AveragingOptimizer):
        raise ValueError("the optimizer is distributed already; wrap the one it was made of.")
    options = ExchangeOptions(
        Compression.none,
        op=Average,
        predivide_factor=gradient_predivide_factor,
        process_set=process_set,
    )
    gradients = Gradients(options, num_groups)
    base = type(optimizer)
    derived = type(
        base.__name__,
        (AveragingOptimizer, base),
        {"__module__": base.__module__, "__doc__": base.__doc__},
    )
    distributed: Any = object.__new__(derived)
    distributed.__dict__ = optimizer.__dict__
    distributed._gradients = gradients
    distributed._is_averaged = False
    return distributed
