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


def test_arrays_on_a_device_are_copied_with_one_warning(caplog) -> None:
    from byteps.common.devices import warn_of_host_copies
    from byteps.jax.eager import host_array

    class OnDevice:
        is_fully_replicated = True
        device = SimpleNamespace(platform="gpu")

        def addressable_data(self, _: int) -> OnDevice:
            return self

        def __array__(self, *_: object, **__: object) -> np.ndarray:
            return np.ones(2)

    warn_of_host_copies.cache_clear()
    with caplog.at_level(logging.WARNING, logger="byteps"):
        for _ in range(2):
            assert host_array(OnDevice()).tolist() == [1, 1]
        assert host_array(jax.numpy.ones(2)).tolist() == [1, 1]
    (record,) = caplog.records
    assert "tensors on gpu are copied through host memory, and each call waits" in record.message
