"""A worker that exchanges objects, and says what came of it.

Arguments: "as-nobody": it gives up root first, and so belongs to another user than the job.
"""

from __future__ import annotations

import os
import sys

import torch

import byteps._core  # noqa: F401 - before this process may read nothing any more
import byteps.torch as bps

NOBODY = 65534


def refused(function, *arguments) -> bool:
    """Return whether a call is refused; it must not wait for anybody then."""
    try:
        function(*arguments)
    except bps.RefusedError as error:
        text = str(error)
    else:
        return False
    assert "Set BYTEPS_JOB_SECRET" in text, text
    assert "BYTEPS_ALLOW_OBJECTS=1" in text, text
    return True


def main() -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer.load_state_dict(optimizer.state_dict())  # torch imports more only now
    if "as-nobody" in sys.argv:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    try:
        bps.init()
    except bps.BytepsError as error:
        os.write(1, f"not in the job: {type(error).__name__}: {error}\n".encode())
        sys.exit(3)
    rank = bps.rank()
    # Ranks call them at different times, so a rank that waited would wait for ever.
    functions = [
        (bps.broadcast_object, {"rank": rank}, 0),
        (bps.allgather_object, rank),
        (bps.broadcast_optimizer_state, optimizer, 0),
    ]
    how = [refused(*function) for function in functions]
    assert len(set(how)) == 1, how
    if not how[0]:
        assert bps.broadcast_object({"rank": rank}, 0) == {"rank": 0}
        assert bps.allgather_object(rank) == list(range(bps.size()))
    bps.broadcast_parameters(model.state_dict(), 0)  # no objects
    os.write(1, f"objects of rank {rank}: {'refused' if how[0] else 'taken'}\n".encode())
    bps.barrier()


main()
