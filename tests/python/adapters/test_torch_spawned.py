"""Ranks that a program has started itself: only `init_process_group` says who they are."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import job_runs
import pytest
from linked_hosts import linked_hosts
from processes import LIMIT_S, free_ports
from rank_programs import rank_program
from shapes import FULL
from torch_jobs import needs_entry_points, needs_torch

from byteps.common.job.cluster import described_job, names_job

environment = job_runs.environment
pytestmark = needs_torch

PROGRAM = rank_program("spawned")
PLACES = ("store", "tcp", "file", "filestore")  # besides the one that each run tries


def started(environment, *words: str, host: str = "", **variables: str) -> subprocess.Popen[str]:
    inside = ["ip", "netns", "exec", host] if host else []
    return subprocess.Popen(
        [*inside, sys.executable, PROGRAM, *words],
        env={**environment, **variables},
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def printed_by(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, out
    return out


@needs_entry_points
@pytest.mark.parametrize(
    ("place", "method"),
    [("env", "spawn"), *[(place, "fork") for place in PLACES] * FULL],
)
def test_ranks_of_torchs_multiprocessing(environment, tmp_path, place, method) -> None:
    where = f"{tmp_path}/store" if "file" in place else f"127.0.0.1:{free_ports(1)[0]}"
    out = printed_by(started(environment, "byteps", "2", f"{place}://{where}", method))
    for rank in range(2):
        assert f"all right {rank}/2, {rank}/2 on 0/1" in out
    assert "all ended" in out


@needs_entry_points
def test_forked_ranks_that_name_gloo(environment) -> None:
    where = f"env://127.0.0.1:{free_ports(1)[0]}"
    words = ("gloo", "2", where, "fork")
    out = printed_by(started(environment, *words, BYTEPS_TORCH_AS="gloo"))
    assert out.count("all right") == 2, out
    assert out.count("names 'gloo' in torch.distributed and gets byteps") == 1, out


@needs_entry_points
def test_torchs_variables_without_those_of_a_machine(environment) -> None:
    """RANK and WORLD_SIZE are all that torch needs."""
    port = str(free_ports(1)[0])
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    ranks = [
        started(environment, "byteps", "2", "env://127.0.0.1:" + port, str(rank), **meeting)
        for rank in range(2)
    ]
    for rank, process in enumerate(ranks):
        assert f"all right {rank}/2, {rank}/2 on 0/1" in printed_by(process)


@needs_entry_points
def test_ranks_of_two_machines(environment) -> None:
    """Each machine starts one of the three ranks that it has, or two; they meet at rank 0."""
    with linked_hosts("bpsspawn") as links:
        place = f"tcp://10.90.0.1:{free_ports(1)[0]}"
        hosts = ("a", "b", "a")  # as ranks that are dealt in turn
        ranks = [
            started(environment, "byteps", "3", place, str(rank), host=links.spaces[host])
            for rank, host in enumerate(hosts)
        ]
        said = [printed_by(process) for process in ranks]
    assert "all right 0/3, 0/2 on 0/2" in said[0]
    assert "all right 1/3, 0/1 on 1/2" in said[1]
    assert "all right 2/3, 1/2 on 0/2" in said[2]


@needs_entry_points
def test_ranks_that_are_told_no_place(environment) -> None:
    process = started(environment, "byteps", "2", "nowhere", "0")
    out, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1, out
    assert "nothing says where these ranks meet. Set MASTER_ADDR" in out, out


def test_ranks_that_have_joined_alone_before(environment) -> None:
    program = (
        "import byteps.torch as bps, torch.distributed as dist\n"
        "bps.init()\n"
        "dist.init_process_group('byteps', rank=1, world_size=2, store=dist.HashStore())\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.returncode == 1
    assert "rank 1 of 2, byteps calls it rank 0 of 1. It has joined a job of one" in ended.stderr


def test_jobs_that_the_environment_names() -> None:
    said = {"RANK": "0", "WORLD_SIZE": "2"}
    whole = {**said, "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    assert names_job(2, whole)
    assert not names_job(2, said)  # torch needs no more
    assert not names_job(4, whole)  # of two nodes, which start two ranks each
    assert not names_job(2, {})
    assert names_job(2, {"DMLC_NUM_WORKER": "1"})


@pytest.mark.parametrize(
    ("machines", "places"),
    [
        ("aaa", [(0, 0, 3), (0, 1, 3), (0, 2, 3)]),
        ("aba", [(0, 0, 2), (1, 0, 1), (0, 1, 2)]),
        ("abb", [(0, 0, 1), (1, 0, 2), (1, 1, 2)]),
    ],
)
def test_what_ranks_tell_each_other(machines, places) -> None:
    """All describe the same job, however the ranks are dealt to the machines."""
    import torch.distributed as dist

    from byteps.torch.distributed.told_job import ask_ranks

    store = dist.HashStore()
    with ThreadPoolExecutor(len(machines)) as pool:
        asked = [
            pool.submit(ask_ranks, rank, len(machines), machine, store)
            for rank, machine in enumerate(machines)
        ]
        told = [{**one.result(LIMIT_S), "MASTER_ADDR": "localhost"} for one in asked]
    jobs = [job for job in map(described_job, told) if job is not None]
    common = ("DMLC_NUM_WORKER", "DMLC_NUM_SERVER", "BYTEPS_JOB_ID", "DMLC_PS_ROOT_PORT")
    for rank, (job, place) in enumerate(zip(jobs, places, strict=True)):
        own, first = job.variables, jobs[0].variables
        assert [own.get(name) for name in common] == [first.get(name) for name in common]
        machine, local_rank, local_size = place
        assert own["DMLC_WORKER_ID"] == str(machine)
        assert own["BYTEPS_LOCAL_RANK"] == str(local_rank)
        assert own["BYTEPS_LOCAL_SIZE"] == str(local_size)
        assert job.has_scheduler == (rank == 0 and "b" in machines)
