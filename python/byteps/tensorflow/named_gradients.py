"""The exchange of gradients that have names of their own, for optimizers of Keras.

Names of nodes in a graph would have the number that Keras gives an optimizer, which depends on what
a rank has made before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from byteps.common.barriers import meet
from byteps.common.call import Call
from byteps.common.exchange_options import ExchangeOptions
from byteps.common.groups import describe_tensors
from byteps.common.types import Operation
from byteps.tensorflow import compiled
from byteps.tensorflow.errors import with_tensorflow_errors
from byteps.tensorflow.exchange import as_tensor, same
from byteps.tensorflow.graph import number_of_exchange
from byteps.tensorflow.sparse import allreduce_slices


@with_tensorflow_errors
def combine_named(
    call: Call, names: Sequence[str], gradients: Sequence[Any], options: ExchangeOptions
) -> list[Any]:
    """Return the combinations of all ranks' gradients, none of which is None.

    The gradients travel when all ranks have come with the same ones, by name, shape and type. A
    rank that has others is a MismatchError on every rank.
    """
    before = _agreed(call, names, gradients)
    gate = before[0] if before and compiled.is_here() else None
    with tf.control_dependencies(before):
        results: list[Any] = list(gradients)
        dense = []
        for place, (name, gradient) in enumerate(zip(names, gradients, strict=True)):
            if isinstance(gradient, tf.IndexedSlices):
                results[place] = _sparse(call, f"{call.name}.{name}", gradient, options)
            else:
                dense.append(place)
        # A gradient of a graph leaves when it is there. Eager ones leave together, because each
        # call waits for its results.
        units = [dense] if tf.executing_eagerly() else [[place] for place in dense]
        for places in units:
            calls, sent, contexts = [], [], []
            for place in places:
                # Variables of the first layers are needed first in the next forward pass.
                one = replace(call, name=f"{call.name}.{names[place]}", priority=-place)
                wire, context = options.compression.compress(tf.convert_to_tensor(results[place]))
                calls.append(one)
                sent.append(as_tensor(wire, one))
                contexts.append(context)
            found = same(calls, sent, gate) if calls else []
            for place, result, context in zip(places, found, contexts, strict=True):
                results[place] = options.compression.decompress(result, context)
    return results


def _sparse(call: Call, name: str, gradient: Any, options: ExchangeOptions) -> Any:
    with _without_scopes():
        return allreduce_slices(
            gradient, options.op, name, "Gradient", process_set=call.process_set
        )


def _without_scopes() -> contextlib.AbstractContextManager[Any]:
    """Return what lets nodes of the graph have names without the scopes around them."""
    if tf.executing_eagerly():
        return contextlib.nullcontext()
    found: contextlib.AbstractContextManager[Any] = tf.compat.v1.get_default_graph().name_scope(
        None
    )
    return found


def _agreed(call: Call, names: Sequence[str], gradients: Sequence[Any]) -> list[Any]:
    """Let the ranks compare what they will send; return what this takes place before, in a
    graph."""
    described = describe_tensors([_described(gradient) for gradient in gradients])
    detail = f"{described}; {' '.join(names)}"
    question = replace(
        call, operation=Operation.BARRIER, detail=detail, prescale=1.0, postscale=1.0
    )
    if tf.executing_eagerly():
        meet(question)
        return []
    if compiled.is_here():
        return [compiled.agree(question)]
    # An operation that TensorFlow keeps, although nobody uses its result.
    return [number_of_exchange(question)]


def _described(gradient: Any) -> tuple[str, list[Any]]:
    if isinstance(gradient, tf.IndexedSlices):
        return f"rows of {gradient.values.dtype.name}", ["*", *gradient.values.shape[1:].as_list()]
    return gradient.dtype.name, ["?" if n is None else n for n in gradient.shape.as_list()]
