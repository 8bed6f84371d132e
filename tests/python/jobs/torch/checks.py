"""Runs the functions check_* of modules, with a barrier behind each."""

from __future__ import annotations

import os
from types import ModuleType

import torch
import torch_features

import byteps.torch as bps


def place_of(rank: int, size: int) -> tuple[int, int, int]:
    """Return the machine, the local rank and the local size that a rank should have."""
    told = os.environ.get("BYTEPS_LOCAL_SIZES")
    ranks = int(os.environ.get("BYTEPS_LOCAL_SIZE", size))
    sizes = [int(n) for n in told.split(",")] if told else [ranks] * (size // ranks)
    assert (bps.cross_size(), bps.is_homogeneous()) == (len(sizes), len(set(sizes)) == 1)
    places = [(m, local, n) for m, n in enumerate(sizes) for local in range(n)]
    if "TEST_RANKS_IN_TURN" in os.environ:  # the machines get the ranks in turn
        places.sort(key=lambda place: (place[1], place[0]))
    return places[rank]


ran = 0  # checks of this process
times_max = 2
skipped: dict[str, str] = {}  # the names of modules or module.check, and why they do not run here


def run(*modules: ModuleType, times: int = 1) -> None:
    global ran
    torch.set_num_threads(1)
    torch_features.say_what_is_skipped()
    for _ in range(min(times, times_max)):  # init after shutdown works
        bps.init()
        rank, size = bps.rank(), bps.size()
        assert (bps.cross_rank(), bps.local_rank(), bps.local_size()) == place_of(rank, size)
        for module in modules:
            for name, check in sorted(vars(module).items()):
                whole, one = module.__name__, f"{module.__name__}.{name}"
                if name.startswith("check_") and not {whole, one} & skipped.keys():
                    ran += 1
                    check(rank, size)
                    bps.barrier(name=f"after {module.__name__} {name}")
        bps.shutdown()
    print(f"all right {rank}/{size}")
