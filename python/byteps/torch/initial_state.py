"""Starting all ranks from the same state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from byteps.common.errors import InvalidArgumentError
from byteps.common.operations.barriers import meet
from byteps.common.operations.call import Call, checked_root
from byteps.common.operations.objects import broadcast_object, check_objects
from byteps.common.session import default
from byteps.common.session.pending import Handle
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.common.types import Operation
from byteps.torch.broadcast import broadcast_async_
from byteps.torch.memory import check_writable, data_type, describe_tensors, new_memory

__all__ = ["broadcast_object", "broadcast_optimizer_state", "broadcast_parameters"]


def broadcast_parameters(
    params: Mapping[str, Any] | Sequence[torch.Tensor] | Sequence[tuple[str, torch.Tensor]],
    root_rank: int,
    prefix: str = "Parameter.",
    process_set: ProcessSet = global_process_set,
) -> None:
    """Overwrite tensors with the root's, bit for bit; all of them are on their way at once.

    `params` is a dict such as `model.state_dict()`, or a list of tensors or of (name, tensor); what
    is no tensor is left out.
    Other names on some rank are a MismatchError on every rank.

    Example::

        bps.broadcast_parameters(model.state_dict(), root_rank=0)
    """
    named = _named(params)
    root_rank = checked_root(root_rank, process_set)
    _check_copies(named)
    names = ", ".join(name for name, _ in named)
    meet(
        Call(
            Operation.BARRIER,
            f"broadcast_parameters {prefix}",
            process_set=process_set,
            detail=f"root {root_rank}; {len(named)} tensors: {names}",
        )
    )
    default.pending().synchronize_all(start_copies(named, root_rank, prefix, process_set))


def start_copies(
    named: Iterable[tuple[str, torch.Tensor]],
    root_rank: int,
    prefix: str,
    process_set: ProcessSet = global_process_set,
) -> list[Handle[torch.Tensor]]:
    """Start to overwrite tensors with the root's. All ranks have tensors of the same names.

    Autograd is not told, for that of buffers in a second forward is no reason to refuse a backward.
    Starts none if one of them cannot be copied.
    """
    named = list(named)
    _check_copies(named)
    return [
        broadcast_async_(tensor.data, root_rank, prefix + name, process_set)
        for name, tensor in named
    ]


def _check_copies(named: Iterable[tuple[str, torch.Tensor]]) -> None:
    names = set()
    for name, tensor in named:
        data_type(tensor)
        check_writable(tensor)
        if name in names:
            raise InvalidArgumentError(f"two tensors have the name {name!r}.")
        names.add(name)


def _named(params: object) -> list[tuple[str, torch.Tensor]]:
    items: Iterable[tuple[str, Any]]
    if isinstance(params, Mapping):
        items = sorted(params.items())
    elif isinstance(params, Sequence) and not isinstance(params, str):
        items = [p if isinstance(p, tuple) else (str(i), p) for i, p in enumerate(params)]
    else:
        raise ValueError(f"invalid params of type: {type(params)}")
    return [(str(name), tensor) for name, tensor in items if isinstance(tensor, torch.Tensor)]


class _TensorSlot:
    """Stands for a tensor in the pickled part of an optimizer's state."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape = tuple(tensor.shape)
        self.dtype = tensor.dtype


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    prefix: str | torch.nn.Module = "Parameter.",
    model: torch.nn.Module | None = None,
) -> None:
    """Give the optimizer of every rank the root's state and options.

    The structure travels as one object, the tensors one by one; ranks whose state is still empty
    receive it as well. The structure travels pickled, so what `broadcast_object` says of strangers
    holds here, too. Another class of optimizer on some rank, or other groups of parameters, are
    a MismatchError on every rank. `model` is accepted, also in the third place, for programs
    written for Horovod; nothing depends on it.

    Example::

        bps.broadcast_optimizer_state(optimizer, root_rank=0)
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("cannot broadcast torch.optim.LBFGS state")
    check_objects("broadcast_optimizer_state")
    prefix = prefix if isinstance(prefix, str) else "Parameter."
    root_rank = checked_root(root_rank, global_process_set)
    groups = [describe_tensors(group["params"]) for group in optimizer.param_groups]
    text = f"root {root_rank}; {type(optimizer).__name__} of {len(groups)} groups: "
    name = f"broadcast_optimizer_state {prefix}"
    meet(Call(Operation.BARRIER, name, detail=text + "; ".join(groups)))
    is_root = default.rank() == root_rank
    tensors: list[torch.Tensor] = []
    skeleton = _take_out(optimizer.state_dict(), tensors) if is_root else None
    skeleton = broadcast_object(skeleton, root_rank, f"{prefix}optimizer_state")
    state = None if is_root else _put_in(skeleton, tensors)
    numbered = [(str(i), tensor) for i, tensor in enumerate(tensors)]
    default.pending().synchronize_all(
        start_copies(numbered, root_rank, f"{prefix}optimizer_state.")
    )
    if state is not None:
        optimizer.load_state_dict(state)
        _restore_types(optimizer, state["state"])


def _restore_types(optimizer: torch.optim.Optimizer, received: dict[Any, Any]) -> None:
    """Undo that `load_state_dict` gives some tensors the type of their parameter.

    The root's have another, with which the ranks would drift apart.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for number, values in received.items():
        if not isinstance(number, int) or not isinstance(values, dict):
            continue
        own = optimizer.state[parameters[number]]
        for key, value in values.items():
            if isinstance(value, torch.Tensor) and own[key].dtype != value.dtype:
                own[key] = value.to(own[key].device)


def _take_out(tree: Any, tensors: list[torch.Tensor]) -> Any:
    """Return `tree` with every tensor appended to `tensors` and replaced by a slot."""
    if isinstance(tree, torch.Tensor):
        tensors.append(tree.detach().to("cpu"))  # where the other ranks have theirs
        return _TensorSlot(tree)
    if isinstance(tree, dict):
        return {key: _take_out(value, tensors) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return _like(tree, [_take_out(value, tensors) for value in tree])
    return tree


def _put_in(tree: Any, tensors: list[torch.Tensor]) -> Any:
    """Return `tree` with a new tensor in every slot, each appended to `tensors`."""
    if isinstance(tree, _TensorSlot):
        tensors.append(new_memory(tree.shape, tree.dtype))
        return tensors[-1]
    if isinstance(tree, dict):
        return {key: _put_in(value, tensors) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return _like(tree, [_put_in(value, tensors) for value in tree])
    return tree


def _like(sequence: Any, values: list[Any]) -> Any:
    """Return the values in a sequence of the same type; a named tuple takes them one by one."""
    kind = type(sequence)
    return kind(*values) if hasattr(sequence, "_fields") else kind(values)
