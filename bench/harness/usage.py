"""What a program that is measured has used."""

from __future__ import annotations

import resource


def cpu_seconds() -> float:
    """Return the processor time of this process, of all its threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
