"""What the links between the machines of a job carry, measured with plain sockets."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from byteps.cli.doctor import wire
from byteps.common.job.launch_environment import own_address

_SECONDS = 0.5


@dataclass(frozen=True)
class Link:
    """The slowest link: what it carries while all machines send and receive at the same time."""

    bytes_per_s: float
    round_trip_s: float


class Ring:
    """Each machine sends to the next one. One worker of each machine measures."""

    def __init__(self, machine: int, measures: bool, tell_all: Callable[[Any], Sequence[Any]]):
        """Listen. `tell_all` gives an object to all workers and returns those of all, by rank."""
        self._tell_all = tell_all
        self._measures = measures
        self._responder: wire.Responder | None = None
        own = None
        if measures:
            token = secrets.token_hex(16)
            self._responder = wire.Responder(token)
            own = (machine, own_address(on_one_machine=False), self._responder.port, token)
        told = sorted(one for one in tell_all(own) if one is not None)
        places = [one[0] for one in told]
        self._next = told[(places.index(machine) + 1) % len(told)][1:]

    def measure(self) -> Link | str:
        """Return what the slowest link carries, or why nobody knows."""
        told: tuple[str, float, float] | None = None
        if self._measures:
            host, port, token = self._next
            try:
                trip_us = wire.round_trip_us(host, port, token)
                mbit = wire.send_rate_mbit(host, port, token, _SECONDS)
                told = ("", mbit, trip_us)
            except OSError as error:
                told = (wire.explain(error, host, port), 0.0, 0.0)
        answers = [one for one in self._tell_all(told) if one is not None]
        problem = next((text for text, _, _ in answers if text), "")
        if problem:
            return problem
        return Link(
            bytes_per_s=min(mbit for _, mbit, _ in answers) * 1e6 / 8,
            round_trip_s=max(trip for _, _, trip in answers) / 1e6,
        )

    def close(self) -> None:
        """Let nobody in any more."""
        if self._responder is not None:
            self._responder.close()
