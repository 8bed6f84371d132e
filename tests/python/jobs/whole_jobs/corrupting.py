"""Rank 1 writes nonsense into what it shares with rank 0, which must end in an error, not crash."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

import byteps.torch as bps

Found = TypeVar("Found")
STEPS = 300
# At the end of the shared memory: the rings of words, and before their end small parts.
PLACES_BYTES = 16 << 13
RING_BYTES = (32 << 10) + 128


def rings(ranks: int) -> np.ndarray:
    """Return the bytes of the rings in which the ranks of this machine tell each other words."""
    maps = Path("/proc/self/maps").read_text()
    found = re.search(r"^(\w+)-(\w+) rw-s .* /memfd:byteps \(deleted\)$", maps, re.MULTILINE)
    assert found, "this process shares no memory with others"
    end = int(found[2], 16) - ranks * PLACES_BYTES
    begin = end - 2 * ranks * RING_BYTES
    return np.frombuffer((ctypes.c_uint8 * (end - begin)).from_address(begin), np.uint8)


def corrupt(over: threading.Event, shared: np.ndarray, seed: int) -> None:
    """Overwrite random bytes, small numbers more often: these pass for what they are not."""
    random = np.random.default_rng(seed)
    while not over.is_set():
        where = random.integers(len(shared), size=64)
        shared[where] = random.integers(256, size=64) >> random.integers(8)


def wait_for(what: str, looks: Callable[[], Found | None]) -> Found:
    """Return what a look finds, within a minute."""
    limit = time.monotonic() + 60
    while (found := looks()) is None:
        assert time.monotonic() < limit, what
        time.sleep(0.01)
    return found


def stands_still(process: int) -> bool | None:
    """Return True if the process is stopped, else None."""
    state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "T" or None


def lengthen(shared: np.ndarray, carrier: int, name: str, piece_bytes: int) -> None:
    """Start a sum, and tell the carrier that a gigabyte of its piece is pushed.

    The carrier stands still before it has begun the sum: of what the ranks say of a sum, the word
    that comes first counts.
    """
    os.kill(carrier, signal.SIGSTOP)
    wait_for("the carrier has not stopped", lambda: stands_still(carrier))
    try:
        handle = bps.allreduce_async(torch.ones(piece_bytes // 4), name=name)
        # Behind the name, and what is said of all pieces: a count, the bytes of a piece, an
        # offset, and how many of the bytes are pushed.
        run = struct.pack("<II", 1, piece_bytes)
        said = re.compile(name.encode() + b".{0,80}?" + run, re.DOTALL)
        found = wait_for(
            "the rank has not told the carrier of the sum", lambda: said.search(shared.tobytes())
        )
        pushed = shared[found.end() + 4 : found.end() + 8]
        assert pushed.tobytes() == struct.pack("<I", piece_bytes)
        pushed[:] = np.frombuffer(struct.pack("<I", 1 << 30), np.uint8)
    finally:
        os.kill(carrier, signal.SIGCONT)
    bps.synchronize(handle)


def step_until_an_error(rank: int) -> None:
    """Exchange what the other ranks exchange."""
    rows = torch.ones(rank + 1, 7)
    bps.allreduce(torch.ones(100), name="lengthened")
    for step in range(STEPS):
        bps.allreduce(torch.ones(3000), name=f"sum {step % 50}")
        bps.allgather(rows, name=f"gather {step % 50}")


def main() -> None:
    """Step until an error, and say that this process has lived to tell."""
    continued = threading.Event()
    signal.signal(signal.SIGCONT, lambda *_: continued.set())
    bps.init()
    rank = bps.rank()
    carrier = int(bps.allgather(torch.tensor([os.getpid()]), name="processes")[0])
    over = threading.Event()
    try:
        if rank == 1 and sys.argv[1] == "length":
            lengthen(rings(bps.local_size()), carrier, "lengthened", 400)
        elif rank == 1:
            arguments = (over, rings(bps.local_size()), int(sys.argv[1]))
            threading.Thread(target=corrupt, args=arguments, daemon=True).start()
        if rank == 0 and sys.argv[1] == "length":
            # Rank 1 stops this process when it has heard whom to stop, which this process brings.
            # It looks again and again: if another thread takes the signal, nothing wakes this one.
            wait_for(
                "rank 1 has not stopped and continued this process",
                lambda: continued.is_set() or None,
            )
        step_until_an_error(rank)
        how = "no error"
    except Exception as error:
        how = f"{type(error).__name__}: {error}"
    over.set()
    print(f"rank {rank} lives: {how}", flush=True)
    os._exit(0)


main()
