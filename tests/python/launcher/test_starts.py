"""Jobs of which some workers end before they have joined."""

from __future__ import annotations

import subprocess
import sys

import job_runs
import pytest
import torch_jobs
from job_runs import job
from processes import LIMIT_S, finish, free_ports

environment = job_runs.environment
pytestmark = torch_jobs.needs_torch


def test_a_job_begins_without_a_worker_that_has_died(environment) -> None:
    environment = {**environment, "STARTING": "1:3"}
    code, out, err = finish(job(environment, "starting", 3, 1, "--min-np", "2"))
    assert code == 0, out + err
    for rank in (0, 2):
        assert f"[worker {rank}] [4.0, 4.0, 4.0, 4.0, 4.0] of [0, 2]" in out
    assert "worker 1 ended with exit code 3; going on with 2 workers" in err
    assert "starting with those who are here" not in err


def test_nobody_waits_for_a_worker_that_ended_before_it_joined(environment) -> None:
    code, out, err = finish(job({**environment, "STARTING": "1:0"}, "starting", 2, 1))
    assert code != 0, out + err
    assert "worker 1 ended before joining it, and it needs 2 workers" in err


@pytest.mark.parametrize("pause", ["0", "3"])
def test_an_interrupted_init_leaves_nobody_in_the_job(environment, tmp_path, pause) -> None:
    told = str(tmp_path / "told")
    code, out, err = finish(job(environment, "interrupted", 2, 1, arguments=(told, pause)))
    assert code == 0, out + err
    for rank in (0, 1):
        assert f"[worker {rank}] [3.0, 3.0]" in out


def test_a_server_without_descriptors_for_its_shards_says_so(environment) -> None:
    # Enough for itself and its connections, but not for eight shards.
    script = "from byteps.common.job.executables import exec_program; exec_program('server')"
    command = f'ulimit -n 12; exec {sys.executable} -c "{script}"'
    settings = {"DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": "9", "DMLC_NUM_WORKER": "1"}
    settings |= {"DMLC_NUM_SERVER": "1", "BYTEPS_SERVER_SHARDS": "8", "BYTEPS_START_TIMEOUT": "1"}
    ended = subprocess.run(
        ["sh", "-c", command],
        env=environment | settings,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.returncode == 1, ended.stderr
    assert "ulimit -n" in ended.stderr


def test_programs_that_never_join_end_in_order(environment) -> None:
    command = [sys.executable, "-m", "byteps.cli", "run", "-np", "2", "--servers", "2"]
    process = subprocess.Popen(
        [*command, sys.executable, "-c", "print('hello')"],
        env=environment,
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    code, out, err = finish(process)
    assert code == 0, out + err
    assert sorted(out.splitlines()) == ["[worker 0] hello", "[worker 1] hello"]
    (line,) = err.splitlines()
    assert line.startswith("[bps] 2 programs ran and none called init"), err


def test_one_of_several_processes_of_mpirun_does_not_train_alone(environment) -> None:
    script = "import byteps.torch as bps; bps.init(); print(bps.size())"
    by_mpirun = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}
    for more, code in (({}, 1), ({"DMLC_NUM_WORKER": "1"}, 0)):
        ended = subprocess.run(
            [sys.executable, "-c", script],
            env=environment | by_mpirun | more,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert ended.returncode == code, ended.stderr
        assert ("bps run -np 2" in ended.stderr) == (code == 1)


@pytest.mark.parametrize("role", ["scheduler", "server"])
def test_a_job_without_a_secret_can_be_forbidden(environment, role) -> None:
    script = f"from byteps.common.job.executables import exec_program; exec_program('{role}')"
    settings = {"DMLC_PS_ROOT_URI": "192.0.2.1", "DMLC_PS_ROOT_PORT": "9", "DMLC_NUM_WORKER": "1"}
    settings |= {"DMLC_NUM_SERVER": "1", "DMLC_ROLE": role, "BYTEPS_REQUIRE_SECRET": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env=environment | settings,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.returncode != 0
    assert "this job has no secret" in ended.stderr
    assert "set BYTEPS_JOB_SECRET" in ended.stderr


@pytest.mark.parametrize(("secret", "warnings"), [("", 1), ("of this job", 0)])
def test_a_job_without_a_secret_that_others_can_reach_warns(environment, secret, warnings) -> None:
    script = "from byteps.common.job.executables import exec_program; exec_program('scheduler')"
    settings = {"DMLC_PS_ROOT_URI": "0.0.0.0", "DMLC_PS_ROOT_PORT": str(free_ports(1)[0])}
    settings |= {"DMLC_NUM_WORKER": "1", "DMLC_NUM_SERVER": "1", "BYTEPS_FORCE_DISTRIBUTED": "1"}
    settings |= {"DMLC_ROLE": "scheduler", "BYTEPS_START_TIMEOUT": "1", "BYTEPS_JOB_SECRET": secret}
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env=environment | settings,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert "the job did not start" in ended.stderr
    assert ended.stderr.count("this job has no secret") == warnings
