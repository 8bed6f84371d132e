"""A worker: joins and leaves many times, suspends and resumes, forks; nothing grows meanwhile."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest
import torch

import byteps.torch as bps
from byteps.torch.parallel import DistributedDataParallel

CYCLES = 200 if os.environ.get("TEST_FULL") == "1" else 80
WARM = 40  # cycles until every buffer and table has found its size
GROWTH_KB_MAX = 4096
# The session that was left last may have a connection to the coordinator, or not any more.
NEW_DESCRIPTORS_MAX = 1
PATIENCE_S = 60.0
# A thread of a library may begin late; what a cycle leaves behind would be 40 of them.
NEW_THREADS_MAX = 1


def usage() -> tuple[int, int, int]:
    """Return the resident memory in KB, the threads and the descriptors of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    threads = len(list(Path("/proc/self/task").iterdir()))
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024, threads, descriptors


def cycle() -> None:
    bps.init()
    size = bps.size()
    assert bps.allreduce(torch.ones(1000), name="sum", op=bps.Sum)[0].item() == size
    assert bps.synchronize(bps.grouped_allreduce_async([torch.ones(3)]))[0].tolist() == [1.0] * 3
    left_alone = bps.allreduce_async(torch.ones(3), name="nobody waits for this")
    bps.barrier()
    bps.shutdown()
    # Another rank may have left before this one had its sum.
    with contextlib.suppress(bps.ShutdownError, bps.PeerLostError):
        bps.synchronize(left_alone)


def check_cycles() -> None:
    for _ in range(WARM):
        cycle()
    before = usage()
    for _ in range(CYCLES - WARM):
        cycle()
    after = usage()
    deadline = time.monotonic() + PATIENCE_S
    while after[1] > before[1] + NEW_THREADS_MAX and time.monotonic() < deadline:
        time.sleep(0.01)  # a thread that has done its work may still be ending
        after = usage()
    assert after[0] - before[0] <= GROWTH_KB_MAX, (before, after)
    assert after[1] <= before[1] + NEW_THREADS_MAX, (before, after)
    assert after[2] <= before[2] + NEW_DESCRIPTORS_MAX, (before, after)


def check_resume() -> None:
    bps.init()
    rank, size = bps.rank(), bps.size()
    for name in ("first", "second"):
        bps.declare(name)
    bps.suspend()
    assert not bps.is_initialized()
    bps.resume(int(os.environ["DMLC_NUM_WORKER"]), int(os.environ["DMLC_NUM_SERVER"]), rank)
    assert (bps.rank(), bps.size()) == (rank, size)
    assert bps.allreduce(torch.ones(2), name="second", op=bps.Sum).tolist() == [size] * 2


def check_wrappers() -> None:
    """Of two sessions, in one backward."""
    rank, size = bps.rank(), bps.size()
    trained = []

    def wrap() -> None:
        model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.ones_(model.weight)
        inner = torch.optim.SGD(model.parameters(), lr=1.0)
        outer = bps.DistributedOptimizer(inner, model.named_parameters())
        again = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
        trained.append((model, outer, again))

    wrap()
    bps.suspend()
    bps.resume(int(os.environ["DMLC_NUM_WORKER"]), int(os.environ["DMLC_NUM_SERVER"]), rank)
    wrap()
    batch = torch.full((1, 1), float(rank))
    sum(model(batch).sum() for model, _, _ in trained).backward()
    for model, outer, _ in trained:
        outer.step()
        assert model.weight.item() == 1.0 - (size - 1) / 2
    sum(again(batch).sum() for _, _, again in trained).backward()
    for _, _, again in trained:
        assert again.module.weight.grad.item() == (size - 1) / 2


class Numbers(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        # What data sets do: ask which part of the data is theirs, and nothing else.
        assert bps.size() > bps.rank() >= 0
        return torch.tensor([float(index)])


def check_forks() -> None:
    size = bps.size()
    loader = torch.utils.data.DataLoader(
        Numbers(), batch_size=2, num_workers=2, multiprocessing_context="fork"
    )
    for epoch in range(2):
        for step, batch in enumerate(loader):
            result = bps.allreduce(batch, name="batch", op=bps.Sum)
            assert result.flatten().tolist() == [2.0 * step * size, (2.0 * step + 1) * size], epoch
    folder = tempfile.mkdtemp()
    bps.start_timeline(f"{folder}/timeline.json")
    child = os.fork()
    if child == 0:
        try:
            bps.allreduce(torch.ones(1), name="in a child")
        except bps.InvalidArgumentError as error:
            assert "forked" in str(error)  # noqa: PT017
            bps.shutdown()
            sys.exit(7)  # with everything that runs at exit
        os._exit(1)
    bps.stop_timeline()
    shutil.rmtree(folder)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    assert bps.allreduce(torch.ones(1), name="in the parent", op=bps.Sum).item() == size


def check_init_after_a_failed_join() -> None:
    """Who has joined begins nothing more, also if the others never join: it begins anew."""
    rank, size = bps.rank(), bps.size()
    if rank == 0:
        with pytest.raises(bps.PeerLostError, match="has left the job"):
            bps.join()
        with pytest.raises(bps.InvalidArgumentError, match=r"has joined.* shut down"):
            bps.allreduce(torch.ones(1), name="after the join")
    bps.shutdown()
    bps.init()
    assert bps.allreduce(torch.ones(1), name="after the join", op=bps.Sum).item() == size


def main() -> None:
    torch.set_num_threads(1)
    check_cycles()
    check_resume()
    check_wrappers()
    check_forks()
    check_init_after_a_failed_join()
    bps.shutdown()
    print("all right")


if __name__ == "__main__":
    main()
