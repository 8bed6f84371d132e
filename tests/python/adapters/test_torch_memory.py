"""Memory of tensors that the library works on."""

from __future__ import annotations

import pytest
import torch

from byteps.torch.memory import as_bytes


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.int64, torch.complex64])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (5,), (2, 3), (0,)])
def test_bytes_are_the_same_memory(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    memory = torch.ones(shape, dtype=dtype)
    data = as_bytes(memory)
    assert data.data_ptr() == memory.data_ptr()
    assert data.numel() == memory.numel() * memory.element_size()
    data.zero_()
    assert not memory.any()


@pytest.mark.parametrize("stride", [1, 2, 7])
def test_a_single_element_may_have_any_stride(stride: int) -> None:
    """A copy would be nobody's, and gone while the library reads or writes it."""
    memory = torch.arange(10.0).as_strided((1,), (stride,), 3)
    data = as_bytes(memory)
    assert data.data_ptr() == memory.data_ptr()
    assert data.view(torch.float32).item() == 3
