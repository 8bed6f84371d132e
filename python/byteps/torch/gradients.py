"""Gradients on their way: sent one by one, averaged over all ranks, written back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from byteps.common import default
from byteps.common.errors import BytepsError
from byteps.torch.compression import Compressor
from byteps.torch.ops import push_pull_async_inplace, synchronize
from byteps.torch.sparse import SparseHandle, sparse_allreduce_async
from byteps.torch.usage import DENSE, SentGradient, zeros_of


@dataclass
class _Sent:
    """A gradient on its way, with what its own compression needs on the way back."""

    handle: int | SparseHandle
    gradient: SentGradient
    wire: torch.Tensor | None = None  # none of a sparse one
    context: object = None

    def number(self) -> int:
        """Return the handle as a number."""
        return self.handle.handle if isinstance(self.handle, SparseHandle) else self.handle


class GradientExchange:
    """Averages the gradients of named parameters. One thread at a time.

    The order of the names is the model's: the first is the most urgent.
    """

    def __init__(
        self,
        named_parameters: Iterable[tuple[str, torch.Tensor]],
        compression: Compressor | type[Compressor],
        prefix: str = "",
        ending: str = "",
    ) -> None:
        self.parameters: list[torch.Tensor] = []
        self.names: dict[torch.Tensor, str] = {}
        self._own_names: dict[torch.Tensor, str] = {}
        self._priorities: dict[torch.Tensor, int] = {}
        self._sent: dict[torch.Tensor, _Sent] = {}
        self._compression = compression
        for name, parameter in named_parameters:
            if parameter not in self._own_names:  # shared weights have the first of their names
                self._priorities[parameter] = -len(self.parameters)
                self.parameters.append(parameter)
                self._own_names[parameter] = name
        self.rename(prefix, ending)

    def rename(self, prefix: str = "", ending: str = "") -> None:
        """Let the names of all gradients begin and end so, from the next that is sent."""
        for parameter, name in self._own_names.items():
            self.names[parameter] = f"Gradient.{prefix}{name}{ending}"

    def is_sent(self, parameter: torch.Tensor) -> bool:
        """Return whether the gradient is on its way."""
        return parameter in self._sent

    def changed(self) -> list[torch.Tensor]:
        """Return the parameters whose gradients somebody changed while they were on their way."""
        return [p for p, sent in self._sent.items() if sent.gradient.is_changed()]

    def send_rest(self) -> None:
        """Send all that were not sent, and bring them into the order of the parameters."""
        for parameter in self.parameters:
            if parameter not in self._sent:
                self.send(parameter)
        self._sent = {parameter: self._sent[parameter] for parameter in self.parameters}

    def sent(self) -> list[torch.Tensor]:
        """Return the parameters whose gradients are on their way."""
        return list(self._sent)

    def send(self, parameter: torch.Tensor, layout: int = DENSE) -> None:
        """Start to average the gradient; zeros of the layout where this rank has none."""
        gradient = zeros_of(parameter, layout) if parameter.grad is None else parameter.grad
        if gradient.is_sparse:
            handle = sparse_allreduce_async(gradient, self.names[parameter])
            self._sent[parameter] = _Sent(handle, SentGradient(parameter))
            return
        before = SentGradient(parameter)
        compressed, context = self._compression.compress(gradient.detach())
        wire = compressed.contiguous()
        number = push_pull_async_inplace(
            wire, name=self.names[parameter], priority=self._priorities[parameter]
        )
        self._sent[parameter] = _Sent(number, before, wire, context)

    def receive(self, parameter: torch.Tensor) -> torch.Tensor:
        """Wait for the average and return it; it is in `parameter.grad` too if that is there."""
        sent = self._sent.pop(parameter)
        result: torch.Tensor = synchronize(sent.handle)
        if sent.wire is None:
            if parameter.grad is not None:
                parameter.grad = result
            return result
        average = self._compression.decompress(sent.wire, sent.context)
        if parameter.grad is None:
            return average
        if parameter.grad.data_ptr() != average.data_ptr():
            parameter.grad.detach().copy_(average)
        return parameter.grad

    def forget(self, parameter: torch.Tensor | None = None) -> None:
        """Do not wait for the gradient, or for any: other ranks may never send theirs."""
        for one in list(self._sent) if parameter is None else [parameter]:
            default.pending().abandon(self._sent.pop(one).number())

    def receive_all(self) -> dict[torch.Tensor, torch.Tensor]:
        """Wait for all, also after a failure; raise the first error, or return the averages."""
        averages, errors = {}, []
        for parameter in list(self._sent):
            try:
                averages[parameter] = self.receive(parameter)
            except BytepsError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return averages
