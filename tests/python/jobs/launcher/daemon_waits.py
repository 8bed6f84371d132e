"""A worker of two that ends in order, again and again, while a daemon thread waits.

Each end is that of a child process, so that frameworks are imported once. The arguments are who
waits and how often the worker ends.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable

import numpy as np

import byteps.numpy as bps
from byteps.common.errors import BytepsError
from byteps.common.session import default

THREADS = 64


def wait_for_ever(name: str, waits: threading.Barrier) -> None:
    """Wait for an operation that the other rank does not make."""
    handle = bps.allreduce_async(np.ones(4), name=name)
    waits.wait()
    try:
        bps.synchronize(handle)
    except BytepsError:
        return


def threads_of_the_user() -> None:
    """Rank 0: several threads wait."""
    waits = threading.Barrier(THREADS + 1)
    for number in range(THREADS):
        arguments = (f"alone.{number}", waits)
        threading.Thread(target=wait_for_ever, args=arguments, daemon=True).start()
    waits.wait()


def mixed_group() -> None:
    """Rank 0: nobody waits but the library itself, for the first operation of a group."""
    for number in range(THREADS):
        tensors = [np.ones(4, np.float32), np.ones(4, np.float64)]
        handle = bps.grouped_allreduce_async(tensors, name=f"group.{number}")
        int(handle)  # so the group is not abandoned


def futures() -> None:
    """Rank 0: the thread of a group of torch.distributed waits, to complete a future."""
    import torch
    import torch.distributed as dist

    import byteps.torch  # noqa: F401

    dist.init_process_group("byteps")
    if default.rank() == 0:
        for _ in range(THREADS):
            dist.all_reduce(torch.ones(4), async_op=True).get_future()


WAYS: dict[str, Callable[[], None]] = {
    "threads": threads_of_the_user,
    "group": mixed_group,
    "futures": futures,
}


def live(way: str) -> None:
    """Join, let something wait, and end."""
    bps.init()
    sys.setswitchinterval(1000)  # seconds: so threads come back while the interpreter ends
    total = bps.allreduce(np.ones(2), name="total", op=bps.Sum)
    assert total.tolist() == [bps.size()] * 2
    if way == "futures" or bps.rank() == 0:
        WAYS[way]()


if __name__ == "__main__":
    way, ends = sys.argv[1], int(sys.argv[2])
    if way == "futures":
        importlib.import_module("torch.distributed")
    for _ in range(ends):
        child = os.fork()
        if child == 0:
            live(way)
            sys.exit(0)  # a return would do the same: the interpreter ends in order
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0, os.waitstatus_to_exitcode(status)
    print(f"all right after {ends} ends", flush=True)
