"""A worker: what torch.distributed keeps of tensors that nobody has any more, and of their shapes.

Run as a job of some ranks; each check ends with `all right`.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
import weakref

import torch
import torch.distributed as dist

import byteps.torch as bps
from byteps.torch.distributed.work import LOSES_PYTHON_HALVES, Unwaited

PATIENCE_S = 60.0
CALLS = 40  # more than there are names for a signature
SHAPES = 2000  # twice as many as there are places where calls are counted
GROWTH_MAX = 64 << 10
LENGTH = 1 << 12


def alive(refs: list[weakref.ref]) -> int:
    gc.collect()
    return sum(ref() is not None for ref in refs)


def reduce_and_drop(lengths: list[int]) -> list[weakref.ref]:
    """Wait for each sum and let go of it."""
    refs = []
    for length in lengths:
        tensor = torch.ones(length)
        dist.all_reduce(tensor)
        assert tensor[-1].item() == dist.get_world_size()
        refs.append(weakref.ref(tensor))
    return refs


def check_one_shape() -> None:
    assert alive(reduce_and_drop([LENGTH] * CALLS)) == 0


def check_many_shapes() -> None:
    assert alive(reduce_and_drop([LENGTH + i for i in range(CALLS)])) == 0


def check_every_collective() -> None:
    """Outputs and inputs of the others, of works and of futures that were waited for."""
    size, refs = dist.get_world_size(), []
    for length in range(1, 5):
        own, whole = torch.ones(length), torch.ones(size * length)
        parts = [torch.empty(length) for _ in range(size)]
        dist.all_gather(parts, own)
        dist.reduce_scatter_tensor(own, whole)
        dist.all_to_all_single(torch.empty(size * length), whole)
        dist.broadcast(own, 0)
        future = dist.all_reduce(own, async_op=True).get_future()
        value = future.wait()
        refs += [weakref.ref(tensor) for tensor in (own, whole, *parts, *value)]
        del own, whole, parts, future, value
    expect_none(refs)  # a thread of the group has told the futures, and lets go of them


def check_nobody_waits() -> None:
    """The tensors live until their operations are over, and no longer."""
    refs = []
    for i in range(CALLS):
        tensor = torch.ones(LENGTH + i % 3)
        dist.all_reduce(tensor, async_op=True)
        refs.append(weakref.ref(tensor))
        del tensor
    expect_none(refs)


def expect_none(refs: list[weakref.ref]) -> None:
    """Go on making calls until no tensor is alive; every rank makes the same number of them."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        left = torch.tensor([alive(refs)])
        dist.all_reduce(left)
        if left.item() == 0:
            return
        assert time.monotonic() < deadline, f"{alive(refs)} of {len(refs)} tensors are alive"


def check_a_work_has_its_tensors() -> None:
    """A work that somebody has gives them. Before torch 2.7 it must have been waited for."""
    works = [dist.all_reduce(torch.ones(3), async_op=True) for _ in range(2)]
    works[0].wait()
    for _ in range(CALLS):
        dist.barrier()
    for work in works[:1] if LOSES_PYTHON_HALVES else works:
        assert work.result()[0].tolist() == [dist.get_world_size()] * 3
        assert work.get_future().wait()[0].tolist() == [dist.get_world_size()] * 3


def check_where_torch_loses_works() -> None:
    """Before torch 2.7 the backend keeps works that nobody waits for, but not their tensors."""
    world = dist.group.WORLD
    before, world._unwaited = world._unwaited, Unwaited(keeps=True)
    check_nobody_waits()
    check_every_collective()
    tensor = torch.ones(3)
    work = dist.all_reduce(tensor, async_op=True)
    for _ in range(CALLS):
        dist.barrier()
    assert work.result()[0] is tensor
    assert work.get_future().wait()[0].tolist() == [dist.get_world_size()] * 3
    world._unwaited = before


def check_memory_is_flat_over_shapes() -> None:
    """What Python keeps of a shape is bounded: it does not grow with shapes that come and go."""
    reduce_and_drop(list(range(1, SHAPES)))  # all places where calls are counted
    gc.collect()
    tracemalloc.start()
    reduce_and_drop(list(range(SHAPES, SHAPES + 100)))
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    reduce_and_drop(list(range(2 * SHAPES, 3 * SHAPES)))
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < GROWTH_MAX, f"{after - before} bytes for {SHAPES} shapes"


def check_many_tensors_in_one_call() -> None:
    """The text of types and shapes is longer than a name may be."""
    tensors = [torch.ones(1000 + i) for i in range(400)]
    dist.all_reduce_coalesced(tensors)
    assert all(tensor[-1].item() == dist.get_world_size() for tensor in tensors)


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("byteps")
    check_one_shape()
    check_many_shapes()
    check_every_collective()
    check_nobody_waits()
    check_a_work_has_its_tensors()
    check_where_torch_loses_works()
    check_memory_is_flat_over_shapes()
    check_many_tensors_in_one_call()
    print(f"all right {bps.rank()}/{bps.size()}")
    dist.destroy_process_group()
