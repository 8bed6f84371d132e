"""Every function of byteps.jax on odd arrays."""

from __future__ import annotations

import job_runs
import odd_arrays

environment = job_runs.environment


def test_every_function_of_jax_has_a_check_with_odd_arrays() -> None:
    assert odd_arrays.names_without_row("jax") == set()


def test_odd_arrays_of_jax(environment) -> None:
    job_runs.expect_all_right(environment, "odd_arrays", 2, 1, "jax")
