"""A worker without a framework: sums a few numbers, and goes on until it is ended if asked to."""

from __future__ import annotations

import array
import os
import sys

from byteps.common.request import Request
from byteps.common.session.session import Session
from byteps.common.types import DataType, Operation

COUNT = 1000


def add_up(session: Session, data: array.array[float]) -> None:
    """Sum the tensor in place over all workers."""
    address, _ = data.buffer_info()
    request = Request("small", Operation.SUM, DataType.FLOAT32, [COUNT], address, address)
    operation = session.start(request)
    try:
        session.wait(operation)
    finally:
        session.release(operation)


def main() -> None:
    """Join, exchange, say so, leave."""
    session = Session()
    data = array.array("f", [session.rank + 1.0] * COUNT)
    add_up(session, data)
    expected = session.size * (session.size + 1) / 2
    assert data == array.array("f", [expected] * COUNT), data[:10]
    print(f"job {os.environ.get('BYTEPS_JOB_ID', 'without an id')}", flush=True)
    print(f"exchanged {session.rank}", flush=True)
    while sys.argv[1:] == ["forever"]:
        add_up(session, array.array("f", [1.0] * COUNT))
    session.shutdown()


main()
