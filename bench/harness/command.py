"""What a benchmark that is a command needs, beside what it measures."""

from __future__ import annotations

import argparse
import signal
from typing import Any


def end_on_signals() -> None:
    """Let signals end this in order: what was set up is taken down again."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)


def settings_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that a report shows."""
    shown = dict(vars(arguments))
    shown.pop("output")
    return shown
