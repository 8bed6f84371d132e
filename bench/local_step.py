"""A training step of the ranks of one machine: byteps.torch beside DistributedDataParallel.

    ./dev bench local_step [--ranks 4] [--model resnet50] [--steps 5] [--repeats 7]

The ranks have parameters with the model's shapes and compute as little as possible, so a step is
mostly the exchange of gradients, and the optimizer. `optimizer` is
byteps.torch.DistributedOptimizer, `hook` is torch's DistributedDataParallel with
byteps.torch.ddp_comm_hook, and `ddp` is DistributedDataParallel over Gloo on loopback. The three
jobs alternate, and their weights are checked bit for bit. Tables go to bench-out/local_step.md and
bench-out/local_step.json.
"""

from __future__ import annotations

import argparse
import sys

from harness.command import settings_of
from harness.jobs import Job, Meeting, free_port, median, start_byteps, start_gloo
from harness.programs import REPOSITORY, RESULTS, BenchError, Fleet, Place
from harness.report import Report
from harness.shapes import shape_names

LOOPBACK = "127.0.0.1"
KINDS = ("optimizer", "hook", "ddp")
STEP_WORKER = REPOSITORY / "bench" / "step_worker.py"


def start(fleet: Fleet, kind: str, arguments: argparse.Namespace) -> Job:
    """Start the ranks of one kind on this machine."""
    program = [STEP_WORKER, arguments.model, kind]
    if kind == "ddp":
        places = [Place()] * arguments.ranks
        return start_gloo(fleet, Meeting(LOOPBACK, free_port()), places, program=program)
    return start_byteps(
        fleet,
        Meeting(LOOPBACK, free_port()),
        Place(),
        [],
        [Place()],
        {"BYTEPS_FORCE_DISTRIBUTED": "0", "OMP_NUM_THREADS": "1"},
        ranks=arguments.ranks,
        program=[sys.executable, *program],
    )


def measure(report: Report, arguments: argparse.Namespace) -> None:
    """All kinds in turn; the first time only warms up."""
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    cpu: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with Fleet() as fleet:
        jobs = {kind: start(fleet, kind, arguments) for kind in KINDS}
        for repeat in range(-1, arguments.repeats):
            for kind, job in jobs.items():
                sample = job.run(f"run {arguments.model} {arguments.steps}", arguments.steps)
                report.say(f"{kind}: {sample.seconds * 1e3:.1f} ms a step")
                if repeat >= 0:
                    seconds[kind].append(sample.seconds)
                    cpu[kind].append(sample.cpu_seconds)
    for kind in KINDS:
        ratios = [a / b for a, b in zip(seconds[kind], seconds["ddp"], strict=True)]
        report.add(
            {
                "what": kind,
                "step ms": round(median(seconds[kind]) * 1e3, 1),
                "least": round(min(seconds[kind]) * 1e3, 1),
                "most": round(max(seconds[kind]) * 1e3, 1),
                "CPU s": round(median(cpu[kind]), 3),
                "time / DDP over Gloo": round(median(ratios), 3),
            },
            {"seconds": seconds[kind]},
        )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench local_step",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--model", choices=shape_names(), default="resnet50")
    parser.add_argument("--steps", type=int, default=5, help="of one measurement")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--output", default=str(RESULTS / "local_step"), help="without ending")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    report = Report(
        "torch: a step of the ranks of one machine", arguments.output, settings_of(arguments)
    )
    try:
        measure(report, arguments)
    except BenchError as error:
        print(f"bench local_step: {error}", file=sys.stderr)
        return 1
    finally:
        report.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
