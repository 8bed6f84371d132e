"""Random operations through byteps.tensorflow; `./dev lane collectives` has long runs."""

from __future__ import annotations

from random_collectives import lane


def test_random_operations_of_tensorflow() -> None:
    options = ["--adapters", "tensorflow", "--jobs", "2+1", "--cases", "40", "--seed", "42"]
    assert lane.run(options) == 0
