"""Keras on JAX."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import jax
from jax.experimental.sparse import JAXSparse

import byteps.jax as ops
from byteps.common.gradients.exchange_options import ExchangeOptions
from byteps.common.operations.call import Call
from byteps.jax.exchange import start
from byteps.jax.typed_errors import typed_errors
from byteps.keras_common.backend import DenseBackend


class _Jax(DenseBackend):
    name = "JAX"
    ops = ops
    compression = ops.Compression

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, jax.Array)

    def is_concrete(self, value: Any) -> bool:
        return not isinstance(value, jax.core.Tracer)

    def is_sparse(self, gradient: Any) -> bool:
        return isinstance(gradient, JAXSparse)

    def to_dense(self, gradient: Any) -> Any:
        return gradient.todense()

    def combine(
        self,
        call: Call,
        names: Sequence[str],
        gradients: Sequence[Any],
        variables: Sequence[Any],
        options: ExchangeOptions,
    ) -> list[Any]:
        self.refuse_sparse(gradients)
        # The names sort in the order of the model, which is that of a tree of JAX.
        tree = dict(zip(names, gradients, strict=True))
        results = start(call, tree, options.compression, first_is_urgent=True).finish()
        return [results[name] for name in names]

    def typed_errors(self) -> contextlib.AbstractContextManager[None]:
        return typed_errors()


BACKEND = _Jax()
