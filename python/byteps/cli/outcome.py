"""How a job ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from byteps.cli.children import ProcessSpec


@dataclass
class Outcome:
    """The exit code of the launcher, and the processes by name."""

    exit_code: int = 0
    finished: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def is_well(self) -> bool:
        """Return whether all has ended as it should."""
        return self.exit_code == 0 and not self.failed

    def losses(self, specs: Sequence[ProcessSpec]) -> str:
        """Return what to say at the end of a job that has gone on without some of its workers."""
        workers = [spec.label for spec in specs if spec.is_worker]
        lost = [label for label in workers if label in self.failed]
        if self.exit_code != 0 or not lost:
            return ""
        left = len(workers) - len(lost)
        return f"ended with {left} of {len(workers)} workers; lost: {', '.join(lost)}"
