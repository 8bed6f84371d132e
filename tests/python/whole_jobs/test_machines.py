"""Whole jobs of real processes in which the workers of each machine are one member."""

from __future__ import annotations

import os
import re
import signal

import job_runs
import pytest
import torch_jobs
from job_runs import COLD_PYTHON, machines
from processes import TOKEN_VARIABLE, finish, started_with, wait_for_line
from shapes import FULL

environment = job_runs.environment
pytestmark = torch_jobs.needs_torch


def worker_of(token: str, machine: int, rank: int) -> int:
    place = {"DMLC_WORKER_ID": str(machine), "BYTEPS_LOCAL_RANK": str(rank)}
    (found,) = started_with(token, DMLC_ROLE="worker", **place)
    return found


@pytest.mark.parametrize("name", ["operations", "mismatches", *["orders", "training"] * FULL])
def test_all_right(environment, name) -> None:
    with machines(environment, name, (2, 2)) as started:
        told = [finish(one) for one in started]
    for code, out, _ in told:
        assert code == 0, out
        assert out.count("all right") == 2, out


# A machine of one rank is a plain member.
@pytest.mark.parametrize(
    ("sizes", "servers", "name", "options"),
    [
        ((1, 2, 1), 2, "operations", {}),
        *[((2, 1), 1, "operations", {}), ((3, 1), 2, "operations", {})] * FULL,
        *[((2, 3, 1), 3, "operations", {}), ((1, 3), 2, "orders", {})] * FULL,
        *[((1, 2), 1, "mismatches", {})] * FULL,
        *[((2, 1), 2, "training", {})] * FULL,
        *[((2, 1), 1, "operations", {"BYTEPS_LOCAL_REDUCE": "0"})] * FULL,
    ],
)
def test_machines_with_different_numbers_of_workers(
    environment, sizes, servers, name, options
) -> None:
    with machines(environment, name, sizes, servers, **options) as started:
        told = [finish(one) for one in started]
    for size, (code, out, _) in zip(sizes, told, strict=True):
        assert code == 0, out
        assert out.count("all right") == size, out


def test_only_machines_of_several_workers_are_one_member(environment) -> None:
    line = "workers of this machine are one member of the job"
    told = {"BYTEPS_LOG_LEVEL": "info"}
    with machines(environment, "small", (1, 2), **told) as started:
        (_, alone, _), (_, pair, _) = [finish(one) for one in started]
    assert line not in alone, alone
    assert "a member of the job by itself" not in alone, alone
    assert f"the 2 {line}" in pair, pair


@pytest.mark.parametrize("machine", [0, 1])
def test_a_killed_worker_ends_a_job_of_unequal_machines(environment, machine) -> None:
    sizes = (2, 1)
    with machines(environment, "steps", sizes, python=COLD_PYTHON) as started:
        for size, one in zip(sizes, started, strict=True):
            for _ in range(size):
                wait_for_line(one, "stepping")
        os.kill(worker_of(environment[TOKEN_VARIABLE], machine, 0), signal.SIGKILL)
        told = [finish(one) for one in started]
    assert all(code != 0 for code, _, _ in told)
    lost = "worker 2" if machine == 1 else "worker [01]"  # of a machine any rank may be named
    assert re.search(lost, told[1 - machine][1]), told[1 - machine][1]
    assert "local rank 0 was killed by signal 9" in told[machine][1]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({}, "the 2 workers of this machine are one member of the job"),
        (
            {"BYTEPS_MIN_WORKERS": "2"},
            "each worker of this machine is a member of the job by itself: min_workers=2",
        ),
    ],
    ids=["one", "apart"],
)
def test_each_machine_says_once_what_it_is(environment, options, line) -> None:
    told = {**options, "BYTEPS_LOG_LEVEL": "info"}
    with machines(environment, "small", (2, 2), **told) as started:
        ends = [finish(one) for one in started]
    for code, out, _ in ends:
        assert code == 0, out
        assert out.count(line) == 1, out


def test_machines_that_cannot_give_the_same_bits_are_refused_with_what_helps(environment) -> None:
    with machines(environment, "small", (1, 2), BYTEPS_SAME_BITS="1") as started:
        told = [finish(one) for one in started]
    for code, out, _ in told:
        assert code != 0, out
        assert "ranks 1, 2 are no blocks; put larger machines first" in out


# The job has three ranks on one machine and one on the other, so it needs the group to begin.
def test_the_options_of_sums_reach_machines_and_servers(environment) -> None:
    options = {"BYTEPS_SAME_BITS": "1", "BYTEPS_SUM_GROUP": "3"}
    with machines(environment, "ordered_sums", (3, 1), **options) as started:
        told = [finish(one) for one in started]
    for size, (code, out, _) in zip((3, 1), told, strict=True):
        assert code == 0, out
        assert out.count("floats 1.0, halves 6800") == size, out


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_worker_ends_its_machine_by_name_and_leaves_nothing(environment, rank) -> None:
    with machines(environment, "steps", (2, 2), python=COLD_PYTHON) as started:
        for one in started:
            wait_for_line(one, "stepping")
            wait_for_line(one, "stepping")
        os.kill(worker_of(environment[TOKEN_VARIABLE], 1, rank), signal.SIGKILL)
        told = [finish(one) for one in started]
    assert all(code != 0 for code, _, _ in told)
    # To other machines the rank may be named that ended because of it.
    assert "worker 2" in told[0][1] or "worker 3" in told[0][1]
    # Its launcher ends the other rank at once, which may be before that one can say why.
    assert f"local rank {rank} was killed by signal 9" in told[1][1]


def test_a_rank_that_does_not_come_is_named(environment, tmp_path) -> None:
    # The operations before may take a while, too.
    limit, never_goes = {"BYTEPS_OPERATION_TIMEOUT": "10"}, str(tmp_path)
    with machines(environment, "stalling", (2, 2), arguments=("3", never_goes), **limit) as started:
        told = [finish(one) for one in started]
    for code, out, _ in told:
        assert code != 0, out
        assert "DeadlineError: " in out
        assert "has waited longer than the limit" in out
    assert re.search(r"nothing from rank (\(2, 3\)|3)", told[0][1]), told[0][1]
    assert re.search(r"(of this machine|nothing from|;) rank 3\b", told[1][1]), told[1][1]


# What a rank writes into memory that it shares is checked before the carrier uses it. "length": a
# length that reaches far beyond the carrier's memory. A number: random bytes, from this seed.
@pytest.mark.parametrize("what", ["length", "1", *map(str, range(2, 20) if FULL else ())])
def test_nonsense_from_a_rank_ends_in_errors_and_in_no_crash(environment, what) -> None:
    options = {"BYTEPS_OPERATION_TIMEOUT": "15", "BYTEPS_LOG_LEVEL": "error"}
    with machines(
        environment, "corrupting", (2, 1), arguments=(what,), python=COLD_PYTHON, **options
    ) as started:
        told = [finish(one) for one in started]
    out = "".join(one[1] for one in told)
    for rank in (0, 2):
        assert f"rank {rank} lives: " in out, out
    if what == "length":
        assert "rank 0 lives: ProtocolError: a process of this machine said what " in out
