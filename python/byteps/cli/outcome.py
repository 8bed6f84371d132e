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
        """Return what to say at the end of a job that has gone on without some processes."""
        if self.exit_code != 0:
            return ""
        texts = []
        for role in ("worker", "server"):
            of_label = {spec.label: spec.count(role) for spec in specs if spec.count(role)}
            lost = [label for label in of_label if label in self.failed]
            if lost:
                all_of_them = sum(of_label.values())
                left = all_of_them - sum(of_label[label] for label in lost)
                texts.append(f"ended with {left} of {all_of_them} {role}s; lost: {', '.join(lost)}")
        return "; ".join(texts)
