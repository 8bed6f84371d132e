"""Keras on torch."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

import byteps.torch as ops
from byteps.common.gradients.exchange_options import ExchangeOptions
from byteps.common.operations.barriers import meet
from byteps.common.operations.call import Call
from byteps.common.operations.groups import describe_tensors
from byteps.common.session import default
from byteps.common.session.pending import Handle
from byteps.common.types import Operation
from byteps.keras_common.backend import DenseBackend
from byteps.torch.compile_guard import untraced
from byteps.torch.submit import exchange


class _Torch(DenseBackend):
    name = "torch"
    ops = ops
    compression = ops.Compression

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor)

    def is_concrete(self, value: Any) -> bool:
        return True

    def is_sparse(self, gradient: Any) -> bool:
        return bool(gradient.is_sparse)

    def to_dense(self, gradient: Any) -> Any:
        return gradient.to_dense()

    def combine(
        self,
        call: Call,
        names: Sequence[str],
        gradients: Sequence[Any],
        variables: Sequence[Any],
        options: ExchangeOptions,
    ) -> list[Any]:
        return _combine(call, names, gradients, variables, options)

    def typed_errors(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


@untraced
def _combine(
    call: Call,
    names: Sequence[str],
    gradients: Sequence[Any],
    variables: Sequence[Any],
    options: ExchangeOptions,
) -> list[Any]:
    BACKEND.refuse_sparse(gradients)
    shapes = describe_tensors([(str(g.dtype), g.shape) for g in gradients])
    detail = f"{shapes}; {' '.join(names)}"
    meet(replace(call, operation=Operation.BARRIER, detail=detail))
    handles: list[Handle[torch.Tensor]] = []
    contexts: list[object] = []
    try:
        for place, (name, gradient) in enumerate(zip(names, gradients, strict=True)):
            whole = gradient.detach()
            wire, context = options.compression.compress(whole)
            contexts.append(context)
            one = replace(call, name=f"{call.name}.{name}", priority=-place)
            # The result overwrites a gradient that backward has left at its variable, and what a
            # compression has made. The user may have given other gradients twice.
            is_own = wire is not whole or gradient is variables[place].value.grad
            handles.append(exchange(one, wire, wire if is_own else None))
    except Exception:
        for handle in handles:
            default.pending().abandon(handle)
        raise
    results = default.pending().synchronize_all(handles)
    pairs = zip(results, contexts, strict=True)
    return [options.compression.decompress(result, context) for result, context in pairs]


BACKEND = _Torch()
