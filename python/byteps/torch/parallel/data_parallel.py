"""DistributedDataParallel: gradients are the averages of all ranks when backward returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from byteps.common.errors import PeerLostError
from byteps.common.gradients.compression import check_compression
from byteps.common.gradients.exchange_options import ExchangeOptions
from byteps.common.gradients.object_names import ModelNames
from byteps.common.gradients.step_exchange import StepExchange
from byteps.common.operations.barriers import ranks_who_meet
from byteps.common.operations.call import Call
from byteps.common.session import default
from byteps.common.types import Operation
from byteps.torch.compile_guard import untraced
from byteps.torch.compression import Compression, Compressor
from byteps.torch.gradient_hooks import watch_gradient
from byteps.torch.gradients import TorchGradients
from byteps.torch.initial_state import broadcast_parameters, start_copies


class DistributedDataParallel(torch.nn.Module):
    """A module whose gradients are averaged over all ranks during backward.

    Example::

        bps.init()
        model = DistributedDataParallel(model)
        loss = model(batch).sum()
        loss.backward()            # gradients are averages now
        optimizer.step()

    All ranks start from rank 0's parameters and buffers, and take its buffers again before each
    forward; once it is lost, those of the lowest rank that is left. Parameters that a rank did not
    use count as zero there; those that nobody used keep the gradient that they had. Parameters must
    not be added, or change `requires_grad`, afterwards; gradients must be dense;
    `torch.autograd.grad` is not averaged, and neither is checkpointing with `use_reentrant=True`.
    Copies, also pickled ones, exchange for themselves; they start from what was copied.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        device_ids: Sequence[Any] | None = None,
        broadcast_buffers: bool = True,
        compression: Compressor | type[Compressor] = Compression.none,
    ) -> None:
        """Wrap `module`. `device_ids`: None, or the one device that it is on."""
        super().__init__()
        if device_ids is not None and len(device_ids) != 1:
            raise AssertionError(
                f"device_ids has {len(device_ids)} entries; a process has one replica: give one "
                "device, or None."
            )
        check_compression(compression)
        self.module = module
        self.device_ids = None if device_ids is None else list(device_ids)
        self.broadcast_buffers = broadcast_buffers
        self.require_backward_grad_sync = True
        self.compression = compression
        self._begin(ModelNames(take_now=True))
        names = sorted(entry.name for entry in self._exchange.entries())
        kinds = [f"{kind}.{self._names.prefix}" for kind in ("Gradient", "Parameter")]
        default.declare_for(self, [kind + name for kind in kinds for name in names])
        prefix, state = f"Parameter.{self._names.prefix}", module.state_dict()
        self._copy_from_root(lambda root: broadcast_parameters(state, root, prefix))

    def _begin(self, names: ModelNames) -> None:
        """Watch the gradients."""
        self._root = 0
        self._names = names
        options = ExchangeOptions(self.compression)
        self._exchange = StepExchange(options, TorchGradients(options), names)
        self._in_backward = False
        self._owed = False
        for name, parameter in self.module.named_parameters():
            if parameter.requires_grad:
                self._exchange.add(parameter, name)
                self._exchange.watch(parameter)
                watch_gradient(parameter, self, DistributedDataParallel._on_gradient)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what belongs to the parameters of this object, and to its session."""
        own = ("_names", "_root", "_exchange", "_in_backward", "_owed")
        return {key: value for key, value in self.__dict__.items() if key not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Become a copy: its parameters are watched, and it gets a name with its first use.

        Not now: some rank may copy, or load, a model only to look at it.
        """
        super().__setstate__(state)
        self._begin(ModelNames(take_now=False))

    def __copy__(self) -> Any:
        """Refuse: two models would exchange the gradients of the same parameters."""
        raise TypeError("a shallow copy would have the same parameters; use copy.deepcopy.")

    @untraced
    def _follow_session(self) -> None:
        """In a new session, have names there, and begin anew, with rank 0, which may be back."""
        if self._exchange.follow_session():
            self._root = 0
            self._exchange.abandon()
            self._in_backward = self._owed = False

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """Run the module, on the buffers of one rank."""
        if self._in_backward:  # an exception broke it off; the others wait for the rest
            self._finish()
        if self.require_backward_grad_sync:
            if torch.is_grad_enabled():
                self._follow_session()
            self._owed = torch.is_grad_enabled()
            if self.broadcast_buffers:
                self._broadcast_buffers()
        return self.module(*inputs, **options)

    @untraced
    def _broadcast_buffers(self) -> None:
        buffers = list(self.module.named_buffers())
        if buffers and default.size() > 1:
            self._follow_session()
            prefix = f"Buffer.{self._names.prefix}"
            self._copy_from_root(
                lambda root: default.pending().synchronize_all(start_copies(buffers, root, prefix))
            )

    def _copy_from_root(self, copy: Callable[[int], object]) -> None:
        """Copy from the lowest rank that is left; which one that is, a failure tells.

        It is the same failure on all ranks. They meet behind it, and the root does not come.
        """
        while True:
            try:
                copy(self._root)
                return
            except PeerLostError:
                name = f"{self._names.prefix}DistributedDataParallel.left"
                ranks = ranks_who_meet(Call(Operation.BARRIER, name))
                if self._root in ranks:
                    raise
                self._root = ranks[0]

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Accumulate gradients without an exchange.

        Example::

            with model.no_sync():
                model(first).sum().backward()
            model(second).sum().backward()     # averages both
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @untraced
    def synchronize(self) -> None:
        """Take part in the averaging that this rank's backward did not do.

        Needed only on a rank whose loss did not depend on any parameter, once for each backward of
        the others; does nothing otherwise.
        """
        if self._owed and default.size() > 1:
            self._finish()

    def _on_gradient(self, parameter: torch.Tensor) -> None:
        if not self.require_backward_grad_sync or default.size() == 1:
            return
        if not self._in_backward:
            self._follow_session()
            self._in_backward = True
            # Runs at the end of this backward, in the thread that called it.
            engine = torch.autograd.Variable._execution_engine
            engine.queue_callback(self._finish)
        if self._exchange.entry(parameter).passes:
            raise AssertionError(
                f"Gradient.{self._exchange.entry(parameter).name} was computed twice in one "
                "backward; use checkpointing with use_reentrant=False."
            )
        self._exchange.on_gradient(parameter)

    @untraced
    def _finish(self) -> None:
        """Send what was not used, wait for everything."""
        self._follow_session()
        if not (self._in_backward or self._owed):  # that was in another session
            return
        self._in_backward = self._owed = False
        self._exchange.finish()
