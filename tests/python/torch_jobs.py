"""The mark of tests that run whole jobs of torch: they are skipped where something is missing."""

import pytest
from job_runs import what_is_missing

MISSING = what_is_missing("torch")
needs_torch = pytest.mark.skipif(
    bool(MISSING), reason=f"byteps and torch are not installed in this Python: {MISSING}"
)
