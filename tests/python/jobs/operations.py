"""A worker: every operation of byteps.torch, with results that are known in advance."""

from __future__ import annotations

import checks_allreduce
import checks_basic
import checks_gather
import checks_gradients
import checks_join
import checks_mismatch
import checks_scatter
import checks_sets
import checks_sparse
import torch

import byteps.torch as bps

MODULES = (
    checks_basic,
    checks_allreduce,
    checks_gather,
    checks_scatter,
    checks_sparse,
    checks_gradients,
    checks_sets,
    checks_join,
    checks_mismatch,
)


def main() -> None:
    torch.set_num_threads(1)
    for _ in range(2):  # init after shutdown works
        bps.init()
        rank, size = bps.rank(), bps.size()
        assert (bps.local_rank(), bps.local_size()) == (rank, size)
        for module in MODULES:
            for name, check in sorted(vars(module).items()):
                if name.startswith("check_"):
                    check(rank, size)
                    bps.barrier(name=f"after {module.__name__} {name}")
        bps.shutdown()
    print(f"all right {rank}/{size}")


if __name__ == "__main__":
    main()
