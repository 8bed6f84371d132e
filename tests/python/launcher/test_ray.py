"""Workers as actors on a real Ray cluster of two nodes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import engines
import job_runs
import pytest
import torch_jobs
from processes import LIMIT_S

environment = job_runs.environment
pytestmark = [torch_jobs.needs_torch, pytest.mark.engine("ray")]

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
PROGRAM = """
import os, sys
from ray.cluster_utils import Cluster

head = {"num_cpus": 1, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args=head)
cluster.add_node(num_cpus=1)
os.environ["RAY_ADDRESS"] = cluster.address
import ray
import ray_workers

sys.argv = ["ray_workers.py", "2"]
ray_workers.main()
ray.shutdown()
cluster.shutdown()
"""


def test_the_example_sums_on_two_nodes(environment) -> None:
    done = subprocess.run(
        [engines.RAY_PYTHON, "-c", PROGRAM],
        env={**environment, "PYTHONPATH": str(EXAMPLES)},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[[3.0, 3.0, 3.0], [3.0, 3.0, 3.0]]" in done.stdout
    assert "this job has no secret" not in done.stdout + done.stderr
