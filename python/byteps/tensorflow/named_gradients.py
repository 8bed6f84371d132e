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

from byteps.common.gradients.exchange_options import ExchangeOptions
from byteps.common.operations.call import Call
from byteps.tensorflow.agreement import after, agreed, described, gate_of
from byteps.tensorflow.errors import with_tensorflow_errors
from byteps.tensorflow.exchange import as_tensor, same
from byteps.tensorflow.sparse import allreduce_slices


@with_tensorflow_errors
def combine_named(
    call: Call, names: Sequence[str], gradients: Sequence[Any], options: ExchangeOptions
) -> list[Any]:
    """Return the combinations of all ranks' gradients, none of which is None.

    The gradients travel when all ranks have come with the same ones, by name, shape and type. A
    rank that has others is a MismatchError on every rank.
    """
    before = agreed(call, [described(gradient) for gradient in gradients], " ".join(names))
    with after(before):
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
            found = same(calls, sent, gate_of(before)) if calls else []
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
