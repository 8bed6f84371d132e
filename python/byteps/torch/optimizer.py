"""DistributedOptimizer: any torch optimizer, stepping on gradients averaged over all ranks."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

import torch

from byteps.common import environment
from byteps.common.gradients.exchange_options import ExchangeOptions, is_whole
from byteps.common.gradients.step_exchange import StepExchange
from byteps.common.operations.call import Call
from byteps.common.operations.reduction import Average, ReduceOp, operation_of
from byteps.common.session import default
from byteps.common.session.pending import Handle
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.torch.compression import Compression, Compressor
from byteps.torch.gradient_scalers import let_scalers_wait
from byteps.torch.gradients import exchange_of_optimizer, watch
from byteps.torch.optimizer_classes import extended, shared
from byteps.torch.replicas import check_replicas
from byteps.torch.submit import exchange as start_exchange
from byteps.torch.submit import finished


class AveragingOptimizer(torch.optim.Optimizer):
    """What DistributedOptimizer adds to the class of the optimizer. Not made by itself."""

    _exchange: StepExchange[torch.Tensor]
    _as_it_is: int  # how many blocks of skip_synchronize this is in
    _synchronized: bool
    _check_every: int  # steps; 0 never
    _steps: int

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

    def skip_synchronize(self) -> AbstractContextManager[None]:
        """Make `step` use the gradients as they are, for instance clipped after `synchronize`."""
        return _AsItIs(self)

    def step(self, closure: Callable[[], Any] | None = None, **more: Any) -> Any:
        """Wait for the averaged gradients, then step. Other arguments are the optimizer's own."""
        result = self._step(closure, **more)
        self._steps += 1
        if self._check_every and self._steps % self._check_every == 0:
            self._check_replicas()
        return result

    def _check_replicas(self) -> None:
        exchange = self._exchange
        if exchange.is_active:
            exchange.follow_session()
            own = [(entry.name, entry.parameter) for entry in exchange.entries() if entry.is_own]
            check_replicas(own, exchange.names.owner, exchange.options.process_set)

    def _step(self, closure: Callable[[], Any] | None, **more: Any) -> Any:
        wrapped = cast(Any, super())
        exchange = self._exchange
        if self._as_it_is:
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
                "optimizer.step() called without optimizer.skip_synchronize() after "
                "optimizer.synchronize(): the gradients are exchanged once more. Call it inside "
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
        handle = self._start_loss(own or 0.0)  # other ranks may have one
        try:
            self.synchronize()
        except Exception:
            default.pending().abandon(handle)
            raise
        total = finished(handle).item()
        if own is None:
            return loss
        return loss.detach().clone().fill_(total) if torch.is_tensor(loss) else total

    def _start_loss(self, loss: float) -> Handle[torch.Tensor]:
        """Start to combine the losses of the ranks as their gradients are."""
        own = torch.tensor([loss], dtype=torch.float64, device="cpu")
        self._exchange.follow_session()
        options, name = self._exchange.options, f"{self._exchange.names.owner}.loss"
        call = Call(operation_of(options.op), name, process_set=options.process_set)
        return start_exchange(call, own, own)

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

    def _average_before_unscaling(self) -> None:
        """Let a GradScaler that is about to divide the gradients find the averages.

        It ends the passes of a step on every rank: those that have made fewer than the others, or
        none, take part with what they have.
        """
        exchange = self._exchange
        if not exchange.is_active or exchange.is_settled:
            return
        if not (exchange.is_idle and self._synchronized):
            self._settle()

    def _settle(self) -> None:
        self._watch_parameters()
        self._exchange.settle()

    def _watch_parameters(self) -> None:
        """Watch all parameters that are trained, also those unfrozen or added meanwhile."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.requires_grad:
                    watch(self._exchange, parameter)


class _AsItIs:
    """A block in which an optimizer steps without an exchange."""

    def __init__(self, optimizer: AveragingOptimizer) -> None:
        self._optimizer = optimizer

    def __enter__(self) -> None:
        self._optimizer._as_it_is += 1

    def __exit__(self, *reason: object) -> None:
        self._optimizer._as_it_is -= 1


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
) -> AveragingOptimizer:
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

    When backward ends, the gradients are the averages: clip them, or let a GradScaler unscale them,
    as in a program of one process. It is an error on every rank to change gradients before they are
    averages, as they are not yet where a parameter was not used, the last accumulation of an epoch
    is short, or the ranks have done different things; a GradScaler of torch waits for them first.
    This always works::

        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with optimizer.skip_synchronize():
            optimizer.step()
    """
    _check_wrapped(optimizer)
    let_scalers_wait()
    options = ExchangeOptions(
        compression, backward_passes_per_step, op, gradient_predivide_factor, sparse_as_dense,
        process_set, sparse_as_dense and isinstance(optimizer, torch.optim.SparseAdam),
    )  # fmt: skip
    options.check()
    exchange = exchange_of_optimizer(options)
    _name_parameters(exchange, optimizer, _checked(named_parameters))
    own = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    exchange.set_groups(groups if groups is not None else num_groups, own)
    names = sorted(exchange.names.told(entry.name) for entry in exchange.entries())
    kinds = ("Gradient", "Parameter")
    default.declare_for(exchange, [f"{kind}.{name}" for kind in kinds for name in names])
    distributed = extended(optimizer, AveragingOptimizer)
    distributed._exchange = exchange
    distributed._as_it_is = 0
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
    if isinstance(optimizer, AveragingOptimizer):
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
    exchange: StepExchange[torch.Tensor],
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
