"""Finds the programs that tests start as ranks, in the rooms of jobs/."""

from __future__ import annotations

from pathlib import Path

JOBS = Path(__file__).with_name("jobs")
# Tests and programs find modules in the rooms. jobs/ itself is on no path, because its rooms have
# the names of frameworks.
ROOMS = sorted(path for path in JOBS.iterdir() if path.is_dir() and path.name != "__pycache__")


def rank_program(name: str) -> str:
    """Return the path of a program. Its name is enough, because no two rooms have the same."""
    (found,) = JOBS.glob(f"*/{name}.py")
    return str(found)
