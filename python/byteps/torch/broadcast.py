"""Starting all ranks from the same state."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import Any

import cloudpickle
import torch

from byteps.common import default
from byteps.torch.ops import broadcast_, broadcast_async_, synchronize


def broadcast_parameters(
    params: Mapping[str, torch.Tensor] | list[torch.Tensor] | list[tuple[str, torch.Tensor]],
    root_rank: int,
    prefix: str = "Parameter.",
) -> None:
    """Overwrite tensors with the root's, bit for bit.

    `params` is a dict such as `model.state_dict()`, or a list of tensors or of (name, tensor).
    """
    started = []
    for name, tensor in _named(params):
        contiguous = tensor.detach().contiguous()
        started.append((tensor, contiguous, broadcast_async_(contiguous, root_rank, prefix + name)))
    for tensor, contiguous, handle in started:
        synchronize(handle)
        if contiguous.data_ptr() != tensor.data_ptr():
            tensor.detach().copy_(contiguous)


def _named(params: object) -> list[tuple[str, torch.Tensor]]:
    items: Iterable[tuple[str, Any]]
    if isinstance(params, Mapping):
        items = sorted(params.items())
    elif isinstance(params, list):
        items = [p if isinstance(p, tuple) else (str(i), p) for i, p in enumerate(params)]
    else:
        raise ValueError(f"invalid params of type: {type(params)}")
    return [(str(name), tensor) for name, tensor in items if isinstance(tensor, torch.Tensor)]


def broadcast_object(obj: Any, root_rank: int = 0, name: str | None = None) -> Any:
    """Return the root's object on every rank. It travels pickled: use it among trusted ranks."""
    # The type's name would differ where only the root has the object and the others pass None.
    name = "object" if name is None else name
    payload = b""
    if default.rank() == root_rank:
        buffer = io.BytesIO()
        cloudpickle.dump(obj, buffer)
        payload = buffer.getvalue()
    size = torch.tensor([len(payload)], dtype=torch.int64)
    length = int(broadcast_(size, root_rank, f"Size.{name}.sz").item())
    if default.rank() == root_rank:
        data = torch.frombuffer(bytearray(payload), dtype=torch.uint8)
    else:
        data = torch.empty(length, dtype=torch.uint8)
    # The length is in the name: a name stands for one shape.
    data = broadcast_(data, root_rank, f"Parameter.{name}.{length}.t")
    return obj if default.rank() == root_rank else cloudpickle.loads(data.numpy().tobytes())


class _TensorSlot:
    """Stands for a tensor in the pickled part of an optimizer's state."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape = tuple(tensor.shape)
        self.dtype = tensor.dtype


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer, root_rank: int, prefix: str = "Parameter."
) -> None:
    """Give the optimizer of every rank the root's state and options.

    The structure travels as one object, the tensors one by one; ranks whose state is still empty
    receive it as well.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("cannot broadcast torch.optim.LBFGS state")
    is_root = default.rank() == root_rank
    tensors: list[torch.Tensor] = []
    skeleton = _take_out(optimizer.state_dict(), tensors) if is_root else None
    skeleton = broadcast_object(skeleton, root_rank, f"{prefix}optimizer_state")
    state = None if is_root else _put_in(skeleton, tensors)
    named = [(f"optimizer_state.{i}", tensor) for i, tensor in enumerate(tensors)]
    broadcast_parameters(named, root_rank, prefix)
    if state is not None:
        optimizer.load_state_dict(state)


def _take_out(tree: Any, tensors: list[torch.Tensor]) -> Any:
    """Return `tree` with every tensor appended to `tensors` and replaced by a slot."""
    if isinstance(tree, torch.Tensor):
        tensors.append(tree)
        return _TensorSlot(tree)
    if isinstance(tree, dict):
        return {key: _take_out(value, tensors) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(_take_out(value, tensors) for value in tree)
    return tree


def _put_in(tree: Any, tensors: list[torch.Tensor]) -> Any:
    """Return `tree` with a new tensor in every slot, each appended to `tensors`."""
    if isinstance(tree, _TensorSlot):
        tensors.append(torch.empty(tree.shape, dtype=tree.dtype))
        return tensors[-1]
    if isinstance(tree, dict):
        return {key: _put_in(value, tensors) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(_put_in(value, tensors) for value in tree)
    return tree
