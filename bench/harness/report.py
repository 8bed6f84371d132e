"""Tables on the terminal, in Markdown and in JSON, with what the machine was."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def busy_seconds() -> float:
    """Return the CPU seconds that the whole machine has spent so far, on anything."""
    fields = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / TICKS_PER_SECOND


def machine() -> dict[str, Any]:
    """Describe where this was measured."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def _text(value: object) -> str:
    return "" if value is None else str(value)


class Report:
    """Rows of one benchmark."""

    def __init__(self, title: str, path: str, settings: dict[str, Any]) -> None:
        self._title = title
        self._path = Path(path)
        self._settings = settings
        self._machine = machine()
        self._rows: list[dict[str, Any]] = []
        self._details: list[dict[str, Any]] = []
        self._console = Console(width=max(120, Console().width))
        self._path.parent.mkdir(parents=True, exist_ok=True)

    def say(self, text: str) -> None:
        """Tell how far it is."""
        self._console.print(text, style="dim", highlight=False)

    def add(self, row: dict[str, Any], details: dict[str, Any] | None = None) -> None:
        """Take a row; it is on disk when this returns."""
        self._rows.append(row)
        self._details.append({**row, **(details or {})})
        self._write()

    def finish(self) -> None:
        """Print the table."""
        if not self._rows:
            return
        table = Table(title=self._title)
        for column in self._rows[0]:
            table.add_column(column, justify="right")
        for row in self._rows:
            table.add_row(*[_text(value) for value in row.values()])
        self._console.print(table)
        self._console.print(f"written: {self._path}.md, {self._path}.json")

    def _write(self) -> None:
        whole = {
            "title": self._title,
            "machine": self._machine,
            "settings": self._settings,
            "rows": self._details,
        }
        self._path.with_suffix(".json").write_text(json.dumps(whole, indent=1) + "\n")
        columns = list(self._rows[0])
        lines = [
            f"# {self._title}",
            "",
            f"Machine: {self._machine}",
            "",
            "| " + " | ".join(columns) + " |",
            "|" + "---|" * len(columns),
        ]
        lines += [
            "| " + " | ".join(_text(row.get(c)) for c in columns) + " |" for row in self._rows
        ]
        self._path.with_suffix(".md").write_text("\n".join(lines) + "\n")
