"""Every function of byteps.numpy on odd arrays; those of JAX and MXNet are in frameworks/."""

from __future__ import annotations

import job_runs
import numpy as np
import odd_arrays
import pytest

environment = job_runs.environment


def test_every_function_of_numpy_has_a_check_with_odd_arrays(monkeypatch) -> None:
    assert odd_arrays.names_without_row("numpy") == set()
    monkeypatch.delitem(odd_arrays.ROWS["numpy"], "alltoall")
    assert odd_arrays.names_without_row("numpy") == {"alltoall"}


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (17, 3)])
@pytest.mark.parametrize("dtype", ["bool", "float16", "complex128"])
def test_results_begin_at_multiples_of_64_without_elements_too(shape, dtype) -> None:
    from byteps.numpy.memory import is_aligned, new_array

    kept = [np.empty(n, np.uint8) for n in range(1, 40)]  # memory at other places
    for _ in kept:
        array = new_array(shape, np.dtype(dtype))
        array[...] = 1
        assert array.shape == shape
        assert array.dtype == dtype
        assert is_aligned(array)


@pytest.mark.skipif(
    bool(job_runs.what_is_missing("numpy")), reason="byteps is not installed in this Python"
)
def test_odd_arrays_of_numpy(environment) -> None:
    job_runs.expect_all_right(environment, "odd_arrays", 2, 0, "numpy")
