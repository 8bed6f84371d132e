"""DistributedOptimizer: any torch optimizer, stepping on gradients averaged over all ranks."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch

from byteps.common import default, environment
from byteps.common.errors import BytepsError
from byteps.torch.compression import Compression, Compressor
from byteps.torch.ops import push_pull_async_inplace, synchronize

_TOO_MANY_PASSES = (
    "Gradients were computed more than backward_passes_per_step times before call to step(). "
    "Increase backward_passes_per_step to accumulate gradients locally."
)


@dataclass
class _Submitted:
    """A gradient on its way."""

    handle: int
    wire: torch.Tensor
    context: object


class _Exchange:
    """Exchanges the gradients of some parameters: one push_pull per parameter and step."""

    def __init__(self, compression: type[Compressor], passes_per_step: int) -> None:
        self.compression = compression
        self.passes_per_step = passes_per_step
        self.submitted: dict[torch.Tensor, _Submitted] = {}
        self.names: dict[torch.Tensor, str] = {}
        self._priorities: dict[torch.Tensor, int] = {}
        self._passes_left: dict[torch.Tensor, int] = {}

    def add_name(self, parameter: torch.Tensor, name: str) -> None:
        """Name a parameter. The order of the calls is the model's: the first is most urgent."""
        self.names[parameter] = name
        self._priorities[parameter] = -len(self._priorities)

    def watch(self, parameter: torch.Tensor) -> None:
        """Send the parameter's gradient as soon as backward has finished it."""
        if parameter in self._passes_left:
            return
        if parameter not in self.names:
            self.add_name(parameter, f"push_pull.noname.{len(self._priorities)}")
        self._passes_left[parameter] = self.passes_per_step
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        register = cast(Any, parameter).register_post_accumulate_grad_hook
        register(self._on_gradient)

    def _on_gradient(self, parameter: torch.Tensor) -> None:
        if self._passes_left[parameter] <= 0:
            raise AssertionError(_TOO_MANY_PASSES)
        self._passes_left[parameter] -= 1
        if self._passes_left[parameter] == 0:
            self._submit(parameter)

    def _submit(self, parameter: torch.Tensor) -> None:
        if parameter.grad is None:  # unused in this step; the other ranks may have used it
            parameter.grad = torch.zeros_like(parameter)
        compressed, context = self.compression.compress(parameter.grad.detach())
        wire = compressed.contiguous()
        handle = push_pull_async_inplace(
            wire,
            average=True,
            name=f"Gradient.{self.names[parameter]}",
            priority=self._priorities[parameter],
        )
        self.submitted[parameter] = _Submitted(handle, wire, context)

    def finish(self) -> None:
        """Send what was not sent, wait for everything, write the averages back."""
        for parameter in self._passes_left:
            if parameter not in self.submitted:
                self._submit(parameter)
        self.reset_passes()
        submitted, self.submitted = self.submitted, {}
        _wait_for_all([item.handle for item in submitted.values()])
        for parameter, item in submitted.items():
            average = self.compression.decompress(item.wire, item.context)
            if parameter.grad is None:
                parameter.grad = average
            elif parameter.grad.data_ptr() != average.data_ptr():
                parameter.grad.detach().copy_(average)

    def reset_passes(self) -> None:
        """Expect `passes_per_step` backward passes again."""
        for parameter in self._passes_left:
            self._passes_left[parameter] = self.passes_per_step


def _wait_for_all(handles: list[int]) -> None:
    """Wait for every handle, also after a failure; raise the first error."""
    errors: list[Exception] = []
    for handle in handles:
        try:
            synchronize(handle)
        except BytepsError as error:
            errors.append(error)
    if errors:
        raise errors[0]


class _DistributedMixin:
    """What DistributedOptimizer adds to the class of the optimizer."""

    _exchange: _Exchange
    _should_synchronize: bool
    _synchronized: bool
    param_groups: list[dict[str, Any]]

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Exchange gradients once in `passes` backward passes."""
        self._exchange.passes_per_step = passes
        self._exchange.reset_passes()

    def synchronize(self) -> None:
        """Wait until the gradients are the averages of all ranks."""
        if default.size() > 1:
            self._watch_parameters()
            self._exchange.finish()
        self._synchronized = True

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Make `step` use the gradients as they are, for instance clipped after `synchronize`."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Wait for the averaged gradients, then step."""
        wrapped = cast(Any, super())
        if not self._should_synchronize:
            self._synchronized = False
            return cast("float | None", wrapped.step(closure))
        if closure is not None:
            return cast("float | None", wrapped.step(self._synchronizing(closure)))
        if self._synchronized and not self._exchange.submitted and default.size() > 1:
            warnings.warn(
                "step() exchanges gradients again that synchronize() has already averaged; call it "
                "inside 'with optimizer.skip_synchronize():'.",
                stacklevel=2,
            )
        self.synchronize()
        self._synchronized = False
        return cast("float | None", wrapped.step())

    # torch wraps the `step` of a class to call hooks; that of the base class is wrapped already.
    step.hooked = True  # type: ignore[attr-defined]

    def _synchronizing(self, closure: Callable[[], float]) -> Callable[[], float]:
        """Return the closure with the exchange after it: it computes the gradients anew."""

        def compute() -> float:
            loss = closure()
            self.synchronize()
            self._synchronized = False
            return loss

        return compute

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients; none of them may be on its way."""
        if self._exchange.submitted:
            raise AssertionError(
                "zero_grad() was called while gradients are being exchanged; call step() or "
                "synchronize() first."
            )
        cast(Any, super()).zero_grad(set_to_none)

    def _watch_parameters(self) -> None:
        """Watch all parameters that are trained, also those unfrozen or added meanwhile."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.requires_grad:
                    self._exchange.watch(parameter)


def DistributedOptimizer(  # noqa: N802  a name of the contract
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
    compression: type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
) -> Any:
    """Return an optimizer like `optimizer` that averages gradients over all ranks.

    Its class has the same name and derives from the optimizer's; it shares the parameter groups
    and the state. Gradients are sent during backward, those near the input with the highest
    urgency. All ranks must construct their optimizers in the same order.
    """
    if environment.async_training():
        raise NotImplementedError(
            "BYTEPS_ENABLE_ASYNC asks for asynchronous training, which this version does not have; "
            "unset it on all workers and servers."
        )
    session = default.current()
    exchange = _Exchange(compression, backward_passes_per_step)
    _name_parameters(exchange, optimizer, _checked(named_parameters))
    for prefix in ("Gradient", "Parameter"):
        for name in sorted(exchange.names.values()):
            session.declare(f"{prefix}.{name}")
    base = type(optimizer)
    derived = type(base.__name__, (_DistributedMixin, base), {"__module__": base.__module__})
    distributed: Any = object.__new__(derived)
    # Everything is shared but a `step` that a learning-rate scheduler bound to the old object.
    distributed.__dict__.update({k: v for k, v in optimizer.__dict__.items() if k != "step"})
    distributed._exchange = exchange
    distributed._should_synchronize = True
    distributed._synchronized = False
    if session.size > 1:
        distributed._watch_parameters()
    return distributed


def _checked(
    named_parameters: Iterable[tuple[str, torch.Tensor]] | None,
) -> list[tuple[str, torch.Tensor]]:
    named = list(named_parameters or [])
    if not all(_is_name_and_parameter(item) for item in named):
        raise ValueError(
            "named_parameters should be a sequence of tuples (name, parameter), usually produced "
            "by model.named_parameters()."
        )
    counts = Counter(name for name, _ in named)
    duplicates = sorted(name for name, count in counts.items() if count > 1)
    if duplicates:
        raise ValueError(
            "Parameter names in named_parameters must be unique. "
            f"Found duplicates: {', '.join(duplicates)}"
        )
    return named


def _is_name_and_parameter(item: object) -> bool:
    return (
        isinstance(item, tuple)
        and len(item) == 2
        and isinstance(item[0], str)
        and isinstance(item[1], torch.Tensor)
    )


def _name_parameters(
    exchange: _Exchange,
    optimizer: torch.optim.Optimizer,
    named_parameters: list[tuple[str, torch.Tensor]],
) -> None:
    """Name the given parameters, then those of the optimizer that have no name."""
    for name, parameter in named_parameters:
        exchange.add_name(parameter, name)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter not in exchange.names:
                exchange.add_name(parameter, f"push_pull.noname.{len(exchange.names)}")
