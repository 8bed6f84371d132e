"""The web page of the status port, in a headless browser."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
import time

import browser
import job_runs
import pytest
import torch_jobs
from job_runs import job
from processes import LIMIT_S, finish, free_ports, wait_for_line

environment = job_runs.environment
pytestmark = [
    torch_jobs.needs_torch,
    pytest.mark.skipif(bool(browser.why_not()), reason=browser.why_not()),
]

# How many points of a plot have a colour that no axis has.
DRAWN = """(() => {
  const canvas = document.getElementById("late");
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let count = 0;
  for (let i = 0; i < data.length; i += 4)
    if (data[i + 3] && Math.abs(data[i] - data[i + 1]) > 20) ++count;
  return count;
})()"""


# The rows of servers, each as the texts of its cells.
SERVERS = """[...document.querySelectorAll("#members tr")]
  .map(row => [...row.cells].map(cell => cell.innerText)).filter(cells => cells[0] === "server")"""


def server_works(cells: list[str]) -> bool:
    """Return whether the row of a server has the bytes that come in, and processor time."""
    return float(cells[6] or 0) > 0 and cells[10].isdecimal()


def test_the_live_page_names_the_straggler_and_draws(environment, tmp_path) -> None:
    port, go_on = str(free_ports(1)[0]), tmp_path / "go_on"
    go_on.touch()
    told = environment | {"BYTEPS_STATUS_PORT": port}
    process = job(told, "straggling", 3, 1, arguments=("1", str(go_on)))
    wait_for_line(process, "the job runs")
    with browser.opened(tmp_path / "browser", 1000, 700) as page:
        page.open(f"http://127.0.0.1:{port}/live")
        page.wait_until(
            'document.getElementById("state").textContent', lambda text: "rank 1 is late" in text
        )
        rows = '[...document.querySelectorAll("#members tr")].map(row => row.innerText)'
        told_rows = page.wait_until(rows, lambda found: len(found) == 4)
        assert sum("worker" in row for row in told_rows) == 3
        page.wait_until(SERVERS, lambda found: len(found) == 1 and server_works(found[0]))
        points = 60 if browser.PICTURES_VARIABLE in os.environ else 4
        page.wait_until("rates.get(0).length", lambda count: count >= points)
        page.wait_until(DRAWN)
        page.picture("live", 1000, 450)
        shown = ""
        # On a busy machine another rank is the latest for a moment.
        until = time.monotonic() + LIMIT_S
        while "late: rank 1" not in shown and time.monotonic() < until:
            shown = subprocess.run(
                [sys.executable, "-m", "byteps.cli", "top", "--once", port],
                env=environment,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=True,
            ).stdout
        go_on.unlink()
        page.wait_until(
            'document.getElementById("problem").textContent', lambda text: "has ended" in text
        )
        assert page.exceptions == []
        assert "late: rank 1" in shown
        assert re.search(r"server +0 .* in [\d.]+, out [\d.]+ MB/s, CPU \d+ %", shown), shown
        as_terminal(page, f"$ bps top 9100\n{shown}")
    code, out, err = finish(process)
    assert code == 0, out + err


def as_terminal(page: browser.Browser, text: str) -> None:
    """Make the picture of what a terminal shows."""
    style = "background: #111; color: #ddd; font: 14px DejaVu Sans Mono, monospace; padding: 1em"
    markup = f'<body style="{style}"><pre>{html.escape(text)}</pre>'
    page.ask(f"document.documentElement.innerHTML = {json.dumps(markup)}; 1")
    page.picture("top", 800, 280)
