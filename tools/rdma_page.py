"""Writes into the table of docs/rdma.md what `./dev lane rdma --device D --peer H` has run.

    rdma_page.py PAGE COLUMN --suites TEXT [--figures FILE]

COLUMN is "card" or "Soft-RoCE". FILE is what bench/rdma.py has written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SUITES = ("contract of verbs", "conformance suite", "whole jobs in one process")
BETWEEN_HOSTS = "a job between two hosts"
FIGURES = "rate, processor time"


def with_cell(page: str, row: str, column: str, text: str) -> str:
    """Return the page with another text in a cell of its table; the row begins with `row`."""
    lines = page.splitlines(keepends=True)
    places = None
    for number, line in enumerate(lines):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            places = None
        elif column in cells:
            places = cells
        elif places is not None and cells[0].startswith(row):
            cells[places.index(column)] = text
            lines[number] = "| " + " | ".join(cells) + " |\n"
            return "".join(lines)
    raise ValueError(f"the page has no row '{row}' below a column '{column}'")


def text_of(figures: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the figures of RDMA beside those of TCP, for a cell."""
    parts = []
    for transport in ("rdma", "tcp"):
        found = figures[transport]
        cpu = found["worker_cpu_s_per_GB"], found["server_cpu_s_per_GB"]
        if min(cpu) <= 0:
            raise ValueError(
                f"the jobs over {transport} were too short to measure processors; measure again"
                ' with more rounds, such as DEV_RDMA_BENCH="--rounds 300"'
            )
        sleeps = found["worker_sleeps_per_GB"] + found["server_sleeps_per_GB"]
        parts.append(
            f"{transport.upper()} {found['MB_per_s']:.0f} MB/s each way,"
            f" {cpu[0]:.2f} + {cpu[1]:.2f} s/GB (worker, server), {sleeps:.0f} wake-ups/GB"
        )
    return "; ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("column", choices=("card", "Soft-RoCE"))
    parser.add_argument("--suites", required=True, help="what the rows of the suites shall say")
    parser.add_argument("--figures", type=Path)
    arguments = parser.parse_args()
    page = arguments.page.read_text()
    rows = dict.fromkeys(SUITES, arguments.suites)
    try:
        if arguments.figures is not None:
            rows[BETWEEN_HOSTS] = arguments.suites
            rows[FIGURES] = text_of(json.loads(arguments.figures.read_text()))
        for row, text in rows.items():
            page = with_cell(page, row, arguments.column, text)
    except ValueError as error:
        sys.exit(f"{arguments.page}: {error}")
    arguments.page.write_text(page)


if __name__ == "__main__":
    main()
