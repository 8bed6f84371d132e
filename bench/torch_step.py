"""What DistributedOptimizer costs beside the step itself, with one worker and no server.

    ./dev bench torch [--repeats 30] [--model resnet50]

One step is backward and step of SGD on parameters with the model's shapes. Alone, nothing is
exchanged; "exchange" makes every gradient go through the library all the same, as in a job of
several workers, except that nobody is at the other end. "Python alone" does the same with a library
that does nothing, so the rest of "exchange" is the library and the handing over between threads.
With one number per parameter, what is left is the cost of the calls. The cases take turns, so a
slow moment of the machine hits all of them. Tables go to bench-out/torch.md and
bench-out/torch.json.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from harness.command import settings_of
from harness.jobs import median
from harness.programs import RESULTS
from harness.report import Report
from harness.shapes import load_shapes, shape_names

import byteps.torch as bps
from byteps.common.gradients.step_exchange import StepExchange
from byteps.common.session import default
from byteps.torch import gradients

BUDGET_US = 50.0


class NoTicket:
    """What the session knows of an operation that does nothing."""

    handle, is_held = 0, False


class DoesNothing:
    """A native session in which every operation is complete at once."""

    def __init__(self) -> None:
        self.started = 0

    def declare(self, name: str) -> None: ...

    def start(self, *arguments: Any, ticket: NoTicket, **more: Any) -> int:
        self.started += 1
        ticket.handle = self.started
        return self.started

    def poll(self, handle: int) -> int:
        return 1

    def wait(self, handle: int, timeout_ms: int) -> None: ...

    def handle_members(self, handle: int) -> list[int]:
        return [0]

    def release(self, handle: int) -> None: ...


@dataclass
class Case:
    """One way to step."""

    name: str
    step: Callable[[], None]
    exchanging: bool = False
    native: Any = None
    seconds: list[float] = field(default_factory=list)

    def run(self) -> None:
        """Step once and remember how long it took."""
        session = default.current()
        native, new_ticket = session._native, session._new_ticket
        if self.native is not None:
            session._native, session._new_ticket = self.native, NoTicket  # type: ignore[assignment]
        Everybody.exchanging = self.exchanging
        begin = time.perf_counter()
        self.step()
        self.seconds.append(time.perf_counter() - begin)
        session._native, session._new_ticket = native, new_ticket


class Everybody(StepExchange):
    """An exchange that can be made to take place although nobody else is there."""

    exchanging = False

    @property
    def is_active(self) -> bool:
        """Whether gradients are exchanged."""
        return self.exchanging


def make_step(shapes: list[list[int]], distributed: bool) -> Callable[[], None]:
    """Return a function that computes all gradients and steps."""
    parameters = [torch.nn.Parameter(torch.zeros(shape)) for shape in shapes]
    stepper: Any = torch.optim.SGD(parameters, lr=0.1)
    if distributed:
        named = [(str(i), p) for i, p in enumerate(parameters)]
        stepper = bps.DistributedOptimizer(stepper, named)
    gradients = [torch.ones(shape) for shape in shapes]

    def step() -> None:
        stepper.zero_grad()
        torch.autograd.backward(parameters, gradients)
        stepper.step()

    return step


def make_cases(shapes: list[list[int]]) -> list[Case]:
    """Return all ways to step on parameters of these shapes."""
    Everybody.exchanging = True  # so that hooks are there
    return [
        Case("optimizer alone", make_step(shapes, distributed=False)),
        Case("DistributedOptimizer", make_step(shapes, distributed=True)),
        Case("  exchange", make_step(shapes, distributed=True), exchanging=True),
        Case(
            "  exchange, Python alone",
            make_step(shapes, distributed=True),
            exchanging=True,
            native=DoesNothing(),
        ),
    ]


def measure(report: Report, title: str, shapes: list[list[int]], repeats: int) -> float:
    """Run all cases in turn; return the microseconds per parameter that an exchange costs."""
    report.say(f"{title}: {len(shapes)} parameters")
    cases = make_cases(shapes)
    for repeat in range(-3, repeats):
        for case in cases:
            case.run()
            if repeat < 0:
                case.seconds.clear()
    plain = median(cases[0].seconds)
    costs = []
    for case in cases:
        seconds = median(case.seconds)
        costs.append((seconds - plain) * 1e6 / len(shapes))
        report.add(
            {
                "parameters": title,
                "what": case.name,
                "step us": round(seconds * 1e6),
                "more, us a parameter": round(costs[-1], 1),
            },
            {"seconds": case.seconds},
        )
    report.say(
        f"{title}: an exchange costs {costs[2]:.1f} us a parameter (budget {BUDGET_US:.0f}), "
        f"Python's share {costs[3]:.1f} us"
    )
    return costs[2]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench torch",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--model", choices=shape_names(), default="resnet50")
    parser.add_argument("--output", default=str(RESULTS / "torch"), help="without ending")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    torch.set_num_threads(1)
    settings = settings_of(arguments)
    report = Report("torch: a step with one worker and no server", arguments.output, settings)
    shapes = [shape for _, shape in load_shapes(arguments.model).tensors]
    gradients.StepExchange = Everybody  # type: ignore[misc]
    bps.init()
    try:
        costs = [
            measure(report, arguments.model, shapes, arguments.repeats),
            measure(report, "one number each", [[1]] * len(shapes), arguments.repeats),
        ]
    finally:
        bps.shutdown()
        report.finish()
    return 0 if max(costs) < BUDGET_US else 1


if __name__ == "__main__":
    sys.exit(main())
