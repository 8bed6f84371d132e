"""A worker of a job of the doctor: how fast do tensors go to the servers and back?

Run as a program: a line of JSON comes in with settings of the library, bytes and seconds; a line
goes out with the rate. Two tensors are on their way at any time, so a link is never idle.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time

from byteps import _core
from byteps.common.types import DataType, Operation

_WAIT_MS = 20_000
_ITEM_BYTES = 4
_TENSORS = 2
# As with plain bytes: the first part is not measured.
_WARM_UP = 0.3


def measure(settings: list[str], nbytes: int, seconds: float) -> dict[str, float]:
    """Return the rate in Mbit/s of tensor that went one way, and all bytes that went.

    The sums came back meanwhile.
    """
    session = _core.Session(settings, _core.Opening())
    inputs = [ctypes.create_string_buffer(nbytes) for _ in range(_TENSORS)]
    outputs = [ctypes.create_string_buffer(nbytes) for _ in range(_TENSORS)]

    def start(i: int) -> int:
        return session.start(
            f"byteps.doctor.{i}",
            Operation.SUM,
            DataType.FLOAT32,
            [nbytes // _ITEM_BYTES],
            ctypes.addressof(inputs[i]),
            ctypes.addressof(outputs[i]),
            0,
            0,
        )

    # All workers of the job do as many rounds: how many, the first ones tell.
    began = time.perf_counter()
    for _ in range(_TENSORS):
        _finish(session, start(0))
    each = (time.perf_counter() - began) / _TENSORS
    rounds = _agreed(session, max(2 * _TENSORS, int(seconds / max(each, 1e-6))))
    warm_up = int(rounds * _WARM_UP)
    flying = [start(i) for i in range(_TENSORS)]
    for done in range(rounds):
        place = done % _TENSORS
        _finish(session, flying[place])
        if done == warm_up:
            began = time.perf_counter()
        flying[place] = start(place)
    elapsed = time.perf_counter() - began
    for handle in flying:
        _finish(session, handle)
    session.shutdown()
    mbit = (rounds - 1 - warm_up) * nbytes * 8 / elapsed / 1e6
    return {"mbit": mbit, "bytes": (2 * _TENSORS + rounds) * nbytes}


def _finish(session: _core.Session, handle: int) -> None:
    session.wait(handle, _WAIT_MS)
    session.release(handle)


def _agreed(session: _core.Session, number: int) -> int:
    """Return the smallest number of all workers."""
    given, taken = ctypes.c_int64(number), ctypes.c_int64()
    handle = session.start(
        "byteps.doctor.rounds",
        Operation.MIN,
        DataType.INT64,
        [1],
        ctypes.addressof(given),
        ctypes.addressof(taken),
        0,
        0,
    )
    _finish(session, handle)
    return taken.value


def main() -> None:
    """Read the order, measure, write the result."""
    order = json.loads(sys.stdin.readline())
    print(json.dumps(measure(order["settings"], order["bytes"], order["seconds"])), flush=True)


if __name__ == "__main__":
    main()
