"""Gradients of torch's parameters, as the exchange of gradients sees them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch

from byteps.common.gradients.exchange_options import ExchangeOptions
from byteps.common.gradients.gradient_exchange import Entry, Unit
from byteps.common.gradients.object_names import OptimizerNames
from byteps.common.gradients.step_exchange import StepExchange
from byteps.common.gradients.usage import DENSE, NO_GRADIENT
from byteps.torch.gradient_hooks import watch_gradient
from byteps.torch.grouped_allreduce import start_grouped_allreduce
from byteps.torch.memory import bring
from byteps.torch.sparse import sparse_allreduce_async
from byteps.torch.submit import exchange


class SentGradient:
    """A parameter's gradient as it was when it was sent, and what it travels as."""

    __slots__ = ("_gradient", "_parameter", "_version", "context", "wire")

    def __init__(self, parameter: torch.Tensor) -> None:
        """Note the gradient that the parameter has now; there may be none."""
        self._parameter = parameter
        self._gradient = parameter.grad
        self._version = 0 if self._gradient is None else self._gradient._version
        self.wire: torch.Tensor | None = None  # none of a sparse one
        self.context: object = None  # what its compression needs on the way back

    def is_changed(self) -> bool:
        """Return whether somebody wrote to it, or put another in its place.

        What writes without telling autograd, through `grad.data`, is not seen. REQUIRES: the
        average has not been written.
        """
        current = self._parameter.grad
        if self._gradient is None or current is None:
            return False
        return current is not self._gradient or current._version != self._version


class TorchGradients:
    """What the exchange must know of torch."""

    def __init__(self, options: ExchangeOptions) -> None:
        self._options = options

    def is_parameter(self, thing: object) -> bool:
        """Return whether it is a tensor."""
        return isinstance(thing, torch.Tensor)

    def is_trained(self, parameter: torch.Tensor) -> bool:
        """Return whether backward computes its gradient now."""
        return parameter.requires_grad

    def kind(self, parameter: torch.Tensor) -> Hashable:
        """Return the type of its elements."""
        return parameter.dtype

    def storage(self, parameter: torch.Tensor) -> int:
        """Return how this rank's gradient is stored."""
        gradient = parameter.grad
        if gradient is None:
            return NO_GRADIENT
        if gradient.is_sparse and not self._options.sparse_as_dense:
            return DENSE + gradient.sparse_dim()
        return DENSE

    def start(self, unit: Unit[torch.Tensor], name_of: Callable[[str], str]) -> None:
        """Start to exchange the gradients of a unit."""
        options = self._options
        wires: list[torch.Tensor] = []
        dense: list[Entry[torch.Tensor]] = []
        for entry in unit.entries:
            gradient = self._gradient_of(entry)
            sent = SentGradient(entry.parameter)
            if gradient.is_sparse:
                entry.sent = sent
                name, ranks = name_of(entry.name), options.process_set
                started = sparse_allreduce_async(gradient, name, options.op, ranks)
                unit.flights.append((started.handle, [entry]))
                continue
            wire, sent.context = options.compression.compress(gradient)
            wires.append(wire)
            if entry.parameter.requires_grad:
                sent.wire = wire
                entry.sent = sent
                dense.append(entry)
        if len(unit.entries) == 1 and wires:
            unit.flights.append((exchange(unit.call, wires[0], wires[0]), dense))
        elif wires:
            unit.flights.append((start_grouped_allreduce(unit.call, wires, wires), dense))

    def _gradient_of(self, entry: Entry[torch.Tensor]) -> torch.Tensor:
        parameter = entry.parameter
        gradient = parameter.grad
        if not parameter.requires_grad:  # frozen meanwhile: it only keeps its place in a group
            return torch.zeros_like(parameter)
        if gradient is None:  # unused in this step; the other ranks may have used it
            return zeros_of(parameter, entry.storage)
        if gradient.is_sparse:
            if not self._options.sparse_as_dense:
                return gradient
            gradient = gradient.to_dense()
            if not self._options.sparse_results:
                parameter.grad = gradient
        return gradient.detach()

    def write_back(self, entry: Entry[torch.Tensor], result: Any) -> None:
        """Put an average into the gradient of its parameter."""
        parameter, sent = entry.parameter, entry.sent
        entry.sent = None
        if parameter.grad is None and not entry.is_used:  # nobody used it: as if alone
            return
        if sent.wire is None:
            parameter.grad = result
            return
        average = self._options.compression.decompress(sent.wire, sent.context)
        if self._options.sparse_results:
            rows = 1 if parameter.grad is None else parameter.grad.sparse_dim()
            parameter.grad = average.to_sparse(rows)
        elif parameter.grad is None:
            parameter.grad = average
        else:
            put_back(average, parameter.grad)

    def at_end_of_backward(self, function: Callable[[], None]) -> None:
        """Call it when the backward that runs now ends, in the thread that called that."""
        torch.autograd.Variable._execution_engine.queue_callback(function)


def put_back(average: torch.Tensor, gradient: torch.Tensor) -> None:
    """Let a gradient be its average, which has its memory already unless it was compressed."""
    if gradient.data_ptr() != average.data_ptr():
        bring(average, gradient)


def zeros_of(parameter: torch.Tensor, storage: int) -> torch.Tensor:
    """Return a gradient of zeros, stored as other ranks' gradients are."""
    if storage <= DENSE:
        return torch.zeros_like(parameter)
    dimensions, shape = storage - DENSE, parameter.shape
    indices = torch.empty((dimensions, 0), dtype=torch.int64, device=parameter.device)
    rows = torch.empty((0, *shape[dimensions:]), dtype=parameter.dtype, device=parameter.device)
    return torch.sparse_coo_tensor(indices, rows, shape, is_coalesced=True, check_invariants=False)


def exchange_of_optimizer(options: ExchangeOptions) -> StepExchange[torch.Tensor]:
    """Return the exchange of an optimizer's gradients; see `watch`."""
    names = OptimizerNames(options.process_set)
    return StepExchange(options, TorchGradients(options), names)


def watch(exchange: StepExchange[torch.Tensor], parameter: torch.Tensor) -> None:
    """Exchange the parameter's gradient as soon as backward has finished it."""
    if exchange.watch(parameter):
        watch_gradient(parameter, exchange, StepExchange.on_gradient)
