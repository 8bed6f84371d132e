"""A worker: torch.distributed on the backend byteps, with results that are known in advance."""

from __future__ import annotations

import datetime
import gc
import threading
import time
import warnings
from collections.abc import Callable

import checks
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch_features import HAS_OPERATIONS, say_what_is_skipped

import byteps.torch as bps
from byteps.common.errors import BytepsError, DeadlineError, InvalidArgumentError, MismatchError
from byteps.common.session import default

PATIENCE_S = 120.0
TYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.complex64,
    *([torch.uint16] if hasattr(torch, "uint16") else []),  # torch 2.3
)


def wait_for_the_rest() -> None:
    """Wait until what broken groups have begun is over: BYTEPS_OPERATION_TIMEOUT ends it.

    Who leaves the job in the middle of an operation may be taken for lost.
    """
    session = default.current()
    deadline = time.monotonic() + PATIENCE_S
    while session._open.ownerless():
        assert time.monotonic() < deadline
        session.sweep()
        time.sleep(0.01)


def ranks_of(size: int) -> range:
    return range(1, size + 1)


def error_of(call: Callable[[], object]) -> BytepsError:
    try:
        call()
    except BytepsError as error:
        return error
    raise AssertionError("no error")


def check_all_reduce(rank: int, size: int) -> None:
    for dtype in TYPES:
        tensor = torch.tensor([0, 1, 2]).to(dtype) * (rank + 1)
        dist.all_reduce(tensor)
        expected = torch.tensor([0, 1, 2]).to(dtype) * sum(ranks_of(size))
        assert torch.equal(tensor, expected), (dtype, tensor)
    values = [float(r) for r in ranks_of(size)]
    product = torch.tensor(values).prod().item()
    for op, expected in (
        (dist.ReduceOp.AVG, sum(values) / size),
        (dist.ReduceOp.MIN, min(values)),
        (dist.ReduceOp.MAX, max(values)),
        (dist.ReduceOp.PRODUCT, product),
    ):
        tensor = torch.tensor(values[rank])
        dist.all_reduce(tensor, op=op)
        assert tensor.item() == expected, (op, tensor)
    bits = torch.tensor([1 << rank, 1])
    for op, expected in (
        (dist.ReduceOp.BOR, [(1 << size) - 1, 1]),
        (dist.ReduceOp.BAND, [1 if size == 1 else 0, 1]),
        (dist.ReduceOp.BXOR, [(1 << size) - 1, size % 2]),
    ):
        result = bits.clone()
        dist.all_reduce(result, op=op)
        assert result.tolist() == expected, (op, result)


def check_memory_of_all_kinds(rank: int, size: int) -> None:
    columns = torch.ones(3, 4)[:, ::2] * (rank + 1)
    dist.all_reduce(columns)
    assert torch.equal(columns, torch.full((3, 2), float(sum(ranks_of(size)))))
    for empty in (torch.empty(0), torch.empty(3, 0)):
        dist.all_reduce(empty)
        dist.broadcast(empty, 0)
    leaf = torch.nn.Parameter(torch.full((2,), float(rank)))
    dist.broadcast(leaf.detach(), size - 1)
    assert leaf.tolist() == [size - 1] * 2
    payload = torch.tensor([0x7FC01234, -0x80000000], dtype=torch.int64).to(torch.int32)
    bits = payload.view(torch.float32) if rank == 0 else torch.zeros(2)
    dist.broadcast(bits, 0)
    assert torch.equal(bits.view(torch.int32), payload)


def check_gathering(rank: int, size: int) -> None:
    own = torch.full((2, 3), float(rank))
    parts = [torch.empty(2, 3) for _ in range(size)]
    dist.all_gather(parts, own)
    assert [part[0, 0].item() for part in parts] == list(range(size))
    joined = torch.empty(2 * size, 3)
    dist.all_gather_into_tensor(joined, own)
    assert torch.equal(joined, torch.cat(parts))
    root = size - 1
    gathered = [torch.empty(2, 3) for _ in range(size)] if rank == root else None
    dist.gather(own, gathered, dst=root)
    assert gathered is None or torch.equal(torch.cat(gathered), torch.cat(parts))
    mine = torch.empty(1)
    dist.scatter(mine, [torch.tensor([float(r)]) for r in range(size)] if rank == 0 else None)
    assert mine.item() == rank
    uneven = [torch.empty(r) for r in range(size)]
    dist.all_gather(uneven, torch.full((rank,), float(rank)))
    assert all(part.tolist() == [r] * r for r, part in enumerate(uneven))


def check_reducing_parts(rank: int, size: int) -> None:
    part = torch.empty(2)
    dist.reduce_scatter_tensor(part, torch.arange(2 * size).float() * (rank + 1))
    expected = torch.arange(2 * size).float()[2 * rank : 2 * rank + 2] * sum(ranks_of(size))
    assert torch.equal(part, expected), part
    dist.reduce_scatter_tensor(part, torch.ones(size, 2), op=dist.ReduceOp.AVG)
    assert part.tolist() == [1, 1]
    dist.reduce_scatter(part, [torch.full((2,), float(r)) for r in range(size)])
    assert part.tolist() == [rank * size] * 2
    uneven = torch.empty(rank + 1)
    dist.reduce_scatter(uneven, [torch.ones(r + 1) for r in range(size)])
    assert uneven.tolist() == [size] * (rank + 1)
    tensor = torch.tensor([rank + 1])
    dist.reduce(tensor, dst=0)
    assert tensor.item() == (sum(ranks_of(size)) if rank == 0 else rank + 1)


def check_all_to_all(rank: int, size: int) -> None:
    received = torch.empty(size)
    dist.all_to_all_single(received, torch.arange(size).float() + 10 * rank)
    assert received.tolist() == [10 * r + rank for r in range(size)]
    # Rank s sends r + s elements to rank r.
    sent = torch.cat([torch.full((r + rank,), float(10 * rank + r)) for r in range(size)])
    splits = [rank + s for s in range(size)]
    received = torch.empty(sum(splits))
    dist.all_to_all_single(received, sent, splits, [r + rank for r in range(size)])
    expected = torch.cat([torch.full((rank + s,), float(10 * s + rank)) for s in range(size)])
    assert torch.equal(received, expected), received
    outputs = [torch.empty(1) for _ in range(size)]
    dist.all_to_all(outputs, [torch.tensor([10.0 * rank + r]) for r in range(size)])
    assert [o.item() for o in outputs] == [10 * s + rank for s in range(size)]
    error = error_of(lambda: dist.all_to_all_single(torch.empty(3), torch.empty(3), [1], [1]))
    assert "splits" in str(error)


def check_objects(rank: int, size: int) -> None:
    for length in (1, 50, 7000):
        everybody: list[object] = [None] * size
        dist.all_gather_object(everybody, {"rank": rank, "text": "x" * length * rank})
        assert [len(e["text"]) for e in everybody] == [length * r for r in range(size)]
        told = [{"text": "y" * length}] if rank == 0 else [None]
        dist.broadcast_object_list(told, src=0)
        assert told == [{"text": "y" * length}]
    mine: list[object] = [None]
    dist.scatter_object_list(mine, [{"rank": r} for r in range(size)] if rank == 0 else None)
    assert mine == [{"rank": rank}]
    gathered = [None] * size if rank == 0 else None
    dist.gather_object(rank, gathered)
    assert gathered in (None, list(range(size)))


def threads_of_groups() -> list[str]:
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("byteps-group")]


def check_background(rank: int, size: int) -> None:
    tensors = [torch.full((1000,), float(i)) for i in range(40)]  # more than there are names
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    futures = [work.get_future() for work in works[::2]]
    chained = [future.then(lambda done: done.value()[0] + 1) for future in futures]
    for i, work in enumerate(works):
        work.wait()
        assert work.is_completed()
        assert work.is_success()
        assert tensors[i][0].item() == i * size
    for i, future in enumerate(chained):
        assert future.wait()[0].item() == 2 * i * size + 1
    deadline = time.monotonic() + PATIENCE_S
    while len(names := threads_of_groups()) != 1:  # that of a group before may still be ending
        assert time.monotonic() < deadline, names
        time.sleep(0.01)
    dist.all_reduce(torch.ones(10), async_op=True)  # nobody waits: its memory must live
    gc.collect()
    dist.barrier()
    work = dist.barrier(async_op=True)
    work.wait(datetime.timedelta(seconds=30))


def check_functional(rank: int, size: int) -> None:
    world = dist.group.WORLD
    assert (functional.all_reduce(torch.ones(2), "sum", world) + 0).tolist() == [size] * 2
    gathered = functional.all_gather_tensor(torch.full((1, 2), float(rank)), 0, world) + 0
    assert gathered[:, 0].tolist() == list(range(size))
    part = functional.reduce_scatter_tensor(torch.ones(size, 2), "sum", 0, world) + 0
    assert part.tolist() == [[size, size]]

    if not HAS_OPERATIONS:
        return

    @torch.compile(fullgraph=True, backend="aot_eager")
    def compiled(tensor: torch.Tensor) -> torch.Tensor:
        return functional.all_reduce(tensor * 2, "avg", world) + 1

    assert compiled(torch.full((2,), float(rank))).tolist() == [size - 1 + 1] * 2


def check_coalescing(rank: int, size: int) -> None:
    tensors = [torch.ones(2), torch.ones(3)]
    dist.all_reduce_coalesced(tensors)
    assert [t.tolist() for t in tensors] == [[size] * 2, [size] * 3]
    outputs = [torch.empty(size), torch.empty(2 * size)]
    with dist.distributed_c10d._coalescing_manager(async_ops=True) as manager:
        for i, output in enumerate(outputs):
            dist.all_gather_into_tensor(output, torch.full((i + 1,), float(rank)))
    manager.wait()
    assert outputs[0].tolist() == list(range(size))


def check_groups(rank: int, size: int) -> None:
    """Every pair of ranks, and everybody but one: each rank is in several groups at a time."""
    everybody = list(range(size))
    members = [[a, b] for a in everybody for b in everybody[a + 1 :]]
    members += [[r for r in everybody if r != out] for out in everybody] if size > 2 else []
    groups = {tuple(ranks): dist.new_group(ranks) for ranks in [*members, everybody]}
    mine = {ranks: group for ranks, group in groups.items() if rank in ranks}
    works = []
    for ranks, group in mine.items():
        tensor = torch.full((5,), float(rank))
        works.append((ranks, tensor, dist.all_reduce(tensor, group=group, async_op=True)))
    for ranks, tensor, work in works:
        work.wait()
        assert tensor.tolist() == [sum(ranks)] * 5
    for ranks, group in mine.items():
        use_group(ranks, group, ranks.index(rank))
    for group in mine.values():
        dist.destroy_process_group(group)


def use_group(ranks: tuple[int, ...], group: dist.ProcessGroup, place: int) -> None:
    assert (dist.get_rank(group), dist.get_world_size(group)) == (place, len(ranks))
    own = torch.tensor([float(ranks[place])])
    parts = [torch.empty(1) for _ in ranks]
    dist.all_gather(parts, own, group=group)
    assert [part.item() for part in parts] == list(ranks)
    tensor = own.clone()
    dist.broadcast(tensor, ranks[-1], group=group)
    assert tensor.item() == ranks[-1]
    part = torch.empty(1)
    dist.reduce_scatter_tensor(part, torch.arange(float(len(ranks))), group=group)
    assert part.item() == place * len(ranks)
    received = torch.empty(len(ranks))
    dist.all_to_all_single(received, torch.arange(len(ranks)) + 10.0 * place, group=group)
    assert received.tolist() == [10 * other + place for other in range(len(ranks))]
    told = ["from the last"] if place == len(ranks) - 1 else [None]
    dist.broadcast_object_list(told, ranks[-1], group=group)
    assert told == ["from the last"]
    dist.barrier(group=group)


def check_transfers(rank: int, size: int) -> None:
    """Around the ring, all at once; then one after the other."""
    right, left = (rank + 1) % size, (rank - 1) % size
    if size == 1:
        assert "cannot send to itself" in str(error_of(lambda: transfer(torch.ones(1), rank)))
        return
    received = torch.empty(3)
    works = [dist.isend(torch.full((3,), float(rank)), right), dist.irecv(received, left)]
    for work in works:
        work.wait()
    assert received.tolist() == [left] * 3
    for step in range(3):
        if rank == 0:
            dist.send(torch.full((2, step), float(step)), 1, tag=7)
        elif rank == 1:
            tensor = torch.empty(2, step)
            dist.recv(tensor, 0, tag=7)
            assert torch.equal(tensor, torch.full((2, step), float(step)))
    both = [
        dist.P2POp(dist.isend, torch.full((1,), float(rank)), left),
        dist.P2POp(dist.irecv, received[:1], right),
    ]
    for work in dist.batch_isend_irecv(both):
        work.wait()
    assert received[0].item() == right
    assert isinstance(error_of(lambda: dist.recv(received)), InvalidArgumentError)


def transfer(tensor: torch.Tensor, to: int) -> None:
    dist.group.WORLD.send([tensor], to, 0)


def check_mismatch(rank: int, size: int) -> None:
    if size == 1:
        return
    group = dist.new_group(list(range(size)))
    dist.all_reduce(torch.ones(1), group=group)
    work = dist.all_reduce(torch.ones(3 if rank == 0 else 4), group=group, async_op=True)
    error = error_of(work.wait)
    assert isinstance(error, MismatchError), error
    for text in ("float32 [3] on rank 0", "float32 [4] on rank", "call 2"):
        assert text in str(error), error
    assert error_of(lambda: dist.all_reduce(torch.ones(1), group=group)) is not None
    check_usable(size)


def check_time_limit(rank: int, size: int) -> None:
    if size == 1:
        return
    group = dist.new_group(list(range(size)), timeout=datetime.timedelta(seconds=1))
    if rank == 0:
        error = error_of(lambda: dist.all_reduce(torch.ones(3), group=group))
        assert isinstance(error, DeadlineError), error
        assert "Ranks" in str(error), error
        assert "are not waiting in it" in str(error)
    check_usable(size)


def check_usable(size: int) -> None:
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [size] * 2


def main() -> None:
    torch.set_num_threads(1)
    say_what_is_skipped()
    warnings.simplefilter("ignore")
    for life in range(checks.times_max):  # a second world after the first
        dist.init_process_group("byteps", init_method="byteps://" if life else None)
        rank, size = dist.get_rank(), dist.get_world_size()
        assert (rank, size, dist.get_backend()) == (bps.rank(), bps.size(), "byteps")
        for name, check in sorted(globals().items()):
            left_out = f"collectives.{name}" in checks.skipped or name == "check_usable"
            left_out |= bool(life) and name in ("check_mismatch", "check_time_limit")
            if name.startswith("check_") and not left_out:
                checks.ran += 1
                check(rank, size)
                dist.barrier()
        dist.destroy_process_group()
    wait_for_the_rest()
    print(f"all right {rank}/{size}")


if __name__ == "__main__":
    main()
