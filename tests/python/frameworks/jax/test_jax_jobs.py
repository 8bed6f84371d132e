"""Whole jobs with the real JAX."""

from __future__ import annotations

import json
import re

import job_runs
from job_runs import (
    example_and_alone,
    expect_all_right,
    expect_all_right_alone,
    expect_failure_ends_all,
    expect_outlives_a_server,
    expect_programs_end,
    expect_same_weights,
    job,
    program_of_page,
    usage,
)
from processes import finish
from shapes import some_shapes

environment = job_runs.environment


@some_shapes((3, 2))
def test_every_operation_of_jax(environment, workers, servers) -> None:
    expect_all_right(environment, "jax_operations", workers, servers)


def test_one_process_with_jax(environment) -> None:
    expect_all_right_alone(environment, "jax_operations")


@some_shapes((2, 1))
def test_training_with_jax_equals_training_alone(environment, workers, servers) -> None:
    expect_all_right(environment, "jax_training", workers, servers)


def test_programs_of_users_of_jax(environment, tmp_path) -> None:
    out = expect_programs_end(
        environment,
        program_of_page("jax.md", tmp_path),
        *usage("horovod_jax_classifier", "horovod_jax_own_loop", "horovod_jax_uneven"),
        *example_and_alone("jax_digits", tmp_path, "--float64 --epochs 2"),
    )
    assert out.count("all right") == 3 * 2
    (loss,) = re.findall(r"^\[worker 0\] loss (\d\.\d+)$", out, re.MULTILINE)
    assert float(loss) < 0.1, out
    expect_same_weights(tmp_path, 1e-12)


def test_jax_goes_on_when_a_server_is_killed(environment) -> None:
    expect_outlives_a_server(environment, "jax_steps")


def test_a_timeline_has_the_exchanges_inside_of_programs(environment, tmp_path) -> None:
    file = tmp_path / "t.json"
    code, out, err = finish(job(environment | {"BYTEPS_TIMELINE": str(file)}, "jax_steps", 2, 1))
    assert code == 0, out + err
    for name in ("t.json", "t.rank1.json"):
        events = json.loads((tmp_path / name).read_text())
        rows = [event for event in events if event.get("name") == "process_name"]
        names = {row["pid"]: row["args"].get("name", "") for row in rows}
        inside = {row for row, name in names.items() if "in a program" in name}
        begun = [event["pid"] for event in events if event.get("name") == "ALLREDUCE"]
        assert max(begun.count(row) for row in inside) == 150  # every second step


def test_an_exception_in_a_step_of_jax_ends_all_ranks(environment) -> None:
    expect_failure_ends_all(environment, "jax")
