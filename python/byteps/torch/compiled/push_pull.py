"""Operations that torch.compile keeps whole: `torch.ops.byteps.*`, without a graph break.

`push_pull` is differentiable and blocks; in a function under torch.compile `bps.push_pull` becomes
this. The pair `push_pull_start`, `push_pull_wait` overlaps: start several, compute, wait. All work
outside of compiled functions too. Before torch 2.4 they are plain functions, at which a graph
breaks. `compiled_collectives` has the rest.
"""

from __future__ import annotations

from typing import Any

import torch

from byteps.common.errors import InvalidArgumentError
from byteps.common.session import default
from byteps.torch.compile_guard import HAS_OPERATIONS
from byteps.torch.ops import push_pull_async, push_pull_async_inplace

LIBRARY = torch.library.Library("byteps", "DEF")
ANY_DEVICE = "CompositeExplicitAutograd"


def push_pull_start(
    tensor: torch.Tensor, name: str, average: bool = True, priority: int = 0
) -> torch.Tensor:
    """Start to combine `tensor` over all ranks in place; return a handle, which is a tensor.

    For functions under torch.compile, which keeps it whole.

    Example::

        handles = [bps.push_pull_start(g, name) for name, g in gradients.items()]
        for gradient, handle in zip(gradients.values(), handles):
            bps.push_pull_wait(gradient, handle)
    """
    start = torch.ops.byteps.push_pull_start if HAS_OPERATIONS else _start
    handle: torch.Tensor = start(tensor, name, average, priority)
    return handle


def push_pull_wait(tensor: torch.Tensor, handle: torch.Tensor) -> torch.Tensor:
    """Wait until `tensor`, which was given to `push_pull_start`, holds the result; return it.

    Example::

        bps.push_pull_wait(gradient, handle)
    """
    wait = torch.ops.byteps.push_pull_wait if HAS_OPERATIONS else _wait
    wait(tensor, handle)
    return tensor


# Compilers leave out arguments that have their default, also for these.
def _start(
    tensor: torch.Tensor, name: str, average: bool = True, priority: int = 0
) -> torch.Tensor:
    handle = push_pull_async_inplace(tensor, average, name, priority=priority)
    return torch.tensor(int(handle), dtype=torch.int64, device="cpu")


def _wait(tensor: torch.Tensor, handle: torch.Tensor) -> None:
    number = int(handle.item())
    result: Any = default.pending().synchronize(number)
    if result is None:
        raise InvalidArgumentError(
            f"push_pull_wait: handle {number} was not created or has been waited for already."
        )
    # A compiler that made a copy between start and wait gets the result in that.
    if result.data_ptr() != tensor.data_ptr():
        tensor.copy_(result)


def _push_pull(
    tensor: torch.Tensor, name: str, average: bool = True, priority: int = 0
) -> torch.Tensor:
    handle = push_pull_async(tensor.detach().contiguous(), average, name, priority=priority)
    result: Any = default.pending().synchronize(handle)
    return result  # type: ignore[no-any-return]


def _keep_arguments(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    _, ctx.name, ctx.average, ctx.priority = inputs


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    """Return the push_pull of the incoming gradient."""
    name = f"{ctx.name}.backward"
    result = torch.ops.byteps.push_pull(gradient, name, ctx.average, ctx.priority)
    return result, None, None, None


def _define() -> None:
    options = "str name, bool average=True, int priority=0"
    LIBRARY.define(f"push_pull(Tensor tensor, {options}) -> Tensor")
    LIBRARY.define(f"push_pull_start(Tensor(a!) tensor, {options}) -> Tensor")
    LIBRARY.define("push_pull_wait(Tensor(a!) tensor, Tensor handle) -> ()")
    LIBRARY.impl("push_pull", _push_pull, ANY_DEVICE)
    LIBRARY.impl("push_pull_start", _start, ANY_DEVICE)
    LIBRARY.impl("push_pull_wait", _wait, ANY_DEVICE)
    fake = torch.library.register_fake
    fake("byteps::push_pull", _fake_push_pull, lib=LIBRARY)
    fake("byteps::push_pull_start", _fake_start, lib=LIBRARY)
    fake("byteps::push_pull_wait", lambda tensor, handle: None, lib=LIBRARY)
    torch.library.register_autograd(
        "byteps::push_pull", _backward, setup_context=_keep_arguments, lib=LIBRARY
    )


def _fake_push_pull(tensor: torch.Tensor, *options: object, **more: object) -> torch.Tensor:
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def _fake_start(
    tensor: torch.Tensor, name: str, average: bool = True, priority: int = 0
) -> torch.Tensor:
    return torch.empty((), dtype=torch.int64, device="cpu")


if HAS_OPERATIONS:
    _define()
