"""What of byteps.jax needs no job."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import jax
import numpy as np
import pytest


def test_a_program_holds_all_of_a_call() -> None:
    from byteps.common.programs.program_exchange import Exchange, exchange_of
    from byteps.common.types import Operation

    calls = (
        Exchange(Operation.SUM, ""),
        Exchange(Operation.AVERAGE, None, ".backward", priority=-3, detail="a 'detail' ü"),
        Exchange(Operation.BROADCAST, "x", root_rank=2, ranks=(0, 2)),
        Exchange(Operation.ALLGATHER, "rows", rows=(3, 0)),
        Exchange(Operation.REDUCESCATTER, "part", combine=Operation.AVERAGE),
    )
    for call in calls:
        assert exchange_of(call.text()) == call


def test_errors_of_programs_become_errors_of_byteps() -> None:
    import byteps.jax as bps

    found = bps.error_of(RuntimeError("ABORTED: byteps error 2: rank 0 has\nrank 1 has"))
    assert type(found) is bps.MismatchError
    assert str(found) == "rank 0 has\nrank 1 has"
    assert bps.error_of(RuntimeError("RESOURCE_EXHAUSTED")) is None
    with pytest.raises(bps.PeerLostError, match="gone"), bps.typed_errors():
        raise jax.errors.JaxRuntimeError("INTERNAL: byteps error 4: worker 1 is gone")
    with pytest.raises(jax.errors.JaxRuntimeError, match="other"), bps.typed_errors():
        raise jax.errors.JaxRuntimeError("other")


def test_calls_before_init_say_so_while_tracing(core: object) -> None:
    import byteps.jax as bps

    for call in (bps.allreduce, jax.jit(bps.allreduce), jax.jit(bps.allgather)):
        with pytest.raises(bps.NotInitializedError):
            call(jax.numpy.ones(2))


def test_room_for_results_is_where_xla_shares_it() -> None:
    import numpy as np

    from byteps.numpy.memory import new_array

    for count in (1, 7, 1000):
        room = new_array((count, 3), np.dtype(np.float16))
        assert room.shape == (count, 3)
        assert room.ctypes.data % 64 == 0


def test_what_is_no_optimizer_is_refused(core: object) -> None:
    import byteps.jax as bps

    with pytest.raises(ValueError, match="optimizer of optax; this is a str"):
        bps.DistributedOptimizer("adam")


class OnDevice:
    """An array on a GPU, as far as a copy of it needs one."""

    is_fully_replicated = True
    device = SimpleNamespace(platform="gpu")

    def addressable_data(self, _: int) -> OnDevice:
        return self

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        return np.ones(2)


def test_arrays_on_a_device_are_copied_with_one_warning(caplog) -> None:
    from byteps.common.devices import warn_of_host_copies
    from byteps.jax.eager import host_array

    warn_of_host_copies.cache_clear()
    with caplog.at_level(logging.WARNING, logger="byteps"):
        for _ in range(2):
            assert host_array(OnDevice()).tolist() == [1, 1]
        assert host_array(jax.numpy.ones(2)).tolist() == [1, 1]
    (record,) = caplog.records
    assert "tensors on gpu are copied through host memory, and each call waits" in record.message


@pytest.fixture
def on_gpu(core, monkeypatch):
    """All arrays count as those of a GPU that the library reaches."""
    from byteps.common import devices
    from byteps.jax import eager

    core.devices = ["A"]
    devices.find_devices.cache_clear()
    monkeypatch.setattr(eager, "is_on_gpu", lambda _: True)
    yield core
    devices.find_devices.cache_clear()


def test_outside_of_programs_the_session_gets_the_memory_on_the_gpu(on_gpu) -> None:
    """Input and result are arrays' own memory, and JAX has ended what writes them."""
    import byteps.jax as bps
    from byteps.common.cuda_memory import NO_STREAM

    bps.init()
    array = jax.numpy.arange(6.0)
    result = bps.allreduce(array, name="x", op=bps.Sum)
    started = on_gpu.started[-1]
    assert (started.device, started.stream) == (0, NO_STREAM)
    assert started.input_pointer == array.unsafe_buffer_pointer()
    assert started.output_pointer == result.unsafe_buffer_pointer()
    assert result.tolist() == [0, 2, 4, 6, 8, 10]
    assert array.tolist() == [0, 1, 2, 3, 4, 5]
    assert not result.committed
    half = bps.reducescatter(array, name="y", op=bps.Sum)
    assert on_gpu.started[-1].output_pointer == half.unsafe_buffer_pointer()
    assert half.tolist() == [0, 2, 4]
    placed = jax.device_put(array, jax.devices()[0])
    assert bps.broadcast(placed, root_rank=0, name="z").committed
    tree = bps.push_pull({"a": array, "b": array[:2]}, average=False, name="tree")
    assert tree["b"].tolist() == [0, 2]
    assert on_gpu.started[-1].device == 0


def test_without_a_driver_arrays_on_a_gpu_are_copied_with_one_warning(core, caplog) -> None:
    from byteps.common.devices import find_devices, warn_of_host_copies
    from byteps.jax import eager

    find_devices.cache_clear()
    warn_of_host_copies.cache_clear()
    with caplog.at_level(logging.WARNING, logger="byteps"):
        for _ in range(2):
            assert np.asarray(eager._given(OnDevice())).tolist() == [1, 1]
    (record,) = caplog.records
    assert record.message.endswith("each call waits for the device: there is no driver")
    find_devices.cache_clear()


def test_a_tree_in_a_program_for_gpus_is_one_call(core, monkeypatch) -> None:
    import json

    import byteps.jax as bps
    from byteps.common.programs.program_exchange import exchange_of
    from byteps.jax import compiled, xla

    registered = []
    monkeypatch.setattr(jax.ffi, "register_ffi_target", lambda *it, **on: registered.append(on))
    for name in ("xla_handler", "xla_keep", "xla_device_handler"):
        monkeypatch.setattr(core, name, None, raising=False)
    xla.register.cache_clear()
    monkeypatch.setattr(compiled, "is_for_gpu", lambda: True)
    bps.init()

    def step(tree, name="step"):
        return bps.push_pull(tree, name=name)

    tree = {"a": jax.numpy.ones((3, 4)), "b": jax.numpy.ones(5, "float16")}
    traced = jax.jit(step).trace(tree)
    lines = traced.lower(lowering_platforms=("cuda",)).as_text().splitlines()
    calls = [line for line in lines if "custom_call" in line]
    assert len(calls) == 2, calls  # the ranks compare the tree, and exchange it
    assert "(tensor<3x4xf32>, tensor<5xf16>, tensor<ui32>) ->" in calls[1]
    text = calls[1].partition('call = "')[2].partition('"}')[0]
    text = text.replace("\\22", '"').replace("\\\\", "\\")
    assert [exchange_of(one).suffix for one in json.loads(text)] == ["['a']", "['b']"]
    assert {"platform": "CUDA"} in registered
    host = traced.lower(lowering_platforms=("cpu",)).as_text()
    assert host.count("custom_call") == 3
    with pytest.raises(bps.InvalidArgumentError, match="GPUs of NVIDIA only"):
        jax.jit(step).trace(tree).lower(lowering_platforms=("rocm",))
    xla.register.cache_clear()
