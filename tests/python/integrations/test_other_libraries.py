"""Programs of other libraries have the same weights over byteps as over gloo, in every bit.

Each example runs over gloo under its own launcher, and then over byteps in all ways that its first
lines name. With two ranks each sum has two terms, so both backends must find the same bits.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import job_runs
import pytest
import torch_jobs
from processes import LIMIT_S, free_ports

environment = job_runs.environment
# A test starts several jobs, one after the other.
pytestmark = [torch_jobs.needs_torch, pytest.mark.timeout(4 * LIMIT_S)]

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
PROGRAMS = Path(sys.executable).parent
PYTHON = (sys.executable,)
BPS_RUN = (sys.executable, "-m", "byteps.cli", "run", "-np", "2")
ASKED = {"BYTEPS_TORCH_AS": "gloo"}


def torchrun() -> tuple[str, ...]:
    """Return the words that start two ranks, which meet at a port that nobody else has."""
    port = str(free_ports(1)[0])
    return (str(PROGRAMS / "torchrun"), "--nproc-per-node", "2", "--master-port", port)


def run(environment, *command: str, **variables: str) -> str:
    """Return what a command prints; the environment's own programs are found first."""
    path = f"{PROGRAMS}:{environment.get('PATH', '')}"
    done = subprocess.run(
        command,
        env={**environment, "PATH": path, **variables},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def weights_of(printed: str, ranks: int = 2) -> str:
    """Return the fingerprint that all ranks have printed."""
    found = re.findall(r"weights ([0-9a-f]{16})", printed)
    assert len(found) == ranks, printed
    assert len(set(found)) == 1, printed
    return found[0]


@pytest.mark.parametrize(
    "name",
    [
        "torch_ddp.py",
        "torch_fsdp.py",
        "torch_mesh.py",
        "torch_lightning.py",
        "torch_deepspeed.py",
    ],
)
def test_programs_that_name_the_backend(environment, name) -> None:
    program = str(EXAMPLES / name)
    over_gloo = weights_of(run(environment, *torchrun(), program, "gloo"))
    for launcher in (torchrun(), (*BPS_RUN, *PYTHON)):
        assert weights_of(run(environment, *launcher, program)) == over_gloo, launcher


@pytest.mark.parametrize("name", ["torch_trainer.py", "torch_accelerate.py"])
def test_programs_that_know_nothing_of_byteps(environment, name) -> None:
    program = str(EXAMPLES / name)
    printed = run(environment, *torchrun(), program)
    assert "on 2 ranks of gloo" in printed
    over_gloo = weights_of(printed)
    ways = ((torchrun(), ASKED), ((*BPS_RUN, "--as", "gloo", *PYTHON), {}))
    for launcher, variables in ways:
        printed = run(environment, *launcher, program, **variables)
        assert "on 2 ranks of byteps" in printed
        assert weights_of(printed) == over_gloo, launcher


@pytest.mark.parametrize(
    ("name", "same"),
    [("torch_spawn.py", "torch_ddp.py"), ("torch_lightning.py", "torch_lightning.py")],
)
def test_programs_that_start_their_ranks(environment, name, same) -> None:
    """Plain `python`: torch.multiprocessing.spawn, and Lightning's own launcher."""
    over_gloo = weights_of(run(environment, *torchrun(), str(EXAMPLES / same), "gloo"))
    command = (*PYTHON, str(EXAMPLES / name))
    assert weights_of(run(environment, *command)) == over_gloo
    printed = run(environment, *command, "gloo", **ASKED)
    assert "names 'gloo' in torch.distributed and gets byteps" in printed
    assert weights_of(printed) == over_gloo


def test_accelerate_starts_the_ranks_itself(environment) -> None:
    """`accelerate launch`, and a notebook's launcher, which forks."""
    program = str(EXAMPLES / "torch_accelerate.py")
    over_gloo = weights_of(run(environment, *torchrun(), program))
    port = str(free_ports(1)[0])
    launch = (str(PROGRAMS / "accelerate"), "launch", "--multi_gpu", "--num_processes", "2")
    for words in ((*launch, "--main_process_port", port, program), (*PYTHON, program, "2")):
        printed = run(environment, *words, **ASKED)
        assert "on 2 ranks of byteps" in printed
        assert weights_of(printed) == over_gloo, words


def test_accelerate_starts_the_ranks_with_mpirun(environment, tmp_path) -> None:
    """`accelerate launch --cpu` starts several processes only in this way."""
    program = str(EXAMPLES / "torch_accelerate.py")
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost slots=2\n")
    launch = (str(PROGRAMS / "accelerate"), "launch", "--cpu", "--num_processes", "2")
    words = ("--num_machines", "1", "--mpirun_hostfile", str(hosts))
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    weights = set()
    for variables in ({}, ASKED):
        port = ("--main_process_port", str(free_ports(1)[0]))
        printed = run(environment, *launch, *words, *port, program, **as_root, **variables)
        assert f"on 2 ranks of {'byteps' if variables else 'gloo'}" in printed
        weights.add(weights_of(printed))
    assert len(weights) == 1, weights


def test_a_killed_server_and_a_killed_scheduler_change_no_weight(environment) -> None:
    printed = run(environment, *PYTHON, str(EXAMPLES / "trainer_survives.py"))
    assert printed.count("kill -9") == 3, printed
    assert "1 of 1 runs over byteps have the weights of the undisturbed run" in printed
    over_gloo = printed.partition("-- gloo")[2]
    assert "exit code 0" not in over_gloo
    assert "weights none" in over_gloo
