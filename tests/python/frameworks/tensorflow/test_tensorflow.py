"""What of byteps.tensorflow needs no job."""

from __future__ import annotations

import logging
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def tf() -> ModuleType:
    """Import TensorFlow for a test that uses it: every process of pytest imports this file."""
    import tensorflow

    return tensorflow


def test_calls_before_init_say_so(tf: Any, core: object) -> None:
    import byteps.tensorflow as bps

    for call in (bps.allreduce, bps.allgather, tf.function(bps.allreduce)):
        with pytest.raises(bps.NotInitializedError):
            call(tf.ones(2))
    assert int(bps.process_set_included_op()) == -1


def test_names_in_graphs_are_made_of_scopes_and_names(tf: Any) -> None:
    from byteps.tensorflow.graph import name_in_graph

    found = []

    @tf.function
    def trace(x: tf.Tensor) -> tf.Tensor:
        with tf.name_scope("outer"):
            found.append(name_in_graph("given", "Allreduce", x))
            found.append(name_in_graph("given", "Allreduce", x))
            found.append(name_in_graph(None, "Allreduce", x))
            found.append(name_in_graph("short", "Allreduce", x, ignore_name_scope=True))

        def branch() -> tf.Tensor:
            found.append(name_in_graph("given", "Allreduce", x))
            return x

        return tf.cond(tf.reduce_sum(x) > 0, branch, lambda: x)

    trace(tf.ones(2))
    assert found[:4] == ["outer/given", "outer/given_1", "outer/BytePSAllreduce_x_0", "short"]
    assert found[4] == "cond_true/cond/given"


def test_names_are_the_same_in_each_trace(tf: Any) -> None:
    from byteps.tensorflow.graph import name_in_graph

    found = []

    @tf.function
    def trace(x: tf.Tensor) -> tf.Tensor:
        found.append(name_in_graph(None, "PushPull", x * 2))
        return x

    for rows in (1, 2, 3):
        trace(tf.ones([rows]))
    assert len(found) > 1
    assert len(set(found)) == 1


def test_errors_of_graphs_become_errors_of_byteps(tf: Any) -> None:
    import byteps.tensorflow as bps

    text = "{{function_node f}} byteps error 2: ranks disagree\n\t [[{{node x}}]] [Op:f]"
    found = bps.error_of(tf.errors.FailedPreconditionError(None, None, text))
    assert type(found) is bps.MismatchError
    assert str(found) == "ranks disagree"
    text = f"byteps error 2: {bps.NotInitializedError()}"
    error = tf.errors.FailedPreconditionError(None, None, text)
    assert type(bps.error_of(error)) is bps.NotInitializedError


def test_a_tape_keeps_its_class_and_its_recording(tf: Any, core: object) -> None:
    import byteps.tensorflow as bps

    class OwnTape(tf.GradientTape):
        """A user's tape."""

    x = tf.Variable([1.0, 2.0])
    with OwnTape(persistent=True) as tape:
        tf.reduce_sum(x * x)
    distributed = bps.DistributedGradientTape(tape)
    assert isinstance(distributed, OwnTape)
    assert type(distributed).__name__ == "OwnTape"
    assert distributed.watched_variables() == tape.watched_variables()


def test_options_that_make_no_sense_are_refused(tf: Any, core: object) -> None:
    import byteps.tensorflow as bps

    tape = tf.GradientTape()
    for options in (
        {"op": bps.Sum, "gradient_predivide_factor": 2.0},
        {"groups": -1},
        {"groups": [tf.Variable(1.0)]},
        {"compression": "fp16"},
    ):
        with pytest.raises(ValueError, match=r"."):
            bps.DistributedGradientTape(tape, **options)
    with pytest.raises(ValueError, match="local_layers"):
        bps.PartialDistributedGradientTape(tape, local_layers="dense")
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
    with pytest.raises(ValueError, match="backward_passes_per_step"):
        bps.DistributedOptimizer(optimizer, backward_passes_per_step=0)
    with pytest.raises(ValueError, match="eager"):
        bps.DistributedOptimizer(optimizer, backward_passes_per_step=2)
    with pytest.raises(ValueError, match="doesn't inherit"):
        bps.DistributedOptimizer(object())


def test_every_public_function_has_a_row_of_odd_tensors() -> None:
    import tensorflow_odd

    import byteps.tensorflow as bps
    from byteps.common import basics

    names = {*bps.__all__} - {*basics.__all__}
    assert {*tensorflow_odd.ROWS, *tensorflow_odd.WITHOUT_TENSORS} == names


def test_every_public_function_of_keras_has_a_row_of_odd_tensors(tf: Any, monkeypatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    if not tf.keras.__version__.startswith("3."):
        pytest.skip("the names of byteps.keras need Keras 3")
    import keras_odd

    import byteps.keras
    import byteps.tensorflow.keras
    from byteps.common import basics

    for module in (byteps.keras, byteps.tensorflow.keras):
        names = {*module.__all__} - {*basics.__all__}
        assert {*keras_odd.ROWS, *keras_odd.WITHOUT_TENSORS} == names


def test_tensors_on_a_device_are_copied_with_one_warning(tf: Any, caplog) -> None:
    from byteps.common.devices import warn_of_host_copies
    from byteps.tensorflow.eager import host_array

    on_device = SimpleNamespace(
        device="/job:localhost/replica:0/task:0/device:GPU:0", numpy=lambda: np.ones(2)
    )
    warn_of_host_copies.cache_clear()
    with caplog.at_level(logging.WARNING, logger="byteps"):
        for tensor in (on_device, on_device, tf.ones(2)):
            assert host_array(tensor).tolist() == [1, 1]
    (record,) = caplog.records
    assert "tensors on GPU are copied through host memory, and each call waits" in record.message
