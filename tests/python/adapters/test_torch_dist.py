"""Whole jobs of torch's own interfaces: the backend of torch.distributed, wrappers, compilation."""

from __future__ import annotations

import subprocess
import sys

import job_runs
import pytest
from job_runs import expect_all_right, expect_all_right_alone, job
from processes import LIMIT_S, evicting, finish, free_ports
from shapes import FULL, shapes
from torch_jobs import MISSING

environment = job_runs.environment

pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"byteps and torch are not installed in this Python: {MISSING}"
)


def has_operations() -> bool:
    if MISSING:
        return False
    from torch_features import HAS_OPERATIONS

    return HAS_OPERATIONS


@shapes((3, 2))
def test_collectives(environment, workers, servers) -> None:
    expect_all_right(
        {**environment, "BYTEPS_OPERATION_TIMEOUT": "30"}, "collectives", workers, servers
    )


def test_other_backends_keep_the_rendezvous_of_torch(environment) -> None:
    """Importing byteps.torch does not let a group of gloo begin as a group of one."""
    script = (
        "import torch.distributed as dist, byteps.torch\n"
        "dist.init_process_group({!r})\n"
        "print(dist.get_backend())"
    )
    for backend, code, text in (("gloo", 1, "using env:// rendezvous"), ("byteps", 0, "byteps")):
        ended = subprocess.run(
            [sys.executable, "-c", script.format(backend)],
            env=environment,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert ended.returncode == code, ended.stderr
        assert text in (ended.stderr if code else ended.stdout)


def test_no_tensor_is_kept_after_its_user_has_let_go(environment) -> None:
    expect_all_right(environment, "dist_memory", 2, 1)


@shapes((3, 2))
def test_every_way_of_training_equals_training_alone(environment, workers, servers) -> None:
    expect_all_right(environment, "training_ways", workers, servers)


@shapes((3, 2))
def test_layers_and_wrappers(environment, workers, servers) -> None:
    expect_all_right(environment, "layers", workers, servers)


@pytest.mark.skipif(not has_operations(), reason="this torch keeps no operations in graphs")
@shapes((2, 1))
def test_compiled(environment, workers, servers) -> None:
    expect_all_right(environment, "compiled", workers, servers)


if FULL:

    def test_collectives_of_one_process(environment) -> None:
        expect_all_right_alone(environment, "collectives")


if FULL and has_operations():

    def test_compiled_in_one_process(environment) -> None:
        expect_all_right_alone(environment, "compiled")


@pytest.mark.parametrize("arguments", [(), ("frozen",)])
def test_survivors_of_a_worker(environment, arguments) -> None:
    """Rank 0 is lost, which torch's store and every wrapper begin with; see lost.py."""
    options = ("--min-np", "2")
    told = environment | evicting() if arguments else environment
    code, out, err = finish(job(told, "lost", 3, 2, *options, arguments=arguments))
    assert code == 0, out + err
    assert out.count("all right") == 2, out + err


def test_torch_may_say_where_to_meet(environment) -> None:
    """RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, where somebody sets them, are torch's."""
    first, second = map(str, free_ports(2))
    meeting = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": first,
        "SECOND_PORT": second,
        "WORLD_SIZE": "2",
    }
    code, out, err = finish(job({**environment, **meeting}, "torchrun", 2, 1))
    assert code == 0, out + err
    assert out.count("all right") == 2
