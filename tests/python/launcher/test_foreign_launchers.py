"""`python train.py` under launchers of other systems makes a job."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys

import job_runs
import launcher_variables
import pytest
import slurm_cluster
import torch_jobs
from processes import (
    LIMIT_S,
    TOKEN_VARIABLE,
    carriers,
    finish,
    free_ports,
    wait_for_line,
    wait_until,
)
from rank_programs import rank_program

environment = job_runs.environment
pytestmark = torch_jobs.needs_torch

PROGRAM = rank_program("meeting")
needs_mpi = pytest.mark.engine("mpi")
needs_slurm = pytest.mark.engine("slurm")


def start(environment, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        env=environment,
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def two_machines(environment, **more: str) -> list[subprocess.Popen[str]]:
    """Start four workers with torch's variables of two machines, as two torchruns would."""
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_ports(1)[0])}
    ranks = [launcher_variables.torch(rank, 4, 2, **meeting, **more) for rank in range(4)]
    return [start({**environment, **rank}, sys.executable, PROGRAM) for rank in ranks]


def test_ranks_of_two_machines_meet_without_a_launcher_of_ours(environment) -> None:
    for rank, worker in enumerate(two_machines(environment)):
        code, out, err = finish(worker)
        assert code == 0, out + err
        assert f"all right {rank}/4, {rank % 2}/2 on {rank // 2}/2, 2 servers" in out


def test_pods_of_kubeflow_whose_first_one_gets_its_name_late(environment, tmp_path) -> None:
    hosts = tmp_path / "hosts"
    shutil.copy("/etc/hosts", hosts)
    mount = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        f'mount --bind {hosts} /etc/hosts && exec "$@"',
        "sh",
    ]
    tried = subprocess.run([*mount, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no hosts file of its own can be had here: {tried.stderr.strip()}")
    told = {"DMLC_PS_ROOT_PORT": str(free_ports(1)[0])}
    nodes = [launcher_variables.kubeflow(node, 2, **told) for node in range(2)]
    pods = [start({**environment, **node}, *mount, sys.executable, PROGRAM) for node in nodes]
    token = environment[TOKEN_VARIABLE]
    wait_until(lambda: sum("bps-" in line for line in carriers(token).values()) == 3)
    with hosts.open("a") as file:
        file.write("127.0.0.1 train-node-0-0.train\n")
    for rank, pod in enumerate(pods):
        code, out, err = finish(pod)
        assert code == 0, out + err
        assert f"all right {rank}/2, 0/1 on {rank}/2, 2 servers" in out


def test_servers_of_a_worker_that_dies_before_it_joins_are_gone(environment) -> None:
    token = environment[TOKEN_VARIABLE]
    rank_0 = launcher_variables.torch(0, 4, 2, MASTER_ADDR="127.0.0.1")
    worker = start({**environment, **rank_0}, sys.executable, PROGRAM)
    wait_until(lambda: any("bps-scheduler" in line for line in carriers(token).values()))
    worker.kill()
    finish(worker)  # the fixture sees that nothing is left


def test_what_is_missing_is_told(environment) -> None:
    half = {"RANK": "0", "WORLD_SIZE": "2"}
    code, _, err = finish(start({**environment, **half}, sys.executable, PROGRAM))
    assert code == 1
    assert "LOCAL_RANK is not set" in err


def torchrun(environment, *arguments: str) -> subprocess.Popen[str]:
    return start(environment, sys.executable, "-m", "torch.distributed.run", *arguments)


def test_torchrun(environment) -> None:
    code, out, err = finish(torchrun(environment, "--nproc-per-node", "2", PROGRAM))
    assert code == 0, out + err
    assert "all right 0/2, 0/2 on 0/1, 0 servers" in out
    assert "all right 1/2, 1/2 on 0/1, 0 servers" in out


def test_a_torchrun_that_is_killed_before_init_leaves_nothing(environment, tmp_path) -> None:
    program, go_on = tmp_path / "late.py", tmp_path / "go_on"
    program.write_text(
        "import os, pathlib, time\n"
        "import byteps.numpy as bps\n"
        "os.write(1, b'imported\\n')\n"
        f"while not pathlib.Path({str(go_on)!r}).exists(): time.sleep(0.01)\n"
        "bps.init()\n"
    )
    job = torchrun(environment, "--nproc-per-node", "2", str(program))
    for _ in range(2):
        wait_for_line(job, "imported")
    job.send_signal(signal.SIGKILL)
    job.wait(LIMIT_S)
    go_on.touch()
    _, err = job.communicate(timeout=LIMIT_S)  # the workers have its output; they end
    assert err.count("has ended before bps.init()") == 2, err


def test_two_torchruns_are_two_machines(environment) -> None:
    meeting = ["--master-addr", "127.0.0.1", "--master-port", str(free_ports(1)[0])]
    nodes = [
        torchrun(environment, "--nnodes", "2", "--node-rank", node, *meeting, PROGRAM)
        for node in ("0", "1")
    ]
    for node, process in enumerate(nodes):
        code, out, err = finish(process)
        assert code == 0, out + err
        assert f"all right {node}/2, 0/1 on {node}/2, 2 servers" in out


def test_two_torchruns_with_different_numbers_of_processes(environment) -> None:
    meeting = ["--master-addr", "127.0.0.1", "--master-port", str(free_ports(1)[0])]
    sizes = (1, 3)  # where a fourth of all might be one of four machines
    nodes = [
        torchrun(
            environment, "--nnodes", "2", "--node-rank", str(node), *meeting,
            "--nproc-per-node", str(size), PROGRAM,
        )
        for node, size in enumerate(sizes)
    ]  # fmt: skip
    told = [finish(process) for process in nodes]
    assert all(code == 0 for code, _, _ in told), told
    assert "all right 0/4, 0/1 on 0/2, 2 servers" in told[0][1]
    for local_rank in range(3):
        assert f"all right {1 + local_rank}/4, {local_rank}/3 on 1/2, 2 servers" in told[1][1]


def test_machines_of_which_no_launcher_says_enough(environment) -> None:
    # As mpirun would on three machines with 2, 1 and 1 slots: four ranks might be 2 machines of 2.
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_ports(1)[0])}
    own = [launcher_variables.torch(rank, 4, 2, **meeting) for rank in range(2)]
    alone = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    own += [{**own[0], **alone, "RANK": str(n + 1), "GROUP_RANK": str(n)} for n in (1, 2)]
    told = {"BYTEPS_LOCAL_SIZES": "2,1,1"}
    right = [start({**environment, **one, **told}, sys.executable, PROGRAM) for one in own]
    ends = [finish(worker) for worker in right]
    assert all(code == 0 for code, _, _ in ends), ends
    assert "all right 3/4, 0/1 on 2/3, 3 servers" in ends[3][1]
    # Without the numbers the two kinds of machines think of different jobs.
    wrong = [start({**environment, **one}, sys.executable, PROGRAM) for one in own]
    wait_until(lambda: any(worker.poll() is not None for worker in wrong))
    for worker in wrong:  # the others would wait for the whole time of a start
        worker.terminate()
    ends = [finish(worker) for worker in wrong]
    assert all(code != 0 for code, _, _ in ends), ends
    both = (
        "told of 4 machines with 1 worker each, the coordinator of 2 machines with 2 workers each"
    )
    refused = [err for _, _, err in ends if both in err and "BYTEPS_LOCAL_SIZES" in err]
    assert refused, ends


def test_ranks_that_are_dealt_to_the_machines_in_turn_sum_on_each_machine(environment) -> None:
    # As mpirun --map-by node would on two machines.
    told = {
        "MASTER_ADDR": "127.0.0.1",
        "PMIX_NAMESPACE": environment[TOKEN_VARIABLE],
        "OMPI_MCA_rmaps_base_mapping_policy": "node",
        "BYTEPS_LOG_LEVEL": "info",
        "TEST_RANKS_IN_TURN": "1",
    }
    program = [*job_runs.warm_python(), rank_program("operations")]
    ranks = [launcher_variables.mpi(rank, 4, rank // 2, 2, **told) for rank in range(4)]
    workers = [start({**environment, **one}, *program) for one in ranks]
    ends = [finish(worker) for worker in workers]
    for code, out, err in ends:
        assert code == 0, out + err
        assert "all right" in out
    lines = "".join(out for _, out, _ in ends)
    assert lines.count("are one member of the job") == 4, lines  # started twice


def mpirun(environment, *arguments: str) -> subprocess.Popen[str]:
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return start({**environment, **as_root}, "mpirun", "--oversubscribe", *arguments)


@needs_mpi
@pytest.mark.parametrize("servers", ["", "2"])
def test_mpirun(environment, servers) -> None:
    environment = {**environment, "BYTEPS_SERVERS": servers}
    code, out, err = finish(mpirun(environment, "-np", "3", sys.executable, PROGRAM))
    assert code == 0, out + err
    for rank in range(3):
        assert f"all right {rank}/3, {rank}/3 on 0/1, {servers or 0} servers" in out


@needs_mpi
def test_mpirun_with_servers_hears_of_a_failure_and_leaves_nothing(environment) -> None:
    environment = {**environment, "BYTEPS_SERVERS": "1"}
    code, out, err = finish(mpirun(environment, "-np", "2", sys.executable, PROGRAM, "0", "3"))
    # mpirun takes the code of the process that ends first; the other one ends with an error.
    assert code in (1, 3), out + err


@needs_mpi
def test_a_killed_mpirun_leaves_no_server(environment) -> None:
    environment = {**environment, "BYTEPS_SERVERS": "1"}
    job = mpirun(environment, "-np", "2", sys.executable, PROGRAM, "0", "stay")
    wait_for_line(job, "all right 1/2")
    job.send_signal(signal.SIGKILL)
    job.communicate(timeout=LIMIT_S)  # the fixture sees that nothing is left


@pytest.fixture
def srun(environment, tmp_path):
    """Run srun on a Slurm of this machine's own; return what it wrote."""
    cluster = slurm_cluster.SlurmCluster(tmp_path)

    def run(*arguments: str, **more: str) -> str:
        # The nodes have names that nobody resolves: all of them are this machine.
        told = {**environment, **cluster.environment, "MASTER_ADDR": "127.0.0.1", **more}
        code, out, err = finish(start(told, "srun", "--kill-on-bad-exit=1", *arguments))
        assert code == 0, out + err
        return out

    try:
        yield run
        wait_until(cluster.is_idle)  # else the daemons of the step outlive the cluster
    finally:
        cluster.stop()


@needs_slurm
def test_srun_with_different_numbers_of_tasks(srun) -> None:
    out = srun("-N2", "-n3", sys.executable, PROGRAM)
    for line in ("0/3, 0/2 on 0/2", "1/3, 1/2 on 0/2", "2/3, 0/1 on 1/2"):
        assert f"all right {line}, 2 servers" in out, out


@needs_slurm
def test_srun_that_deals_the_ranks_in_turn(srun) -> None:
    out = srun("-N2", "-n4", "-m", "cyclic", sys.executable, PROGRAM, BYTEPS_LOG_LEVEL="info")
    for line in ("0/4, 0/2 on 0/2", "1/4, 0/2 on 1/2", "2/4, 1/2 on 0/2", "3/4, 1/2 on 1/2"):
        assert f"all right {line}, 2 servers" in out, out
    assert out.count("the 2 workers of this machine are one member of the job") == 2, out
