"""Trains a model on the batches of a DataLoader, whose processes write into all of its tensors.

`argv[1]` is the number of these processes; 0: the training process makes its batches itself. A fork
has its own copy of the memory, so nothing that it writes may reach the weights or a network card.
"""

from __future__ import annotations

import hashlib
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, get_worker_info

import byteps.torch as bps

SAMPLES = 96
INPUTS = 256


class Samples(Dataset):
    """Samples of which each is the same in every run."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self._model = model
        self._optimizer = optimizer

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if get_worker_info() is not None:
            self._spoil()
        generator = torch.Generator().manual_seed(1000 * bps.rank() + index)
        return torch.randn(INPUTS, generator=generator), index % 10

    def _spoil(self) -> None:
        states = [one for state in self._optimizer.state.values() for one in state.values()]
        for parameter in self._model.parameters():
            states += [parameter.data, parameter.grad]
        for tensor in states:
            if isinstance(tensor, torch.Tensor):
                tensor.fill_(float("nan"))


def main() -> None:
    """Train, and print a fingerprint of the weights."""
    processes = int(sys.argv[1])
    torch.set_num_threads(1)
    bps.init()
    torch.manual_seed(bps.rank())
    model = nn.Sequential(nn.Linear(INPUTS, 512), nn.ReLU(), nn.Linear(512, 10))
    bps.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = bps.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), model.named_parameters()
    )
    context = "fork" if processes else None
    samples = Samples(model, optimizer)
    loader = DataLoader(
        samples, batch_size=8, num_workers=processes, multiprocessing_context=context
    )
    for _ in range(3):
        for inputs, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print(f"weights {hashlib.sha256(weights).hexdigest()} of rank {bps.rank()}")
    bps.shutdown()


if __name__ == "__main__":
    main()
