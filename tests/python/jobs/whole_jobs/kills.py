"""A worker of a job in which processes die: sums tensors whose values name the round and the ranks.

Rank r contributes to round s, at index i: 256 * ((i mod 1024) + (s mod 1024)) + 2^r. A sum modulo
256 is therefore the set of ranks in it, and the rest must agree with their number and the round.
All values are exact in float32. What each round brought is told on the socket in argv[1], as JSON;
a byte from there asks to stop, which all workers do after the same round: index 0 adds up the
wishes.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from byteps.common.errors import BytepsError
from byteps.common.request import Request
from byteps.common.session.session import Session
from byteps.common.types import DataType, Operation

PERIOD = 1024
RANKS_MAX = 8
MASKS = 1 << RANKS_MAX
Flags = npt.NDArray[np.bool_]


class Rounds:
    """The tensors of this worker and what is right for them."""

    def __init__(self, session: Session, nbytes: int) -> None:
        count = max(2, nbytes // 4)
        self.session = session
        self.input = np.empty(count, np.float32)
        self.output = np.empty(count, np.float32)
        self._expected = np.empty(count, np.float32)
        self._base = np.float32(MASKS) * (np.arange(count) % PERIOD).astype(np.float32)
        self._before = (1 << session.size) - 1  # the ranks of the last round
        self.fill(0, stop=False)

    def fill(self, step: int, stop: bool) -> None:
        """Make this rank's contribution."""
        np.add(
            self._base, np.float32(MASKS * (step % PERIOD) + (1 << self.session.rank)), self.input
        )
        self.input[0] = float(stop)

    def run(self) -> list[int]:
        """Sum over all ranks; return the receipt."""
        request = Request(
            "kills", Operation.SUM, DataType.FLOAT32, [self.input.size],
            self.input.ctypes.data, self.output.ctypes.data,
        )  # fmt: skip
        operation = self.session.start(request)
        try:
            self.session.wait(operation)
            return self.session.members_of(operation)
        finally:
            self.session.release(operation)

    def check(self, step: int, receipt: list[int]) -> tuple[str, str]:
        """Return what is wrong with the sum (nothing: empty) and what the sum was."""
        mask = sum(1 << rank for rank in receipt)
        shift = MASKS * (step % PERIOD)
        if not mask & (1 << self.session.rank):
            return f"the receipt {receipt} lacks this rank", ""
        if mask & ~self._before:
            return f"the receipt {receipt} has ranks that were lost before", ""
        right = self._equals(mask, shift)
        if right.all():
            self._before = mask
            return "", f"{mask:x}"
        # Pieces may have more ranks than the receipt says: most often those of the round before.
        right |= self._equals(self._before, shift)
        if right.all():
            self._before = mask
            return "", f"mixed {zlib.crc32(self.output):x}"
        return self._check_elements(mask, shift)

    def _equals(self, mask: int, shift: int) -> Flags:
        """Return where the sum is that of these ranks."""
        members = mask.bit_count()
        np.multiply(self._base, np.float32(members), self._expected)
        self._expected += np.float32(members * shift + mask)
        self._expected[0] = self.output[0]
        return self._expected == self.output

    def _check_elements(self, mask: int, shift: int) -> tuple[str, str]:
        """Look at every element alone."""
        masks = (self.output % MASKS).astype(np.int64)
        members = sum((masks >> rank) & 1 for rank in range(RANKS_MAX))
        right = self._base * members + members * shift + masks == self.output
        right &= (masks & mask == mask) & (masks & ~self._before == 0)
        right[0] = True
        before, self._before = self._before, mask
        if right.all():
            return "", f"mixed {zlib.crc32(self.output):x}"
        first = int(np.flatnonzero(~right)[0])
        return (
            f"{int((~right).sum())} of {right.size} elements, the first at {first}: "
            f"{self.output[first]} with ranks {int(masks[first]):b}; receipt {mask:b}, "
            f"the round before {before:b}"
        ), ""


class Link:
    """The socket to whoever watches."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)

    def say(self, **words: Any) -> None:
        """Send one line."""
        self._socket.sendall(json.dumps(words).encode() + b"\n")

    def asked_to_stop(self) -> bool:
        """Return whether a byte has come, or the watcher is gone."""
        try:
            self._socket.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK)
        except BlockingIOError:
            return False
        return True


def main() -> None:
    """Join, sum until told to stop, leave."""
    link = Link(sys.argv[1])
    session = Session()
    rank = session.rank
    link.say(rank=rank, pid=os.getpid())
    rounds = Rounds(session, int(sys.argv[2]))
    step = 0
    try:
        while True:
            begin = time.monotonic_ns()
            receipt = rounds.run()
            end = time.monotonic_ns()
            stopping = rounds.output[0] > 0
            wrong, digest = rounds.check(step, receipt)
            link.say(
                step=step, begin=begin, end=end, check=time.monotonic_ns() - end, receipt=receipt,
                digest=digest, wrong=wrong, members=session.members(),
            )  # fmt: skip
            if stopping:
                break
            step += 1
            rounds.fill(step, link.asked_to_stop())
        session.shutdown()
        link.say(left=step)
    except BytepsError as error:
        link.say(error=type(error).__name__, text=str(error), step=step)
        raise


if __name__ == "__main__":
    main()
