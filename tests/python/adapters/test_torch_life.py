"""Jobs of byteps.torch: life cycle, and scripts as other libraries' users write them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import job_runs
import pytest
from job_runs import COLD_PYTHON, job
from processes import finish, free_ports
from rank_programs import JOBS, rank_program
from shapes import shapes
from torch_jobs import MISSING

environment = job_runs.environment

pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"byteps and torch are not installed in this Python: {MISSING}"
)


@shapes((2, 1))
def test_joining_leaving_resuming_and_forking(environment, workers, servers) -> None:
    code, out, err = finish(job(environment, "life", workers, servers, python=COLD_PYTHON))
    assert code == 0, out + err
    assert out.count("all right") == workers


def test_joining_and_leaving_without_a_launcher(environment) -> None:
    contract = {
        **environment,
        "DMLC_PS_ROOT_URI": "127.0.0.1",
        "DMLC_PS_ROOT_PORT": str(free_ports(1)[0]),
        "DMLC_NUM_WORKER": "2",
        "DMLC_NUM_SERVER": "1",
    }
    serve = [sys.executable, "-c", "import byteps.server"]
    worker = [*COLD_PYTHON, rank_program("life")]
    started = [
        subprocess.Popen(
            command,
            env={**contract, "DMLC_ROLE": role, **more},
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command, role, more in (
            (serve, "scheduler", {}),
            (serve, "server", {}),
            (worker, "worker", {"DMLC_WORKER_ID": "0"}),
            (worker, "worker", {"DMLC_WORKER_ID": "1"}),
        )
    ]
    for process in reversed(started):
        code, out, err = finish(process)
        assert code == 0, out + err


@pytest.mark.parametrize("idle", [True, False])
def test_an_exception_of_one_rank_ends_the_others_with_its_text(environment, idle) -> None:
    more = {**environment, "TEST_IDLE": "1"} if idle else environment
    code, out, err = finish(job(more, "failing", 3, 1, "--restart", "0"))
    assert code != 0
    lines = [line for line in (out + err).splitlines() if "the others hear" in line]
    for rank in (0, 2):
        assert any(
            f"[worker {rank}]" in line
            and "PeerLostError" in line
            and "RuntimeError: no data" in line
            for line in lines
        ), out + err


def test_a_signal_at_any_step_of_a_start_loses_nothing(environment) -> None:
    """Nor does it leave a handle, a name or memory behind; see interrupted_starts.py."""
    code, out, err = finish(job(environment, "interrupted_starts", 2, 1, python=COLD_PYTHON))
    assert code == 0, out + err
    assert out.count("all right") == 2


@shapes((2, 1))
def test_without_numpy(environment, workers, servers) -> None:
    code, out, err = finish(job(environment, "without_numpy", workers, servers, python=COLD_PYTHON))
    assert code == 0, out + err
    assert out.count("all right") == workers


# The lane `frameworks` has those of other frameworks.
SCRIPTS = sorted(
    path.stem
    for path in (JOBS / "usage").glob("*.py")
    if not path.stem.startswith(("horovod_jax", "horovod_keras", "horovod_tensorflow"))
)


def scales_on_the_cpu() -> bool:
    import torch

    return hasattr(torch.amp, "GradScaler")


@pytest.mark.parametrize("script", SCRIPTS)
@shapes((2, 2))
def test_scripts_of_other_libraries_users(environment, script, workers, servers) -> None:
    if "GradScaler" in Path(rank_program(script)).read_text() and not scales_on_the_cpu():
        pytest.skip("this torch has no GradScaler for the CPU")
    code, out, err = finish(job(environment, script, workers, servers))
    assert code == 0, out + err
    assert out.count("all right") == workers
