"""Workers as actors on a real Ray cluster of two nodes, and a trainer of Ray Train."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import engines
import job_runs
import pytest
import torch_jobs
from processes import LIMIT_S

environment = job_runs.environment
ray_turn = engines.ray_turn
pytestmark = [torch_jobs.needs_torch, *engines.RAY_MARKS, pytest.mark.usefixtures("ray_turn")]

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


def weights_of(environment, *words: str, backend: str, **variables: str) -> str:
    """Return the fingerprint that both ranks of the example of Ray Train print."""
    patience = {"RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": str(round(LIMIT_S))}
    done = subprocess.run(
        [engines.RAY_PYTHON, str(EXAMPLES / "torch_ray_train.py"), *words],
        env={**environment, **engines.RAY_VARIABLES, **patience, **variables},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    found = set(re.findall(rf"rank (\d) of 2, {backend}", printed))
    assert found == {"0", "1"}, printed
    (weights,) = set(re.findall(r"weights ([0-9a-f]{16})", printed))
    return str(weights)


def test_ray_train_has_the_weights_of_gloo(environment) -> None:
    over_gloo = weights_of(environment, "gloo", backend="gloo")
    assert weights_of(environment, backend="byteps") == over_gloo
    asked = {"BYTEPS_TORCH_AS": "gloo"}
    assert weights_of(environment, "gloo", backend="byteps", **asked) == over_gloo


def test_the_example_sums_on_two_nodes(environment) -> None:
    done = subprocess.run(
        [engines.RAY_PYTHON, "-c", PROGRAM],
        env={**environment, **engines.RAY_VARIABLES, "PYTHONPATH": str(EXAMPLES)},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[[3.0, 3.0, 3.0], [3.0, 3.0, 3.0]]" in done.stdout
    assert "this job has no secret" not in done.stdout + done.stderr
