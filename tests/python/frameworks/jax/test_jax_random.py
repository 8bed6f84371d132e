"""Random operations through byteps.jax; `./dev lane collectives` has long runs."""

from __future__ import annotations

from random_collectives import lane


def test_random_operations_of_jax() -> None:
    options = ["--adapters", "jax", "--jobs", "2+1", "--cases", "25", "--seed", "42"]
    assert lane.run(options) == 0
