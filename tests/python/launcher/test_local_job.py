"""What `bps run` gives to the processes of a job."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

import pytest
from processes import command_line, finish, launch

from byteps.cli import local_job
from byteps.cli.children import ProcessSpec


@pytest.fixture
def job(monkeypatch):
    """Return the processes of a job of 3 workers and 2 servers, started with an environment."""
    monkeypatch.setattr(local_job, "find_program", lambda role: f"/programs/bps-{role}")
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(8)))

    def describe(environment: Mapping[str, str]) -> list[ProcessSpec]:
        return local_job.local_job(3, 2, ["python", "train.py"], environment)

    return describe


def values(specs: list[ProcessSpec], variable: str) -> set[str]:
    """Return what the processes have under this name."""
    return {spec.environment[variable] for spec in specs}


def test_each_job_has_a_secret_of_its_own(job) -> None:
    jobs = [job({}), job({}), job({"BYTEPS_JOB_SECRET": "of another job"})]
    assert all(len(specs) == 6 for specs in jobs)
    secrets = [values(specs, "BYTEPS_JOB_SECRET") for specs in jobs]
    assert all(len(secret) == 1 for secret in secrets)  # its processes agree
    assert len(set.union(*secrets)) == 3
    assert all(len(secret) >= 32 for secret in set.union(*secrets))
    assert "of another job" not in set.union(*secrets)
    assert len(set.union(*(values(specs, "BYTEPS_JOB_ID") for specs in jobs))) == 3


def test_a_job_of_one_machine_meets_on_its_loopback_address(job) -> None:
    assert values(job({"DMLC_PS_ROOT_URI": "192.0.2.1"}), "DMLC_PS_ROOT_URI") == {"127.0.0.1"}


def test_the_workers_share_the_cores(job) -> None:
    assert values(job({}), "OMP_NUM_THREADS") == {"2"}
    assert values(job({"OMP_NUM_THREADS": "5"}), "OMP_NUM_THREADS") == {"5"}
    many = local_job.local_job(20, 1, ["python"], {})
    assert values(many, "OMP_NUM_THREADS") == {"1"}
    alone = local_job.local_job(1, 1, ["python"], {})
    assert all("OMP_NUM_THREADS" not in spec.environment for spec in alone)


@pytest.mark.parametrize(("told", "lines"), [("", 1), ("5", 0)])
@pytest.mark.parametrize(
    ("module", "more"),
    [
        ("main", {}),
        ("bpslaunch", {"DMLC_ROLE": "worker", "DMLC_NUM_WORKER": "2", "DMLC_WORKER_ID": "0"}),
    ],
)
def test_who_sets_the_threads_says_it_once(module, more, told, lines) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"} | more
    environment |= {"OMP_NUM_THREADS": told} if told else {}
    environment |= {"DMLC_NUM_SERVER": "1", "BYTEPS_LOCAL_SIZE": "2"} if more else {}
    environment |= {"DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": "1"} if more else {}
    words = ["run", "-np", "2"] if module == "main" else []
    # In one call, as the workers of bpslaunch share a pipe.
    show = "import os; os.write(1, b'it is %s\\n' % os.environb[b'OMP_NUM_THREADS'])"
    command = command_line(f"byteps.cli.{module}", *words, sys.executable, "-c", show)
    code, out, err = finish(launch(command, environment))
    assert code == 0, out + err
    expected = told or str(max(1, len(os.sched_getaffinity(0)) // 2))
    assert out.count(f"it is {expected}") == 2
    assert err.count("[bps] OMP_NUM_THREADS is not set, so each of the 2 workers") == lines, err
