"""CrossBarrier: the next forward pass begins while parameters are still being updated.

`step` does not wait. A thread takes the averaged gradients, those of the first layers first, and
steps one parameter at a time; each module waits for its own parameters before its forward. The
weights after each step are those of the plain loop.

Example::

    import byteps.torch.cross_barrier as bps
    bps.init()
    optimizer = bps.CrossBarrier(model, torch.optim.Adam(model.parameters()))
    for batch in batches:
        model(batch).sum().backward()
        optimizer.step()
    optimizer.synchronize()            # before weights are read other than by a forward pass
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, cast

import torch

from byteps.common.errors import MismatchError
from byteps.common.gradients.compression import check_compression
from byteps.common.gradients.exchange_options import ExchangeOptions, check_passes
from byteps.common.gradients.gradient_exchange import Entry, GradientExchange, Question
from byteps.common.gradients.object_names import OptimizerNames
from byteps.common.gradients.updater import Update, Updater
from byteps.common.gradients.usage import NO_GRADIENT
from byteps.common.operations.barriers import wait_before_join
from byteps.common.session import default
from byteps.common.session.default import init, local_rank, local_size, rank, shutdown, size
from byteps.torch.compression import Compression, Compressor
from byteps.torch.forward_hooks import watch_reading
from byteps.torch.gradient_hooks import watch_gradient
from byteps.torch.gradients import TorchGradients
from byteps.torch.initial_state import broadcast_optimizer_state, broadcast_parameters
from byteps.torch.ops import poll, synchronize
from byteps.torch.optimizer_classes import extended, shared

__all__ = [
    "Compression",
    "CrossBarrier",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "init",
    "local_rank",
    "local_size",
    "poll",
    "rank",
    "shutdown",
    "size",
    "synchronize",
]


def CrossBarrier(  # noqa: N802  a name of the contract
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
    compression: Compressor | type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
    num_steps: int = 10**6,
) -> CrossingOptimizer:
    """Return an optimizer like `optimizer` whose `step` goes on during the next forward pass.

    It has the optimizer's class as base, shares its groups and state, and works with any optimizer
    that treats each parameter on its own (not LBFGS). Gradients are cleared after each update.
    Steps from the `num_steps`-th on wait until all parameters are updated.

    Weights are up to date for every module's forward, `state_dict` and `load_state_dict`, and for
    `join`; call `synchronize()` before reading them in another way. A module also waits for modules
    inside it that it never calls, such as a ParameterList. What fails in the background is raised
    by the next forward, `step` or `synchronize`. Gradients cannot be clipped or unscaled: they are
    averages only when the update happens. Sparse ones are combined by row.

    Example::

        optimizer = CrossBarrier(model, torch.optim.SGD(model.parameters(), lr=0.1))
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError(
            "CrossBarrier steps one parameter at a time, which torch.optim.LBFGS cannot do; use "
            "DistributedOptimizer."
        )
    check_passes(backward_passes_per_step)
    check_compression(compression)
    named = list(model.named_parameters() if named_parameters is None else named_parameters)
    named += _nameless(optimizer, named)
    options = ExchangeOptions(compression, backward_passes_per_step)
    exchange = GradientExchange(options, TorchGradients(options), OptimizerNames())
    for name, parameter in named:
        exchange.add(parameter, name)
    crossing = extended(optimizer, CrossingOptimizer)
    crossing._base = type(optimizer)
    crossing._updater = Updater("byteps-cross-barrier")
    crossing._exchange = exchange
    crossing._steps_left = num_steps
    weakref.finalize(crossing, crossing._updater.close)
    if default.size() > 1:
        crossing._watch(model)
    return crossing


def _nameless(
    optimizer: torch.optim.Optimizer, named: list[tuple[str, torch.Tensor]]
) -> list[tuple[str, torch.Tensor]]:
    """Return the optimizer's parameters that have no name, with one."""
    known = {parameter for _, parameter in named}
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    rest = [p for p in parameters if p not in known]
    return [(f"push_pull.noname.{len(known) + i}", p) for i, p in enumerate(rest)]


def _as_now(option: Any) -> Any:
    """Return an option that stays as it is: schedulers change tensors in place."""
    return option.clone() if isinstance(option, torch.Tensor) else option


class CrossingOptimizer(torch.optim.Optimizer):
    """What CrossBarrier adds to the class of the optimizer. Not made by itself."""

    _base: type
    _updater: Updater
    _exchange: GradientExchange[torch.Tensor]
    _steps_left: int

    def step(self, closure: Callable[[], Any] | None = None, **more: Any) -> Any:
        """Let the parameters be updated as their averages arrive.

        Other arguments are the optimizer's own.
        """
        loss = closure() if closure is not None else None
        if default.size() == 1:
            cast(Any, super()).step(**more)
            cast(Any, super()).zero_grad()
            return loss
        self._updater.wait()  # for parameters that forward did not use
        self._call_hooks("_optimizer_step_pre_hooks")
        exchange = self._exchange
        trained = [p for g in self.param_groups for p in g["params"] if p.requires_grad]
        question = exchange.ask([exchange.entry(parameter) for parameter in trained])
        updates = []
        for group in self.param_groups:
            options = {key: _as_now(value) for key, value in group.items() if key != "params"}
            for parameter in group["params"]:
                if parameter.requires_grad:
                    updates.append(self._prepare(parameter, group, options, question, more))
        wait_before_join(self._updater)
        self._updater.submit([update for _, update in sorted(updates, key=lambda pair: pair[0])])
        self._call_hooks("_optimizer_step_post_hooks")
        self._steps_left -= 1
        if self._steps_left <= 0:
            self._updater.wait()
            self._updater.close()
        return loss

    # torch wraps the `step` of a class to call hooks; this one calls them itself.
    step.hooked = True  # type: ignore[attr-defined]

    def _prepare(
        self,
        parameter: torch.Tensor,
        group: dict[str, Any],
        options: dict[str, Any],
        question: Question[torch.Tensor],
        more: dict[str, Any],
    ) -> tuple[int, Update]:
        """Send the gradient if backward did not; return its place in the model, and its update with
        the options of now.

        What this rank did not use is sent by the update if it is not known yet whether another rank
        did, and how its gradient is stored.
        """
        exchange = self._exchange
        entry = exchange.entry(parameter)
        entry.passes = entry.unit.ready = 0
        if not entry.unit.flights and not exchange.is_unknown(entry.unit):
            exchange.send(entry.unit)

        def apply() -> None:
            self._receive(entry, question)
            if not entry.is_used:  # as if alone
                return
            single = self._single(parameter, options)
            single.step(**more)
            parameter.grad = None
            # Some optimizers count in their groups.
            changed = single.param_groups[0]
            group.update({k: v for k, v in changed.items() if v is not options.get(k, v)})

        return -entry.priority, Update(parameter, apply)

    def _receive(self, entry: Entry[torch.Tensor], question: Question[torch.Tensor]) -> None:
        """Wait for the average; there is none if the entry turns out not to be used."""
        exchange, unit = self._exchange, entry.unit
        try:
            changed = question.learn()
            if entry.is_used and not unit.flights:
                exchange.send(unit)
        except MismatchError:
            exchange.forget(unit)
            raise
        finally:
            exchange.receive(unit)
            entry.sent = None
            entry.own_storage = NO_GRADIENT
        if changed is not None:
            raise changed

    def _single(self, parameter: torch.Tensor, options: dict[str, Any]) -> Any:
        """Return an optimizer of one parameter that shares this one's state."""
        single: Any = object.__new__(self._base)
        single.__dict__.update({k: v for k, v in self.__dict__.items() if k != "step"})
        single._optimizer_step_pre_hooks = OrderedDict()
        single._optimizer_step_post_hooks = OrderedDict()
        single.param_groups = [{**options, "params": [parameter]}]
        return single

    def _call_hooks(self, kind: str) -> None:
        for hook in list(getattr(self, kind, {}).values()):
            hook(self, (), {})

    def synchronize(self) -> None:
        """Block until all parameters are updated; raise what went wrong in the background."""
        self._updater.wait()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear gradients that are not on their way; those are cleared after their update."""
        for group in self.param_groups:
            for parameter in group["params"]:
                entry = self._exchange.entry(parameter)
                if entry.unit.flights or self._updater.is_pending(parameter):
                    continue
                entry.passes = entry.unit.ready = 0
                entry.sent = None
                if parameter.grad is None:
                    continue
                if set_to_none:
                    parameter.grad = None
                else:
                    parameter.grad.detach_().zero_()

    def state_dict(self) -> dict[str, Any]:
        """Return the state after the last step."""
        self._updater.wait()
        return cast("dict[str, Any]", cast(Any, super()).state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Replace the state after the last step, also that of the optimizer that this one was made
        of."""
        self._updater.wait()
        with shared(self):
            cast(Any, super()).load_state_dict(state_dict)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refuse: the names of the parameters are fixed."""
        raise ValueError(
            "CrossBarrier cannot take more parameters; add them to the optimizer first."
        )

    def _watch(self, model: torch.nn.Module) -> None:
        """Send gradients as backward finishes them; let modules wait for their parameters."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.requires_grad:
                    watch_gradient(parameter, self, CrossingOptimizer._on_gradient)
        watch_reading(model, self, lambda this, parameters: this._updater.wait(parameters))

    def _on_gradient(self, parameter: torch.Tensor) -> None:
        exchange, entry = self._exchange, self._exchange.entry(parameter)
        if self._updater.is_pending(parameter):
            raise AssertionError(
                f"{entry.unit.call.name} was used before its update was complete: it takes part in "
                "a forward pass other than that of its own module. Call synchronize() after step()."
            )
        if exchange.count(entry):
            exchange.send(entry.unit)
