"""The mark of tests that run whole jobs of torch: they are skipped where something is missing."""

import importlib.metadata

import pytest
from job_runs import what_is_missing

MISSING = what_is_missing("torch")
needs_torch = pytest.mark.skipif(
    bool(MISSING), reason=f"byteps and torch are not installed in this Python: {MISSING}"
)


def loads_entry_points() -> bool:
    """Return whether `import torch` calls what packages name in the group `torch.backends`."""
    if MISSING:
        return False
    return tuple(map(int, importlib.metadata.version("torch").split(".")[:2])) >= (2, 5)


needs_entry_points = pytest.mark.skipif(
    not loads_entry_points(), reason="torch before 2.5 loads no entry points"
)
