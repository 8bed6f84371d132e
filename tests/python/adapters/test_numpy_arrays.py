"""Arrays of numpy that are not quite arrays, against a native module of pure Python."""

from __future__ import annotations

import numpy as np
import pytest

import byteps.numpy as bps
from byteps.common.errors import InvalidArgumentError


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_a_matrix_is_exchanged_as_an_array_of_two_dimensions(core) -> None:
    bps.init()
    matrix = np.matrix([[1.0, 2.0], [3.0, 4.0]])
    values = np.array(matrix)
    pairs = [
        (bps.grouped_allreduce([matrix, matrix[0]], op=bps.Sum), [2 * values, 2 * values[:1]]),
        (bps.grouped_allgather([matrix, matrix[0]]), [np.tile(values, (2, 1)), values[[0, 0]]]),
        (bps.grouped_reducescatter([matrix, matrix], op=bps.Sum), [2 * values[:1]] * 2),
        ([bps.allreduce(matrix, op=bps.Sum)], [2 * values]),
    ]
    for results, expected in pairs:
        for result, wanted in zip(results, expected, strict=True):
            assert type(result) is np.ndarray
            np.testing.assert_array_equal(result, wanted)
    given = [matrix.copy(), matrix.copy()]
    results = bps.grouped_allreduce_(given, op=bps.Sum)
    assert all(result is one for result, one in zip(results, given, strict=True))
    np.testing.assert_array_equal(given[1], 2 * values)


def test_the_shape_of_shared_memory_may_be_numbers_of_numpy(core) -> None:
    bps.init()
    assert bps.empty_shared(np.int64(4)).shape == (4,)
    assert bps.empty_shared(np.array([2, 3])).shape == (2, 3)
    assert bps.empty_shared((np.uint8(2), 3)).shape == (2, 3)
    for wrong in (2.5, "ab", (1, 2.0), None):
        with pytest.raises(InvalidArgumentError, match="give one whole number or several"):
            bps.empty_shared(wrong)


def test_the_shape_of_a_shared_tensor_may_be_numbers_of_numpy(core) -> None:
    torch_bps = pytest.importorskip("byteps.torch")
    torch_bps.init()
    assert torch_bps.empty_shared(np.int64(4)).shape == (4,)
    assert torch_bps.empty_shared(np.int64(4), 2).shape == (4, 2)
    assert torch_bps.empty_shared([np.int64(4), 2]).shape == (4, 2)
    assert torch_bps.empty_shared(np.array([4, 2])).shape == (4, 2)
