"""Memory does not grow with names, shapes, process sets and optimizers that come and go.

Without an end of what nobody uses, a name costs 1.3 to 2.6 KB on each rank, and one more in the
scheduler; and an optimizer of 100 parameters 300 KB on each rank.
"""

from __future__ import annotations

import growth_job
import pytest
from job_runs import what_is_missing
from shapes import FULL

PARTS = 4


@pytest.mark.skipif(
    bool(what_is_missing("torch")),
    reason=f"byteps and torch are not installed in this Python: {what_is_missing('torch')}",
)
@pytest.mark.parametrize("servers", [1, *[0] * FULL])
@pytest.mark.parametrize(
    ("kind", "count", "growth_kib"),
    [
        ("names", 3000, 2500),
        ("shapes", 3000, 2500),
        ("sets", 1800, 2000),
        ("optimizers", 30, 4000),
    ],
)
def test_what_comes_and_goes_costs_nothing_that_stays(
    kind: str, count: int, growth_kib: int, servers: int
) -> None:
    seen = growth_job.measure(kind, count, PARTS, servers)
    first, last = seen[1], seen[-1]  # in the first part the memory of what is in use comes
    assert set(first) == ({"worker", "server", "scheduler"} if servers else {"worker"})
    grown = {role: last[role] - first[role] for role in first}
    assert max(grown.values()) < growth_kib, f"{grown} KiB after the second part; {seen}"
