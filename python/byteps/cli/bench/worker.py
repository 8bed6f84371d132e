"""A worker of `bps bench`: measures, in turn with the others, and rank 0 tells the results.

`python -m byteps.cli.bench.worker PLAN`, under a launcher.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from byteps.cli.bench.arrays import Arrays, installed_arrays
from byteps.cli.bench.bound import Copy, least_seconds, link_loads
from byteps.cli.bench.link import Link, Ring
from byteps.cli.bench.plan import RESULT_MARK, Plan, iterations_for, read_plan, size_text
from byteps.cli.doctor.machine import interface_of
from byteps.common.errors import InternalError
from byteps.common.job.launch_environment import own_address

_WARM_UPS = 2
_GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"


class Bench:
    """One worker."""

    def __init__(self, plan: Plan, arrays: Arrays) -> None:
        """REQUIRES: the job has begun."""
        self._plan = plan
        self._arrays = arrays
        self._bps = arrays.bps
        self._loads = link_loads(plan.workers, plan.servers)
        self._ring: Ring | None = None

    def run(self) -> None:
        """Measure all sizes."""
        bps, plan = self._bps, self._plan
        no_gloo = self._begin_gloo() if plan.gloo else "--no-gloo"
        crosses = self._loads > 0 and bps.cross_size() > 1
        if crosses:
            self._ring = Ring(bps.cross_rank(), bps.local_rank() == 0, bps.allgather_object)
        self._tell(
            kind="begin",
            workers=bps.size(),
            machines=bps.cross_size(),
            adapter=bps.__name__,
            versions=self._arrays.versions,
            without_gloo=no_gloo,
            link_loads=self._loads if crosses else 0.0,
        )
        for nbytes in plan.sizes:
            self._tell(kind="progress", text=f"measuring {size_text(nbytes)}")
            self._tell(kind="size", **self._measure(nbytes, with_gloo=not no_gloo))
        if self._ring is not None:
            self._ring.close()
        if not no_gloo:
            self._arrays.end_gloo()

    def _begin_gloo(self) -> str:
        """Return why Gloo is left out, the same on all ranks; nothing if it takes part."""
        bps = self._bps
        if bps.size() == 1:
            return "there is only one worker"
        if bps.cross_size() > 1 and _GLOO_INTERFACE not in os.environ:
            # Gloo would take the address that the host's own name stands for.
            interface = interface_of(own_address(on_one_machine=False))
            if interface:
                os.environ[_GLOO_INTERFACE] = interface
        problems = enumerate(bps.allgather_object(self._arrays.begin_gloo()))
        return next((f"{text} (rank {rank})" for rank, text in problems if text), "")

    def _measure(self, nbytes: int, with_gloo: bool) -> dict[str, Any]:
        arrays, plan = self._arrays, self._plan
        arrays.prepare(nbytes)
        copy = Copy(nbytes)
        kinds: dict[str, Callable[[], None]] = {"in_place": arrays.in_place}
        kinds["new_tensor"] = arrays.new_tensor
        if with_gloo:
            kinds["gloo"] = arrays.gloo
        kinds["copy"] = copy.make
        self._check(nbytes)
        link = self._link()
        counts = {kind: self._iterations(call) for kind, call in kinds.items()}
        times: dict[str, list[float]] = {kind: [] for kind in kinds}
        for repeat in range(plan.repeats):
            # In another order each time: what comes after another may suffer from it.
            for kind in random.Random(repeat).sample(list(kinds), len(kinds)):
                times[kind].append(self._timed(kinds[kind], counts[kind]))
        slowest = _slowest_of(self._bps.allgather_object(times))
        medians = {kind: statistics.median(all_times) for kind, all_times in slowest.items()}
        copy_s = medians.pop("copy")
        known = link if isinstance(link, Link) else None
        return {
            "bytes": nbytes,
            "seconds": medians,
            "copy_s": copy_s,
            "link": vars(link) if isinstance(link, Link) else None,
            "link_problem": link if isinstance(link, str) else "",
            "bound_s": None if isinstance(link, str) else
            least_seconds(nbytes, copy_s, self._loads, known),
            "iterations": counts,
            "all_seconds": slowest,
        }  # fmt: skip

    def _check(self, nbytes: int) -> None:
        """See that the sum is right, and warm up."""
        size = self._bps.size()
        self._arrays.in_place()
        wanted = size * (size + 1) / 2
        if any(value != wanted for value in self._arrays.values()):
            raise InternalError(
                f"the sum of {size_text(nbytes)} is {list(self._arrays.values())}, and it should "
                f"be {wanted}."
            )
        self._arrays.clear()

    def _link(self) -> Link | str | None:
        return self._ring.measure() if self._ring is not None else None

    def _iterations(self, call: Callable[[], None]) -> int:
        for _ in range(_WARM_UPS):
            call()
        number: int = self._bps.broadcast_object(iterations_for(self._timed(call, 1)), 0)
        return number

    def _timed(self, call: Callable[[], None], iterations: int) -> float:
        self._bps.barrier()
        began = time.perf_counter()
        for _ in range(iterations):
            call()
        return (time.perf_counter() - began) / iterations

    def _tell(self, **result: Any) -> None:
        if self._bps.rank() == 0:
            print(RESULT_MARK + json.dumps(result), flush=True)


def _slowest_of(of_ranks: list[dict[str, list[float]]]) -> dict[str, list[float]]:
    """Return the times of the rank that took longest, for each repeat."""
    kinds = of_ranks[0]
    return {kind: [max(times) for times in zip(*(one[kind] for one in of_ranks), strict=True)]
            for kind in kinds}  # fmt: skip


def main() -> None:
    """Join the job, measure, leave."""
    plan = read_plan(sys.argv[1])
    arrays = installed_arrays()
    arrays.bps.init()
    Bench(plan, arrays).run()
    arrays.bps.shutdown()


if __name__ == "__main__":
    main()
