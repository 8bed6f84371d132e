"""A small model and its optimizer, and what the fake core saw of them."""

from __future__ import annotations

import torch

import byteps.torch as bps


def wrap(model, **options):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return bps.DistributedOptimizer(optimizer, model.named_parameters(), **options)


def loss_of(model):
    return model(torch.ones(2, 3)).pow(2).sum()


def gradients_of(core) -> list[str]:
    return [name for name in core.names() if name.startswith("byteps.Gradient.")]


def exchanged(core):
    """Return the operations on gradients, not those that ask who has one."""
    return [item for item in core.started if not item.name.endswith(".used")]
