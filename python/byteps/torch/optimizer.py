"""DistributedOptimizer: any torch optimizer, stepping on gradients averaged over all ranks."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch

from byteps.common import default, environment
from byteps.common.exchange_options import ExchangeOptions, is_whole
from byteps.common.process_sets import ProcessSet, global_process_set
from byteps.common.reduction import Average, ReduceOp
from byteps.torch.compression import Compression, Compressor
from byteps.torch.exchange import Exchange
from byteps.torch.gradient_hooks import shared
from byteps.torch.submit import finished

# Where torch's gradient scalers look at the groups, to divide the gradients in them.
_UNSCALING = "_unscale_grads_"


class _DistributedMixin:
    """What DistributedOptimizer adds to the class of the optimizer."""

    _exchange: Exchange
    _should_synchronize: bool
    _synchronized: bool
    _check_every: int  # steps; 0 never
    _steps: int

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The parameter groups. Looking at them averages the gradients first, when all passes of a
        step were made.

        So what works on an optimizer's gradients finds the averages. While they are accumulated
        anybody may look, such as a learning-rate scheduler.
        """
        # The name alone: looking at the caller's variables would keep them alive.
        if self._exchange.is_due or self._is_scaled(sys._getframe(1).f_code.co_name):
            self._settle()
        return cast("list[dict[str, Any]]", self.__dict__["param_groups"])

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        self.__dict__["param_groups"] = groups

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Exchange gradients once in `passes` backward passes.

        From the next step on, if gradients of this one have been computed.
        """
        self._exchange.set_passes(passes)

    def check_replicas_every(self, steps: int) -> None:
        """Compare the ranks' weights at the end of every so many steps, 0 for never.

        Where they differ, `step` raises ReplicasDifferError on every rank. All ranks must call this
        alike.
        """
        if not is_whole(steps) or steps < 0:
            raise ValueError(f"steps should be a whole number, 0 or more; it is {steps!r}.")
        self._check_every = steps

    def synchronize(self) -> None:
        """Wait until the gradients are the averages of all ranks."""
        if self._exchange.is_active:
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

    def step(self, closure: Callable[[], Any] | None = None, **more: Any) -> Any:
        """Wait for the averaged gradients, then step. Other arguments are the optimizer's own."""
        result = self._step(closure, **more)
        self._steps += 1
        if self._check_every and self._steps % self._check_every == 0:
            self._exchange.check_replicas()
        return result

    def _step(self, closure: Callable[[], Any] | None, **more: Any) -> Any:
        wrapped = cast(Any, super())
        exchange = self._exchange
        if not self._should_synchronize:
            if not exchange.is_idle and not exchange.is_settled:
                self._settle()  # what nobody synchronized: the ranks must not drift apart
            self._synchronized = False
            given = () if closure is None else (closure,)
            result = wrapped.step(*given, **more)
            if exchange.is_settled:
                exchange.begin_step()
            return result
        if closure is not None:
            return wrapped.step(self._synchronizing(closure), **more)
        if self._synchronized and exchange.is_idle and exchange.is_active:
            warnings.warn(
                "optimizer.step() was called without optimizer.skip_synchronize() after "
                "optimizer.synchronize(), so it exchanges the gradients once more. Call it inside "
                "'with optimizer.skip_synchronize():'.",
                stacklevel=3,
            )
        self.synchronize()
        self._synchronized = False
        return wrapped.step(**more)

    # torch wraps the `step` of a class to call hooks; that of the base class is wrapped already.
    step.hooked = True  # type: ignore[attr-defined]

    def _synchronizing(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        """Return the closure with the exchange after it: it computes the gradients anew.

        Its loss is combined as the gradients are: an optimizer that decides by it, for instance how
        far to go, decides alike on every rank.
        """

        def compute() -> Any:
            loss = closure()
            if self._exchange.is_active:
                loss = self._combined(loss)
            self._synchronized = False
            return loss

        return compute

    def _combined(self, loss: Any) -> Any:
        """Synchronize; return the loss, combined over all ranks if it is a number."""
        own = _scalar(loss)
        handle = self._exchange.start_loss(own or 0.0)  # other ranks may have one
        try:
            self.synchronize()
        except Exception:
            default.pending().abandon(handle)
            raise
        total = finished(handle).item()
        if own is None:
            return loss
        return loss.detach().clone().fill_(total) if torch.is_tensor(loss) else total

    def zero_grad(self, set_to_none: bool | None = None, **more: Any) -> None:
        """Clear the gradients, also half an accumulation; none may wait to be averaged.

        The optimizer's own gets what is given, and has its own defaults.
        """
        self._exchange.discard()
        self._synchronized = False
        if set_to_none is not None:
            more["set_to_none"] = set_to_none
        cast(Any, super()).zero_grad(**more)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters; their gradients are exchanged from the next backward on."""
        cast(Any, super()).add_param_group(param_group)
        if self._exchange.is_active:
            self._watch_parameters()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Replace the state, also that of the optimizer that this one was made of."""
        with shared(self):
            cast(Any, super()).load_state_dict(state_dict)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refuse to be copied or pickled: hooks of the parameters belong to this object."""
        raise TypeError(
            "a distributed optimizer cannot be copied or pickled; save its state_dict(), or copy "
            "the optimizer that it was made of."
        )

    def _is_scaled(self, looking: str) -> bool:
        """Return whether a GradScaler is about to divide gradients that were not averaged.

        It ends the passes of a step on every rank: those that have made fewer than the others, or
        none, take part with what they have.
        """
        exchange = self._exchange
        if looking != _UNSCALING or exchange.is_settled or not exchange.is_active:
            return False
        return not (exchange.is_idle and self._synchronized)

    def _settle(self) -> None:
        self._watch_parameters()
        self._exchange.settle()

    def _watch_parameters(self) -> None:
        """Watch all parameters that are trained, also those unfrozen or added meanwhile."""
        for group in self.__dict__["param_groups"]:
            for parameter in group["params"]:
                if parameter.requires_grad:
                    self._exchange.watch(parameter)


def DistributedOptimizer(  # noqa: N802  a name of the contract
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
    compression: Compressor | type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: int | Sequence[Sequence[torch.Tensor]] | None = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return an optimizer like `optimizer` that averages gradients over all ranks.

    Its class has the same name and derives from the optimizer's; it shares the parameter groups
    and the state. Gradients are sent during backward, those near the input with the highest
    urgency. All ranks must construct their optimizers in the same order.

    With `backward_passes_per_step`, gradients are exchanged once in so many backward passes, sooner
    if `step` or a GradScaler comes first; `zero_grad` drops what has not been exchanged. `op` is
    Average or Sum. `gradient_predivide_factor` divides before the ranks are added up, so that
    float16 does not overflow, and takes the rest of the average after. `groups` (or `num_groups`)
    makes gradients travel together: a number of groups of neighbours, or lists of parameters.
    Sparse gradients are combined by row, or made dense first with `sparse_as_dense` (SparseAdam,
    which takes no dense ones, gets the averages sparse). A parameter
    that some ranks did not use counts as zero there; one that nobody used keeps no gradient.

    Example::

        optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * bps.size())
        optimizer = bps.DistributedOptimizer(optimizer, model.named_parameters())
        loss.backward()
        optimizer.step()

    When backward ends, the gradients are the averages: clip them as in a program of one process. It
    is an error on every rank to change gradients while they are still on their way, as they are
    where a parameter was not used, or the ranks have done different things. This always works::

        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with optimizer.skip_synchronize():
            optimizer.step()
    """
    _check_wrapped(optimizer)
    options = ExchangeOptions(
        compression, backward_passes_per_step, op, gradient_predivide_factor, sparse_as_dense,
        process_set, sparse_as_dense and isinstance(optimizer, torch.optim.SparseAdam),
    )  # fmt: skip
    options.check()
    exchange = Exchange(options)
    _name_parameters(exchange, optimizer, _checked(named_parameters))
    own = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    exchange.set_groups(groups if groups is not None else num_groups, own)
    for prefix in ("Gradient", "Parameter"):
        for name in sorted(exchange.names()):
            default.declare(f"{prefix}.{name}")
    base = type(optimizer)
    derived = type(base.__name__, (_DistributedMixin, base), {"__module__": base.__module__})
    distributed: Any = object.__new__(derived)
    distributed._exchange = exchange
    # Everything is shared but a `step` that a learning-rate scheduler bound to the old object.
    distributed.__dict__.update({k: v for k, v in optimizer.__dict__.items() if k != "step"})
    distributed._should_synchronize = True
    distributed._synchronized = False
    distributed._check_every = 0
    distributed._steps = 0
    if exchange.is_active:
        distributed._watch_parameters()
    return distributed


def _check_wrapped(optimizer: torch.optim.Optimizer) -> None:
    if environment.async_training():
        raise NotImplementedError(
            "BYTEPS_ENABLE_ASYNC asks for asynchronous training, which this version does not have; "
            "unset it on all workers and servers."
        )
    if isinstance(optimizer, _DistributedMixin):
        raise ValueError("the optimizer is distributed already; wrap the one it was made of.")


def _scalar(loss: Any) -> float | None:
    """Return a loss as a number; None if it is none."""
    if torch.is_tensor(loss):
        return float(loss.item()) if loss.numel() == 1 else None
    return float(loss) if isinstance(loss, (int, float)) else None


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
    exchange: Exchange,
    optimizer: torch.optim.Optimizer,
    named_parameters: list[tuple[str, torch.Tensor]],
) -> None:
    """Name the given parameters, then those of the optimizer that have no name."""
    for name, parameter in named_parameters:
        exchange.add(parameter, name)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if not exchange.knows(parameter):
                exchange.add(parameter, exchange.next_name())
