"""Runs the functions check_* of modules, with a barrier behind each."""

from __future__ import annotations

import os
from types import ModuleType

import torch
import torch_features

import byteps.torch as bps


def run(*modules: ModuleType, times: int = 1) -> None:
    torch.set_num_threads(1)
    torch_features.say_what_is_skipped()
    for _ in range(times):  # init after shutdown works
        bps.init()
        rank, size = bps.rank(), bps.size()
        ranks = int(os.environ.get("BYTEPS_LOCAL_SIZE", size))  # of a machine
        assert (bps.local_rank(), bps.local_size()) == (rank % ranks, ranks)
        for module in modules:
            for name, check in sorted(vars(module).items()):
                if name.startswith("check_"):
                    check(rank, size)
                    bps.barrier(name=f"after {module.__name__} {name}")
        bps.shutdown()
    print(f"all right {rank}/{size}")
