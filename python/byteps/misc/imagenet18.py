"""Mixed precision by hand: gradients in float16, weights that are stepped in float32."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from byteps.common.gradients.exchange_options import ExchangeOptions
from byteps.common.operations.reduction import Sum
from byteps.common.session import default
from byteps.torch.compression import Compression, Compressor
from byteps.torch.gradients import exchange_of_optimizer, watch
from byteps.torch.initial_state import broadcast_parameters as _broadcast_parameters
from byteps.torch.optimizer import AveragingOptimizer
from byteps.torch.optimizer import DistributedOptimizer as _DistributedOptimizer

__all__ = ["DistributedOptimizer", "broadcast_parameters"]


def broadcast_parameters(params: Any, root_rank: int) -> None:
    """Overwrite tensors with the root's; see byteps.torch.broadcast_parameters.

    Example::

        broadcast_parameters(model.state_dict(), root_rank=0)
    """
    _broadcast_parameters(params, root_rank)


def DistributedOptimizer(  # noqa: N802  a name of the contract
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
    compression: Compressor | type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
    half: bool = False,
    model: torch.nn.Module | None = None,
    fp16_params: Sequence[torch.Tensor] | None = None,
    fp32_params: Sequence[torch.Tensor] | None = None,
    loss_scale: float = 1024,
) -> AveragingOptimizer | HalfOptimizer:
    """Return an optimizer that averages gradients over all ranks; with `half`, in float16.

    Then `optimizer` is one of `fp32_params`, the masters of the model's `fp16_params`, and the loss
    must be multiplied by `loss_scale`. `model` is accepted for programs written for the original.

    Example::

        masters = [p.detach().float() for p in model.parameters()]
        inner = torch.optim.SGD(masters, lr=0.1)
        optimizer = DistributedOptimizer(
            inner, model.named_parameters(), half=True,
            fp16_params=list(model.parameters()), fp32_params=masters,
        )
        (loss * 1024).backward()
        optimizer.step()
    """
    del model
    if not half:
        return _DistributedOptimizer(
            optimizer, named_parameters, compression, backward_passes_per_step
        )
    if fp16_params is None or fp32_params is None or len(fp16_params) != len(fp32_params):
        raise ValueError("half=True needs fp16_params and fp32_params, one for each other.")
    options = ExchangeOptions(compression, backward_passes_per_step, Sum)
    options.check()
    return HalfOptimizer(
        optimizer,
        dict(named_parameters or ()),
        options,
        list(zip(fp16_params, fp32_params, strict=True)),
        loss_scale,
    )


class HalfOptimizer:
    """Steps float32 masters on sums of float16 gradients. Other attributes are the optimizer's."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        named: dict[str, torch.Tensor],
        options: ExchangeOptions,
        pairs: list[tuple[torch.Tensor, torch.Tensor]],
        loss_scale: float,
    ) -> None:
        self._optimizer = optimizer
        self._pairs = pairs
        self._loss_scale = loss_scale
        self._exchange = exchange_of_optimizer(options)
        names = {parameter: name for name, parameter in named.items()}
        for parameter, _ in pairs:
            name = names.get(parameter) or self._exchange.next_name()
            self._exchange.add(parameter, name)
        if self._exchange.is_active:
            for parameter, _ in pairs:
                if parameter.requires_grad:
                    watch(self._exchange, parameter)

    def step(
        self, closure: Callable[[], float] | None = None, wait_for_finish: bool = True
    ) -> float | None:
        """Wait for the gradients, step the masters, and write them back to the model.

        `wait_for_finish` is accepted for programs written for the original; it always waits.
        """
        del wait_for_finish
        loss = closure() if closure is not None else None
        if self._exchange.is_active:
            self._exchange.finish()
        factor = 1.0 / (self._loss_scale * default.size())
        with torch.no_grad():
            for parameter, master in self._pairs:
                if parameter.grad is not None:
                    master.grad = parameter.grad.to(master.dtype) * factor
            self._optimizer.step()
            for parameter, master in self._pairs:
                parameter.copy_(master)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of the model and of the masters."""
        self._exchange.discard()
        for parameter, _ in self._pairs:
            parameter.grad = None
        self._optimizer.zero_grad(set_to_none)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)
