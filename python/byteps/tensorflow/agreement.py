"""What ranks compare before they exchange several tensors.

Otherwise a rank that has more tensors than the others would wait for theirs in vain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from byteps.common.operations.barriers import meet
from byteps.common.operations.call import Call
from byteps.common.operations.groups import describe_tensors
from byteps.common.types import Operation
from byteps.tensorflow import compiled
from byteps.tensorflow.graph import number_of_exchange


def agreed(call: Call, described: Sequence[tuple[str, Sequence[object]]], names: str = "") -> Any:
    """Let the ranks compare tensors, of which `described` has the type and the shape.

    A rank that has other tensors is a MismatchError on every rank. Eagerly this blocks and returns
    None. In a graph it returns what the exchanges come after. REQUIRES: in a graph, the call has a
    name.
    """
    detail = f"{describe_tensors(described)}; {names}".removesuffix("; ")
    question = replace(
        call, operation=Operation.BARRIER, detail=detail, prescale=1.0, postscale=1.0
    )
    if tf.executing_eagerly():
        meet(question)
        return None
    if compiled.is_here():
        return compiled.agree(question)
    # An operation that TensorFlow keeps, although nobody uses its result.
    return number_of_exchange(question)


def after(agreement: Any) -> Any:
    """Return a context: what is made in it comes after the agreement."""
    return tf.control_dependencies([] if agreement is None else [agreement])


def gate_of(agreement: Any) -> Any:
    """Return what an exchange in a program of XLA waits for: there are no control dependencies."""
    return agreement if agreement is not None and compiled.is_here() else None


def described(tensor: Any, has_shape: bool = True, has_rows: bool = False) -> tuple[str, list[Any]]:
    """Return the type and the shape of a tensor, in which `*` and `?` may be any number.

    `has_shape`: all ranks know it. A trace of a tf.function may know less of it than that of
    another rank. `has_rows`: the ranks may have other numbers of rows.
    """
    if isinstance(tensor, tf.IndexedSlices):
        kind, shape = f"rows of {tensor.values.dtype.name}", tensor.values.shape
        has_rows = True
    else:
        kind, shape = tensor.dtype.name, tensor.shape
    if not has_shape or shape.rank is None:
        return kind, ["..."]
    sizes = ["?" if size is None else size for size in shape.as_list()]
    return kind, ["*", *sizes[1:]] if has_rows else sizes
