"""Exchanges inside graphs and tf.functions: operations, and the names under which ranks meet."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from byteps.common.operations.call import Call
from byteps.common.programs.program_exchange import Exchange
from byteps.common.session import default
from byteps.common.types import Operation
from byteps.tensorflow.library import operations

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]")
_NOT_IN_NODES = re.compile(r"[^A-Za-z0-9_.\\/>-]")
_COUNT = re.compile(r"_\d+$")
# The name of a tensor that a tf.function has taken from outside. The number is one that the process
# counts, which differs between ranks.
_CAPTURED = re.compile(r"\d+(:\d+)?")
_GATE = "_byteps_gate"


def name_in_graph(name: str | None, kind: str, tensor: Any, ignore_name_scope: bool = False) -> str:
    """Return the name of an exchange in the graph that is being made.

    It is made of the scopes, and of the user's name or the tensor's, and has a number if the graph
    has such a name already. Ranks that make the same graph agree.
    """
    graph = tf.compat.v1.get_default_graph()
    if name is None:
        text = getattr(tensor, "name", "")
        if _CAPTURED.fullmatch(text):
            text = "captured"
        name = f"BytePS{kind}_{_NOT_IN_NAMES.sub('_', text)}"
    text = _NOT_IN_NODES.sub("_", name)
    full: str = graph.unique_name(text if text[:1].isalnum() else f"BytePS{text}")
    if ignore_name_scope:
        full = full.rpartition("/")[2]
    return _place_of(graph) + full


def _place_of(graph: Any) -> str:
    """Return what tells names in a branch or loop from those around it."""
    places: list[str] = []
    while getattr(getattr(graph, "outer_graph", None), "outer_graph", None) is not None:
        places.insert(0, _COUNT.sub("", graph.name))
        graph = graph.outer_graph
    return "".join(f"{place}/" for place in places)


def exchange_same(calls: Sequence[Call], tensors: Sequence[Any]) -> list[Any]:
    """Return the results of exchanges that are one operation: they start together."""
    texts = [_text(call) for call in calls]
    return list(operations().byteps_exchange(tensors=list(tensors), gate=_gate(), calls=texts))


def exchange_rows(call: Call, tensor: Any, splits: Any = None) -> tuple[Any, Any]:
    """Return the rows that an exchange brings, and how many are of which rank."""
    if splits is None:
        splits = tf.zeros([0], tf.int32)
    texts = [_text(call)]
    rows = operations().byteps_rows(tensor=tensor, splits=splits, gate=_gate(), calls=texts)
    return rows.rows, rows.counts


def _gate() -> Any:
    """Return a tensor that is no constant to TensorFlow: what depends on it is not computed while
    TensorFlow optimizes the graph. A graph has one."""
    graph = tf.compat.v1.get_default_graph()
    gate = getattr(graph, _GATE, None)
    if gate is None:
        with tf.control_dependencies(None):  # in no branch and no loop
            gate = tf.timestamp(name="byteps_gate")
        setattr(graph, _GATE, gate)
    return gate


def number(text: str) -> Any:
    """Return the answer to a question, or the number that an exchange brings."""
    if default.is_initialized():
        default.current().expect_calls()
    return operations().byteps_number(calls=[text])


def number_of_exchange(call: Call) -> Any:
    """Return the number that a call without a tensor brings: of a barrier, nobody needs it."""
    return number(Exchange.of(call).text())


def join() -> Any:
    """Return the rank that joins last."""
    default.current()
    return number(Exchange(Operation.JOIN, "join").text())


def _text(call: Call) -> str:
    default.current().expect_calls()  # the graph will make it, on threads of TensorFlow
    return Exchange.of(call).text()
