"""What the code for Keras needs to know of the framework that holds the tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any, ClassVar, Protocol

from byteps.common.gradients.exchange_options import ExchangeOptions
from byteps.common.operations.call import Call


class Backend(Protocol):
    """A backend. What it takes and returns are tensors of its framework."""

    @property
    def ops(self) -> ModuleType:
        """The module with the operations of byteps on tensors of the framework."""

    @property
    def compression(self) -> Any:
        """Its Compression."""

    def is_tensor(self, value: Any) -> bool:
        """Return whether the value is a tensor of the framework."""

    def is_concrete(self, value: Any) -> bool:
        """Return whether the tensor has a value now, and is no part of a program being traced."""

    def is_sparse(self, gradient: Any) -> bool:
        """Return whether the gradient has only some rows."""

    def to_dense(self, gradient: Any) -> Any:
        """Return a sparse gradient with all rows."""

    def scaled(self, gradient: Any, factor: float) -> Any:
        """Return the gradient divided by `factor`, sparse if it was."""

    def combine(
        self,
        call: Call,
        names: Sequence[str],
        gradients: Sequence[Any],
        variables: Sequence[Any],
        options: ExchangeOptions,
    ) -> list[Any]:
        """Return the combinations of all ranks' gradients, none of which is None.

        A rank that has other gradients, by name, shape or type, is a MismatchError on every rank.
        """

    def typed_errors(self) -> contextlib.AbstractContextManager[None]:
        """Return what raises errors of compiled programs as those of byteps."""


class DenseBackend:
    """What backends that exchange no sparse gradients have in common."""

    name: ClassVar[str]

    def is_sparse(self, gradient: Any) -> bool:
        """Return whether the gradient has only some rows."""
        raise NotImplementedError

    def scaled(self, gradient: Any, factor: float) -> Any:
        """Return the gradient divided by `factor`."""
        return gradient / factor

    def refuse_sparse(self, gradients: Sequence[Any]) -> None:
        """Raise NotImplementedError for a sparse gradient."""
        if any(self.is_sparse(gradient) for gradient in gradients):
            raise NotImplementedError(
                f"byteps.keras has no exchange of sparse gradients of {self.name}. Pass "
                "sparse_as_dense=True to DistributedOptimizer."
            )
