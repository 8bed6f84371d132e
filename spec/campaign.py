"""The large campaign, cheapest first; what was measured stands in README.md."""

from __future__ import annotations

from runs import Run, large

LARGE: tuple[Run, ...] = (
    large("L data 2x1x2 worker+server", "data_plane", "NR=2 ACKS=1 WCRASH=1 SCRASH=1"),
)
