"""Memory of results of torch: a large one asks the system for large pages."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from byteps.torch.memory import new_memory  # noqa: E402


def flags_of(address: int) -> list[str]:
    """Return the flags of the mapping that has this address."""
    is_it = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        place = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
        if place:
            is_it = int(place[1], 16) <= address < int(place[2], 16)
        elif is_it and line.startswith("VmFlags:"):
            return line.split()[1:]
    raise AssertionError(f"no mapping has the address {address:x}")


@pytest.mark.parametrize(("count", "asks"), [(1 << 22, True), (1 << 10, False)])
def test_large_results_ask_for_large_pages(count, asks) -> None:
    tensor = new_memory((count, 1), torch.float32)
    assert tensor.shape == (count, 1)
    assert tensor.dtype == torch.float32
    middle = tensor.data_ptr() + tensor.nbytes // 2
    assert ("hg" in flags_of(middle)) == asks
    tensor.fill_(1)
    assert ctypes.c_float.from_address(middle).value == 1.0
