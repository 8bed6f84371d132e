"""Every launcher with every ending: exit code, time to the end, and what is left.

Each launcher with two endings; with TEST_FULL=1 with each of them. With
START_MATRIX_PAGE=docs/start-matrix.md, too, the table of the page is written anew, if one process
runs all tests (pytest -n 0).
"""

from __future__ import annotations

import getpass
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import engines
import job_runs
import pytest
import slurm_cluster
import ssh_server
import torch_jobs
from processes import LIMIT_S, TOKEN_VARIABLE, carriers, free_ports, wait_for_line, wait_until
from rank_programs import rank_program
from shapes import FULL

environment = job_runs.environment
ray_turn = engines.ray_turn
pytestmark = [torch_jobs.needs_torch, pytest.mark.engine]

PROGRAM = rank_program("meeting")
# How meeting.py ends, and what is done to the launcher meanwhile.
ENDINGS = {
    "success": ((), None),
    "rank 1 exits 3": (("1", "3"), None),
    "rank 1 killed": (("1", "kill"), None),
    "launcher killed": (("1", "stay"), signal.SIGKILL),
    "Ctrl-C": (("1", "stay"), signal.SIGINT),
}
Row = tuple[list[str], dict[str, str]]


def own(*options: str) -> Row:
    return [sys.executable, "-m", "byteps.cli", "run", *options, sys.executable, PROGRAM], {}


@pytest.fixture(scope="module")
def ssh(tmp_path_factory) -> Iterator[str]:
    server = ssh_server.SshServer(tmp_path_factory.mktemp("ssh"))
    yield server.ssh
    server.stop()


@pytest.fixture(scope="module")
def slurm(tmp_path_factory) -> Iterator[dict[str, str]]:
    cluster = slurm_cluster.SlurmCluster(tmp_path_factory.mktemp("slurm"))
    yield cluster.environment
    wait_until(cluster.is_idle)  # else the daemons of a step outlive the cluster
    cluster.stop()


def torchrun(request) -> Row:
    del request
    words = ["-m", "torch.distributed.run", "--nproc-per-node", "2", PROGRAM]
    return [sys.executable, *words], {}


def mpirun(request) -> Row:
    del request
    more = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    words = ["mpirun", "--oversubscribe", "-np", "2", sys.executable, PROGRAM]
    return words, {**more, "BYTEPS_SERVERS": "1"}


def ray(request) -> Row:
    request.getfixturevalue("ray_turn")
    return [engines.RAY_PYTHON, rank_program("ray_meeting")], engines.RAY_VARIABLES


def over_ssh(request) -> Row:
    hosts = ["--ssh", request.getfixturevalue("ssh"), "--hosts", "127.0.0.2:1,127.0.0.3:1"]
    return own(*hosts)


def srun(request) -> Row:
    # The nodes have names that nobody resolves: all of them are this machine.
    more = {**request.getfixturevalue("slurm"), "MASTER_ADDR": "127.0.0.1"}
    return ["srun", "-N2", "-n2", "--kill-on-bad-exit=1", sys.executable, PROGRAM], more


def bare(request) -> Row:
    del request
    port = str(free_ports(1)[0])
    job = {"DMLC_NUM_WORKER": "2", "DMLC_NUM_SERVER": "1", "DMLC_PS_ROOT_URI": "127.0.0.1"}
    job |= {"DMLC_PS_ROOT_PORT": port, "BYTEPS_JOB_SECRET": "of the matrix"}
    launch = f"{sys.executable} -m byteps.cli.bpslaunch"
    # A shell stands for whoever starts the roles; what counts is the worker with rank 1.
    script = f"""
DMLC_ROLE=scheduler {launch} & DMLC_ROLE=server {launch} &
DMLC_ROLE=worker DMLC_WORKER_ID=0 {launch} "$@" &
export DMLC_ROLE=worker DMLC_WORKER_ID=1; exec {launch} "$@"
"""
    return ["bash", "-c", script, "bash", sys.executable, PROGRAM], job


# Two endings of each launcher, and one of Ray, whose clusters take turns: each ending comes three
# times.
USUAL = {
    "`bps run`": ("success", "launcher killed"),
    "`bps run --servers 1`": ("rank 1 killed", "Ctrl-C"),
    "`bps run --hosts`, 2 hosts": ("rank 1 exits 3", "launcher killed"),
    "`torchrun`": ("success", "rank 1 killed"),
    "`mpirun`, 1 server": ("rank 1 killed", "Ctrl-C"),
    "`srun`, 2 nodes, 2 servers": ("rank 1 exits 3", "Ctrl-C"),
    "Ray, 2 actors": ("launcher killed",),
    "`bpslaunch`, each role by hand": ("success", "rank 1 exits 3"),
}
LAUNCHERS: dict[str, Callable[[pytest.FixtureRequest], Row]] = {
    "`bps run`": lambda request: own("-np", "2"),
    "`bps run --servers 1`": lambda request: own("-np", "2", "--servers", "1"),
    "`bps run --hosts`, 2 hosts": over_ssh,
    "`torchrun`": torchrun,
    "`mpirun`, 1 server": mpirun,
    "`srun`, 2 nodes, 2 servers": srun,
    "Ray, 2 actors": ray,
    "`bpslaunch`, each role by hand": bare,
}
NEEDS = {over_ssh: "sshd", mpirun: "mpi", srun: "slurm"}
MARKS = {
    **{row: [pytest.mark.engine(name)] for row, name in NEEDS.items()},
    ray: engines.RAY_MARKS,
}
CASES = [
    pytest.param(name, ending, marks=MARKS.get(row, []))
    for name, row in LAUNCHERS.items()
    for ending in (ENDINGS if FULL else USUAL[name])
]
Cell = tuple[int, float]
_CELLS: dict[tuple[str, str], Cell] = {}


@pytest.fixture(scope="module", autouse=True)
def page() -> Iterator[None]:
    yield
    path = os.environ.get("START_MATRIX_PAGE")
    if path:
        write_page(Path(path))


def write_page(path: Path) -> None:
    text = path.read_text()
    head = text.partition("\n| launcher |")[0]
    lines = ["| launcher | " + " | ".join(ENDINGS) + " |", "|---" * (len(ENDINGS) + 1) + "|"]
    for launcher in LAUNCHERS:
        cells = []
        for ending in ENDINGS:
            cell = _CELLS.get((launcher, ending))
            note = " (1)" if "srun" in launcher and ending == "launcher killed" else ""
            cells.append(f"{cell[0]}; {cell[1]:.1f} s{note}" if cell else "not measured")
        lines.append(f"| {launcher} | " + " | ".join(cells) + " |")
    path.write_text(head + "\n" + "\n".join(lines) + "\n")


def is_right(launcher: str, ending: str, code: int) -> bool:
    if ending == "success":
        return code == 0
    if ending == "launcher killed":
        return code == -signal.SIGKILL
    if ending == "rank 1 exits 3" and "bps" in launcher:
        return code == 3
    return code != 0  # others have codes of their own


def interrupt(job: subprocess.Popen[str], launcher: str) -> None:
    os.killpg(job.pid, signal.SIGINT)
    if launcher != "srun":
        return
    # srun ends the job if a second Ctrl-C comes within a second, and says what it did with each.
    told = ""
    while "sending Ctrl-C" not in told:
        told = wait_for_line(job, "srun: ").splitlines()[-1]
        if "one more" in told:
            os.killpg(job.pid, signal.SIGINT)


@pytest.mark.parametrize(("launcher", "ending"), CASES)
def test_a_job_ends_and_leaves_nothing(environment, request, launcher, ending) -> None:
    words, more = LAUNCHERS[launcher](request)
    arguments, number = ENDINGS[ending]
    job = subprocess.Popen(
        [*words, *arguments],
        env={**environment, **more},
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # Ctrl-C reaches a process group, as in a shell
    )
    wait_for_line(job, "all right")
    wait_for_line(job, "all right")
    began = time.monotonic()
    if number == signal.SIGINT:
        interrupt(job, words[0])
    elif number is not None:
        job.send_signal(number)
    if words[0] == "srun" and number == signal.SIGKILL:
        # Slurm keeps the tasks: they are its own, and others may still want them.
        job.wait(LIMIT_S)
        cancel = ["scancel", "--user", getpass.getuser()]
        subprocess.run(cancel, env={**environment, **more}, check=True, timeout=LIMIT_S)
    out, _ = job.communicate(timeout=LIMIT_S)
    token = environment[TOKEN_VARIABLE]
    wait_until(lambda: carriers(token) == {})
    _CELLS[launcher, ending] = (job.returncode, time.monotonic() - began)
    assert is_right(launcher, ending, job.returncode), (job.returncode, out)
