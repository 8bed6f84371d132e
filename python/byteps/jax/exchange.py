"""A call on a tree of arrays: one exchange for each leaf, inside jit and outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from byteps.common.errors import InvalidArgumentError
from byteps.common.gradients.compression import Compressor, NoneCompressor, check_compression
from byteps.common.operations.barriers import meet
from byteps.common.operations.call import Call
from byteps.common.operations.groups import describe_tensors
from byteps.common.session import default
from byteps.common.session.names import scope_of
from byteps.common.session.process_sets import number_of
from byteps.common.types import DataType, Operation, moved_as
from byteps.jax import compiled
from byteps.jax.eager import Started

_DATA_TYPES = [kind.name.lower() for kind in DataType]
_OF_ROWS = (Operation.ALLGATHER, Operation.ALLTOALL)  # ranks may give other numbers of rows


class Tree:
    """The leaves of what the user gives, and how the results become such a tree."""

    def __init__(self, tree: Any, operation: Operation = Operation.BROADCAST) -> None:
        """Take what an operation shall exchange; raise for what it cannot."""
        found, self._treedef = jax.tree_util.tree_flatten_with_path(tree)
        self.paths = [jax.tree_util.keystr(path) for path, _ in found]
        self.leaves = [_array(leaf, operation) for _, leaf in found]
        self.is_traced = any(isinstance(leaf, jax.core.Tracer) for leaf in self.leaves)

    @property
    def is_one(self) -> bool:
        """Whether it is an array, not a tree."""
        return self.paths == [""]

    def with_leaves(self, leaves: Sequence[Any]) -> Any:
        """Return a tree of the same form."""
        return self._treedef.unflatten(leaves)

    def describe(self, operation: Operation) -> str:
        """Return what must be equal on all ranks, in words."""
        # In a program, the compiled exchanges see to it that the numbers of rows are equal.
        if operation in _OF_ROWS and not self.is_traced:
            tensors = [(f"rows of {leaf.dtype}", leaf.shape[1:]) for leaf in self.leaves]
        else:
            tensors = [(str(leaf.dtype), leaf.shape) for leaf in self.leaves]
        return f"{describe_tensors(tensors)}; {' '.join(self.paths)}"


def _array(leaf: Any, operation: Operation) -> Any:
    if not isinstance(leaf, jax.Array):  # tracers are arrays, too
        try:
            leaf = jnp.asarray(leaf)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(
                f"a {type(leaf).__name__} cannot be exchanged: {error}"
            ) from error
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended):
        raise InvalidArgumentError(
            f"arrays of {leaf.dtype} cannot be exchanged; exchange jax.random.key_data(key)."
        )
    if leaf.dtype.name not in _DATA_TYPES and moved_as(leaf.dtype.name, operation) is None:
        raise InvalidArgumentError(
            f"arrays of {leaf.dtype} cannot be exchanged. Types: {', '.join(_DATA_TYPES)}; "
            "allgather_object and broadcast_object take any object."
        )
    return leaf


class Pending:
    """An exchange on its way: what `push_pull_start` returns and `push_pull_done` takes."""

    def __init__(self, tree: Tree, contexts: list[Any], compression: Any) -> None:
        self._tree = tree
        self._contexts = contexts
        self._compression = compression
        self._started: Started | None = None
        self._results: list[Any] | None = None

    def start(self, call: Call, leaves: list[Any], priorities: Sequence[int]) -> None:
        """Start it, inside a program or outside."""
        tree = self._tree
        check = "" if tree.is_one else tree.describe(call.operation)
        if not leaves:
            self._results = []
            return
        if tree.is_traced:
            self._results = compiled.exchange_all(call, leaves, tree.paths, priorities, check)
            return
        base = call.name
        if base is None and check:
            session = default.current()
            base = session.unnamed.name(scope_of(number_of(call.process_set)))
        names = [base if base is None else base + path for path in tree.paths]
        if check:
            meet(replace(call, name=base, operation=Operation.BARRIER, detail=check))
        calls = [
            replace(call, name=name, priority=priority)
            for name, priority in zip(names, priorities, strict=True)
        ]
        self._started = Started(calls, leaves)

    def finish(self) -> Any:
        """Return the tree of results."""
        if self._started is not None:
            self._results = self._started.finish()
            self._started = None
        if self._results is None:
            raise InvalidArgumentError("this exchange has been waited for already.")
        results, self._results = self._results, None
        pairs = zip(results, self._contexts, strict=True)
        return self._tree.with_leaves([self._compression.decompress(r, c) for r, c in pairs])


def start(
    call: Call,
    tensors: Any,
    compression: Compressor | type[Compressor] = NoneCompressor,
    first_is_urgent: bool = False,
) -> Pending:
    """Start to exchange an array or a tree of arrays, of which the first may be the most urgent."""
    check_compression(compression)
    tree = Tree(tensors, call.operation)
    sent = [compression.compress(leaf) for leaf in tree.leaves]
    pending = Pending(tree, [context for _, context in sent], compression)
    priorities = [call.priority - i * first_is_urgent for i in range(len(sent))]
    pending.start(call, [leaf for leaf, _ in sent], priorities)
    return pending


def run(
    call: Call, tensors: Any, compression: Compressor | type[Compressor] = NoneCompressor
) -> Any:
    """Exchange an array or a tree of arrays; return the results."""
    return start(call, tensors, compression).finish()
