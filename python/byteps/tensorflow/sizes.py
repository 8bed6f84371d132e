"""What graphs ask each time they run: ranks, sizes, and who joins last."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from byteps.common.operations import barriers
from byteps.tensorflow import compiled, graph, kernels
from byteps.tensorflow.errors import with_tensorflow_errors


def _ask(text: str) -> Any:
    if tf.executing_eagerly():
        return tf.constant(kernels.answer(text), tf.int32)
    compiled.refuse("an operation that asks for ranks and sizes")
    return graph.number(text)


@with_tensorflow_errors
def size_op(process_set_id: int = 0, name: str | None = None) -> Any:
    """Return the number of ranks of a process set, as a scalar; -3 if there is no such set.

    In a graph it is the number when the graph runs.

    Example::

        scaled = loss * tf.cast(bps.size_op(), loss.dtype)
    """
    del name
    return _ask(f"size_of_id {process_set_id}")


@with_tensorflow_errors
def local_size_op(name: str | None = None) -> Any:
    """Return the number of workers on this machine, as a scalar.

    Example::

        threads = 16 // bps.local_size_op()
    """
    del name
    return _ask("local_size")


@with_tensorflow_errors
def rank_op(name: str | None = None) -> Any:
    """Return the number of this process among all workers, as a scalar.

    Example::

        is_first = bps.rank_op() == 0
    """
    del name
    return _ask("job_rank")


@with_tensorflow_errors
def local_rank_op(name: str | None = None) -> Any:
    """Return the number of this process among the workers of its machine, as a scalar.

    Example::

        is_first_here = bps.local_rank_op() == 0
    """
    del name
    return _ask("local_rank")


@with_tensorflow_errors
def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> Any:
    """Return 1 if this process is in the set, 0 if it is not, -1 before `init`, and -3 if there is
    no such set.

    Example::

        assert bps.process_set_included_op(0) == 1
    """
    del name
    return _ask(f"included {process_set_id}")


@with_tensorflow_errors
def join() -> Any:
    """Tell that this rank has no more data; block until all ranks have. Return the last rank, as a
    scalar.

    Until all ranks have joined, the others go on without this rank. It counts as zeros in sums,
    averages still divide by the number of all ranks, and minima, maxima and products contain only
    the other ranks.

    Example::

        for batch in uneven_data:
            train_step(batch)
        bps.broadcast_variables(model.variables, root_rank=bps.join())
    """
    if tf.executing_eagerly():
        return tf.constant(barriers.join(), tf.int32)
    compiled.refuse("join")
    return graph.join()
