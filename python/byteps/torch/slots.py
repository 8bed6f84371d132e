"""Parameters of an optimizer, one by one and in groups, as the exchange of gradients sees them."""

from __future__ import annotations

from typing import Any

import torch

from byteps.common.call import Call
from byteps.common.pending import Handle
from byteps.torch.sparse import SparseHandle
from byteps.torch.usage import NO_GRADIENT, SentGradient


class Slot:
    """One parameter."""

    __slots__ = (
        "context",
        "is_own",
        "is_used",
        "is_watched",
        "layout",
        "name",
        "own_layout",
        "parameter",
        "passes",
        "priority",
        "sent",
        "unit",
        "wire",
    )

    def __init__(self, parameter: torch.Tensor, name: str, priority: int) -> None:
        self.parameter = parameter
        self.name = name
        self.priority = priority
        self.passes = 0  # that have computed its gradient in this step
        self.is_own = False  # the optimizer has it; others may have names
        self.is_watched = False
        self.is_used = True  # some rank has a gradient in this step
        # How this rank's gradient that is on its way is stored, and how some rank's was when last
        # there was one, which is the same on all ranks.
        self.own_layout = NO_GRADIENT
        self.layout = NO_GRADIENT
        self.unit: Unit | None = None
        self.wire: torch.Tensor | None = None
        self.context: object = None
        self.sent: SentGradient | None = None

    @property
    def is_trained(self) -> bool:
        """Whether the optimizer changes it."""
        return self.is_own and self.parameter.requires_grad

    def is_changed(self) -> bool:
        """Return whether somebody changed the gradient on its way; see SentGradient."""
        return self.sent is not None and self.sent.is_changed()


class Unit:
    """Parameters whose gradients travel as one operation; mostly one."""

    __slots__ = ("call", "flights", "is_done", "name", "ready", "slots")

    def __init__(self, slots: list[Slot], name: str, call: Call) -> None:
        self.slots = slots
        self.name = name  # that of the call, without the ending
        self.call = call
        self.ready = 0
        self.is_done = False  # exchanged in this step
        # What is on its way, with the parameters that it is of.
        self.flights: list[tuple[Handle[Any] | SparseHandle, list[Slot]]] = []
