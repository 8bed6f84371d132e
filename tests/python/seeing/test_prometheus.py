"""The real Prometheus scrapes a job, and every query of the board for Grafana finds something."""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import job_runs
import pytest
import torch_jobs
from job_runs import REPOSITORY, job
from processes import LIMIT_S, finish, free_ports, wait_for_line

environment = job_runs.environment
pytestmark = [
    torch_jobs.needs_torch,
    pytest.mark.skipif(
        shutil.which("prometheus") is None, reason="prometheus is not installed (Debian)"
    ),
]

BOARD = REPOSITORY / "examples" / "grafana" / "byteps.json"
LOOK_AGAIN_S = 0.2
# What Grafana puts in place of its own variable; a window in which two scrapes lie.
WINDOW = "10s"
CONFIG = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: byteps
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


def ask(prometheus: int, query: str) -> list[dict[str, Any]]:
    """Return what a query finds."""
    words = urllib.parse.urlencode({"query": query})
    address = f"http://127.0.0.1:{prometheus}/api/v1/query?{words}"
    try:
        with urllib.request.urlopen(address, timeout=LIMIT_S) as answer:
            told = json.load(answer)
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{query}: {error.read().decode()}") from None
    except OSError:  # it has not started yet
        return []
    assert told["status"] == "success", told
    found: list[dict[str, Any]] = told["data"]["result"]
    return found


def wait_for(what: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Ask again and again until something is found."""
    until = time.monotonic() + LIMIT_S
    while not (found := what()):
        assert time.monotonic() < until, "Prometheus has found nothing"
        time.sleep(LOOK_AGAIN_S)
    return found


def queries_of_the_board(instance: str) -> list[str]:
    """Return the queries of all panels, for one job."""
    board = json.loads(BOARD.read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    assert found
    return [one.replace("$instance", instance).replace("$__rate_interval", WINDOW) for one in found]


def test_prometheus_scrapes_a_job_and_the_board_has_data(environment, tmp_path) -> None:
    status, prometheus = free_ports(2)
    go_on = tmp_path / "go_on"
    go_on.touch()
    told = environment | {"BYTEPS_STATUS_PORT": str(status)}
    process = job(told, "straggling", 2, 1, arguments=("1", str(go_on)))
    wait_for_line(process, "the job runs")
    config = tmp_path / "prometheus.yml"
    config.write_text(CONFIG.format(port=status))
    server = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{prometheus}",
        ],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        instance = f"127.0.0.1:{status}"
        wait_for(lambda: ask(prometheus, f'up{{instance="{instance}"}} == 1'))
        (workers,) = wait_for(
            lambda: ask(prometheus, 'byteps_members{role="worker",state="in"} == 2')
        )
        assert workers["metric"]["instance"] == instance
        late = wait_for(lambda: ask(prometheus, 'byteps_late_seconds{rank="1"} > 0.02'))
        assert late[0]["metric"]["rank"] == "1"
        for query in queries_of_the_board(instance):
            # A comparison hides what is not there, such as members that are silent.
            plain = re.sub(r" > 0$", "", query)
            assert wait_for(functools.partial(ask, prometheus, plain)), query
        judge_of_the_text(status)
    finally:
        server.terminate()
        server.wait(LIMIT_S)
        go_on.unlink()
        code, out, err = finish(process)
    assert code == 0, out + err


def judge_of_the_text(status: int) -> None:
    """Let Prometheus' own checker read the metrics."""
    address = f"http://127.0.0.1:{status}/metrics"
    with urllib.request.urlopen(address, timeout=LIMIT_S) as answer:
        text = answer.read().decode()
    judged = subprocess.run(
        ["promtool", "check", "metrics"],
        input=text,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert judged.returncode == 0, judged.stdout + judged.stderr


def test_the_board_names_only_metrics_of_the_page() -> None:
    page = (REPOSITORY / "docs" / "seeing.md").read_text()
    for query in queries_of_the_board("here"):
        for name in re.findall(r"byteps_[a-z_]+", query):
            assert f"`{name}`" in page, f"{Path(BOARD).name}: {name} is not in docs/seeing.md"
