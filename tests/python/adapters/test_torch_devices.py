"""Tensors on a device become operations on its memory, where the library reaches it."""

from __future__ import annotations

import logging

import pytest

torch = pytest.importorskip("torch")

import byteps.torch as bps  # noqa: E402
from byteps.common import devices as common_devices  # noqa: E402
from byteps.common.devices import DevicePlace  # noqa: E402
from byteps.torch import devices  # noqa: E402

pytestmark = pytest.mark.usefixtures("initialized")

PLACE = DevicePlace(1, 77)


@pytest.fixture
def reached(monkeypatch):
    """All tensors count as those of a device that the library reaches."""
    monkeypatch.setattr("byteps.torch.memory.is_reached", lambda _: True)
    monkeypatch.setattr("byteps.torch.submit.place_of", lambda _: PLACE)


def test_tensors_of_the_host_name_no_device(core) -> None:
    bps.allreduce(torch.ones(4), name="x", op=bps.Sum)
    assert core.started[-1].device is None
    assert devices.place_of(torch.ones(4)) is None


@pytest.mark.usefixtures("reached")
def test_an_operation_in_place_is_carried_out_in_the_tensors_own_memory(core) -> None:
    tensor = torch.ones(4)
    bps.allreduce_(tensor, name="x", op=bps.Sum)
    started = core.started[-1]
    assert (started.device, started.stream) == (1, 77)
    assert started.input_pointer == started.output_pointer == tensor.data_ptr()
    assert tensor.tolist() == [2, 2, 2, 2]


@pytest.mark.usefixtures("reached")
def test_a_result_is_written_to_its_tensor(core) -> None:
    tensor = torch.ones(4)
    result = bps.broadcast(tensor, root_rank=0, name="x")
    started = core.started[-1]
    assert started.device == 1
    assert started.input_pointer == tensor.data_ptr()
    assert started.output_pointer == result.data_ptr()


@pytest.mark.usefixtures("reached")
def test_what_is_not_in_order_is_copied_on_its_device(core) -> None:
    tensor = torch.arange(6.0).reshape(2, 3).t()
    bps.allreduce_(tensor, name="x", op=bps.Sum)
    assert core.started[-1].device == 1
    assert core.started[-1].input_pointer != tensor.data_ptr()
    assert torch.equal(tensor, 2 * torch.arange(6.0).reshape(2, 3).t())


def test_the_stream_is_that_of_the_calling_thread(monkeypatch) -> None:
    class OnDevice:
        is_cpu = False
        device = torch.device("cuda", 1)

    kind = devices.DeviceType(lambda device: 40 + device.index, lambda _: None)
    monkeypatch.setitem(devices.TYPES, "cuda", kind)
    assert devices.place_of(OnDevice()) == DevicePlace(1, 41)


def test_without_a_driver_a_warning_says_so_once(core, caplog, monkeypatch) -> None:
    class OnDevice:
        is_cpu = False
        device = torch.device("cuda", 0)

    common_devices.find_devices.cache_clear()
    common_devices.warn_of_host_copies.cache_clear()
    with caplog.at_level(logging.WARNING, logger="byteps"):
        assert not devices.is_reached(OnDevice())
        assert not devices.is_reached(OnDevice())
    assert [record.getMessage() for record in caplog.records] == [
        "tensors on cuda are copied through host memory, and each call waits for the device: "
        "there is no driver"
    ]
    core.devices = ["A"]
    common_devices.find_devices.cache_clear()
    assert devices.is_reached(OnDevice())
    common_devices.find_devices.cache_clear()
