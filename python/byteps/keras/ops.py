"""Operations on values: tensors of the backend, variables of Keras, numbers, lists and arrays."""

from __future__ import annotations

from typing import Any

import keras

from byteps.common.operations.barriers import barrier, join
from byteps.common.operations.objects import allgather_object, broadcast_object
from byteps.keras.backends import BACKEND
from byteps.keras_common.values import Values

__all__ = [
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_object",
    "join",
    "push_pull",
    "reducescatter",
]


def _tensor_of(value: Any) -> Any:
    if isinstance(value, keras.Variable):
        value = value.value
    return value if BACKEND.is_tensor(value) else None


_VALUES = Values(BACKEND.ops, _tensor_of, keras.ops.convert_to_tensor)
allgather = _VALUES.allgather
allreduce = _VALUES.allreduce
alltoall = _VALUES.alltoall
broadcast = _VALUES.broadcast
push_pull = _VALUES.push_pull
reducescatter = _VALUES.reducescatter
