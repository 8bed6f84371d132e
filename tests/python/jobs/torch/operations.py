"""A worker: every operation of byteps.torch, with results that are known in advance."""

from __future__ import annotations

import checks
import checks_allreduce
import checks_basic
import checks_gather
import checks_gradients
import checks_join
import checks_scatter
import checks_sets
import checks_sparse
import checks_twice

if __name__ == "__main__":
    checks.run(
        checks_basic,
        checks_allreduce,
        checks_gather,
        checks_scatter,
        checks_sparse,
        checks_gradients,
        checks_twice,
        checks_sets,
        checks_join,
        times=2,
    )
