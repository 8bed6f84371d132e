"""What the short examples train: a network that learns a function of eight numbers."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable

import torch

INPUTS, STEPS, BATCH = 8, 200, 32


def make_model() -> torch.nn.Module:
    """Return a network with one hidden layer."""
    return torch.nn.Sequential(torch.nn.Linear(INPUTS, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))


def batch_of(rank: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return this rank's share of a step's data: each rank draws other numbers."""
    dice = torch.Generator().manual_seed(step * 1000 + rank)
    inputs = torch.randn(BATCH, INPUTS, generator=dice)
    return inputs, torch.tanh(inputs.sum(dim=1, keepdim=True) / 2)


def data_of_all() -> torch.utils.data.TensorDataset:
    """Return the data of all steps, for libraries that share them out by themselves."""
    steps = [batch_of(0, step) for step in range(STEPS)]
    return torch.utils.data.TensorDataset(*map(torch.cat, zip(*steps, strict=True)))


def loss_of(model: torch.nn.Module, rank: int, step: int) -> torch.Tensor:
    """Return the loss on this rank's share."""
    inputs, targets = batch_of(rank, step)
    return torch.nn.functional.mse_loss(model(inputs), targets)


def chosen_backend() -> str:
    """Return the backend: the first word after the program's name, or byteps."""
    return sys.argv[1] if len(sys.argv) > 1 else "byteps"


def fingerprint(weights: Iterable[torch.Tensor]) -> str:
    """Return the same text for the same weights, and another one if a single bit differs."""
    found = hashlib.sha256()
    for tensor in weights:
        found.update(tensor.detach().contiguous().view(-1).view(torch.uint8).numpy())
    return found.hexdigest()[:16]
