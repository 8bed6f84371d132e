"""What the measurements of a framework's step share: the clock, and the lines that they print."""

from __future__ import annotations

import time
from collections.abc import Callable

import byteps.numpy as bps

LATE_S = 0.4  # how late rank 1 is
ROUNDS = 3

Step = Callable[[], object]  # it returns when everything is computed


def least_ms(step: Step, repeats: int) -> float:
    """Return the shortest time of a step: the one in which other programs disturbed it least."""
    seconds = []
    for _ in range(repeats + 2):  # the first ones compile
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    return min(seconds[2:]) * 1000


def print_cost(plain: Step, exchanging: Step, gradients: int, repeats: int) -> None:
    """Print what exchanges cost a step to which nobody else contributes."""
    rounds = [(least_ms(plain, repeats), least_ms(exchanging, repeats)) for _ in range(ROUNDS)]
    for one, other in rounds:
        each = (other - one) * 1000 / gradients
        print(f"plain {one:.1f} ms, with exchanges {other:.1f} ms: {each:.0f} us for each gradient")


def print_overlap(compute: Step, exchange: Step, both: Step, repeats: int) -> None:
    """Print the times of a step without exchanges, of exchanges for which rank 1 is late, and of a
    step with these."""
    for _ in range(ROUNDS):
        times = []
        for one in (compute, exchange, both):
            bps.barrier()
            times.append(least_ms(one, repeats))
        if bps.rank() == 0:
            one, two, three = times
            print(f"compute {one:.0f} ms, exchange {two:.0f} ms, both in one step {three:.0f} ms")
