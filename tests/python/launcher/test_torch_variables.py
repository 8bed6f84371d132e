"""What the workers of a job are told in the words of torchrun."""

from __future__ import annotations

import socket
import sys

import job_runs
import launcher_variables
import torch_jobs
from processes import finish, free_ports
from rank_programs import rank_program
from test_foreign_launchers import start

from byteps.cli import local_job, torch_variables
from byteps.cli.hosts import Host
from byteps.cli.ports import JobPorts
from byteps.cli.remote_job import RemoteOptions, job_variables, placed
from byteps.common.job.cluster import torch_is_told_where, torch_port
from byteps.common.job.layout import Layout

environment = job_runs.environment
OUTER = launcher_variables.torch(3, 4, 2) | {"TORCHELASTIC_USE_AGENT_STORE": "True"}
GLOO = (
    "import torch, torch.distributed as dist\n"
    "dist.init_process_group('gloo')\n"
    "tensor = torch.tensor([dist.get_rank() + 1])\n"
    "dist.all_reduce(tensor)\n"
    "print(f'sum {tensor.item()} of {dist.get_world_size()}', flush=True)\n"
    "dist.destroy_process_group()\n"
)


def workers_of(told, monkeypatch) -> list[dict[str, str]]:
    monkeypatch.setattr(local_job, "find_program", lambda role: f"/programs/bps-{role}")
    specs = local_job.local_job(2, 1, ["python"], told)
    assert all("RANK" not in spec.environment for spec in specs if not spec.is_worker)
    return [dict(spec.environment) for spec in specs if spec.is_worker]


def test_workers_of_one_machine(monkeypatch) -> None:
    for rank, worker in enumerate(workers_of(OUTER, monkeypatch)):
        number = {name: worker[name] for name in torch_variables.OF_ANOTHER_JOB if name in worker}
        assert number == {
            "GROUP_RANK": "0",
            "GROUP_WORLD_SIZE": "1",
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": "2",
            "RANK": str(rank),
            "ROLE_RANK": str(rank),
            "ROLE_WORLD_SIZE": "2",
            "WORLD_SIZE": "2",
        }
        assert worker["MASTER_ADDR"] == "127.0.0.1"  # the outer job meets elsewhere
        assert worker["MASTER_PORT"] != OUTER["MASTER_PORT"]
        # These variables say nothing that byteps does not know.
        assert not torch_is_told_where(worker)


def test_a_meeting_place_of_the_users_stays(monkeypatch) -> None:
    told = {"MASTER_ADDR": "a.example", "MASTER_PORT": "29500"}
    assert all(one.items() >= told.items() for one in workers_of(told, monkeypatch))
    assert all(torch_is_told_where(one) for one in workers_of(told, monkeypatch))
    half = workers_of({"MASTER_ADDR": "a.example"}, monkeypatch)[0]
    assert (half["MASTER_ADDR"], half["MASTER_PORT"]) != ("127.0.0.1", "")


def test_a_port_that_somebody_uses_is_no_place_to_meet(monkeypatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        used = taken.getsockname()[1]
        ports = {"0": used, "1": 7, "2": free_ports(1)[0]}
        ids = iter(ports)
        monkeypatch.setattr("secrets.token_hex", lambda size: next(ids))
        monkeypatch.setattr(torch_variables, "torch_port", lambda job_id: ports[job_id])
        assert torch_variables.new_job_id(avoid=7) == "2"


def test_workers_of_several_hosts(monkeypatch) -> None:
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    hosts = [Host("a", 2), Host("b", 1)]
    parts = [part for part in placed(hosts, RemoteOptions()) if part.role == "worker"]
    told = [one["environment"] for part in parts for one in part.processes]
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
    assert [[one[name] for name in names] for one in told] == [
        ["0", "3", "0", "2", "0"],
        ["1", "3", "1", "2", "0"],
        ["2", "3", "0", "1", "1"],
    ]
    job = job_variables(hosts, 2, "10.0.0.1", JobPorts())
    assert job["MASTER_ADDR"] == "10.0.0.1"
    assert job["MASTER_PORT"] == str(torch_port(job["BYTEPS_JOB_ID"])) != job["DMLC_PS_ROOT_PORT"]


def test_torch_is_told_where_only_with_all_of_it() -> None:
    whole = torch_variables.of_worker(Layout((2,)), 0, 1)
    whole |= {"MASTER_ADDR": "a", "MASTER_PORT": "29500"}
    assert torch_is_told_where(whole)
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        rest = {key: value for key, value in whole.items() if key != name}
        assert not torch_is_told_where(rest)
        assert torch_is_told_where(rest, known=[name])


@torch_jobs.needs_torch
def test_a_program_of_another_backend_is_a_job(environment) -> None:
    command = [sys.executable, "-m", "byteps.cli", "run", "-np", "2", sys.executable, "-c", GLOO]
    code, out, err = finish(start({**environment, **OUTER}, *command))
    assert code == 0, out + err
    assert out.count("sum 3 of 2") == 2, out


@torch_jobs.needs_torch
def test_launchers_that_set_none_of_torchs_variables_but_the_place(environment) -> None:
    """As in most batch scripts: MASTER_ADDR is exported, and srun or mpirun starts the ranks."""
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_ports(1)[0])}
    program = [sys.executable, rank_program("named")]
    ranks = [launcher_variables.mpi(rank, 2, rank, 2, **place) for rank in range(2)]
    workers = [start({**environment, **one}, *program) for one in ranks]
    for rank, worker in enumerate(workers):
        code, out, err = finish(worker)
        assert code == 0, out + err
        assert f"all right {rank}/2, LOCAL_RANK {rank}" in out
