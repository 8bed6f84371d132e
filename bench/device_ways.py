"""Emulated GPUs behind slow links: what each way of summing takes, beside the plan's forecast.

    ninja -C build bench_device_ways
    ./dev bench device_ways [--mb 32] [--link 20] [--gpu 25] [--steps 1] [--repeats 3]

One machine has four GPUs, two behind each of two links to the CPU. The stand-ins for the driver and
for NCCL move the bytes, and links have rates: this is emulation. It shows whether the bytes pass
the links that the plan says, in time, and whether `auto` takes the faster way; it says nothing of a
real GPU. Servers run on the same machine, and their network is as fast as its memory. Tables go to
bench-out/device_ways.md and bench-out/device_ways.json.
"""

from __future__ import annotations

import argparse
import sys

from harness.jobs import Job, Meeting, free_port, median
from harness.programs import (
    BENCH_DEVICE_WAYS,
    BPS_SCHEDULER,
    BPS_SERVER,
    BUILD,
    RESULTS,
    BenchError,
    Fleet,
    Place,
)
from harness.report import Report

LOOPBACK = "127.0.0.1"
RANKS = 4
RANKS_OF_PROCESS = 2
NAMES = {"nvlink": "four GPUs with NVLink", "pci": "two islands of two GPUs"}


def start(fleet: Fleet, arguments: argparse.Namespace, peers: str, servers: int, way: str) -> Job:
    """Start a job of one machine, whose ranks are two in a process."""
    meeting = Meeting(LOOPBACK, free_port())
    common = {
        "DMLC_PS_ROOT_URI": meeting.host,
        "DMLC_PS_ROOT_PORT": str(meeting.port),
        "DMLC_NUM_WORKER": "1",
        "DMLC_NUM_SERVER": str(servers),
        "BYTEPS_LOCAL_SIZE": str(RANKS),
        "BYTEPS_LOCAL_REDUCE": "1",
        "BYTEPS_DEVICE_SUMS": way,
        "BYTEPS_START_TIMEOUT": "60",
    }
    helpers = []
    if servers > 0:
        command = [BUILD / BPS_SCHEDULER]
        helpers.append(
            fleet.start("scheduler", Place(), command, {**common, "DMLC_ROLE": "scheduler"})
        )
    for number in range(servers):
        command = [BUILD / BPS_SERVER]
        helpers.append(
            fleet.start(f"server {number}", Place(), command, {**common, "DMLC_ROLE": "server"})
        )
    workers = [
        fleet.start(
            f"worker {first}",
            Place(),
            [BENCH_DEVICE_WAYS, str(first), str(arguments.gpu), str(arguments.link), peers],
            {**common, "DMLC_ROLE": "worker", "DMLC_WORKER_ID": "0"},
        )
        for first in range(0, RANKS, RANKS_OF_PROCESS)
    ]
    return Job("byteps", workers, helpers)


def measure(arguments: argparse.Namespace, peers: str, servers: int, report: Report) -> None:
    """Run both ways of a machine, and report how far from the forecast they were."""
    nbytes = arguments.mb * 1_000_000
    seconds: dict[str, float] = {}
    forecast: dict[str, float] = {}
    choice = ""
    for way in ("window", "nccl"):
        with Fleet() as fleet:
            job = start(fleet, arguments, peers, servers, way)
            job.workers[0].tell(f"forecast {servers}")
            answer = job.workers[0].answer()
            forecast[way], choice = answer[way] * nbytes, answer["auto"]
            samples = [
                job.run(f"run {way} {arguments.steps} {nbytes}") for _ in range(arguments.repeats)
            ]
            seconds[way] = median(
                [max(one["seconds"] for one in sample.answers) for sample in samples]
            )
            if (samples[-1].answers[0]["collectives"] > 0) != (way == "nccl"):
                raise BenchError(f"the job did not take the way {way}")
    faster = min(seconds, key=lambda way: seconds[way])
    report.add(
        {
            "machine": NAMES[peers],
            "servers": servers,
            "window s": round(seconds["window"], 3),
            "window / forecast": round(seconds["window"] / forecast["window"], 3),
            "NCCL s": round(seconds["nccl"], 3),
            "NCCL / forecast": round(seconds["nccl"] / forecast["nccl"], 3),
            "faster": faster,
            "auto takes": choice,
        },
        {"seconds": seconds, "forecast": forecast},
    )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench device_ways",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--mb", type=int, default=32, help="of all tensors of a step")
    parser.add_argument("--link", type=float, default=20, help="MB/s of each link to the CPU")
    parser.add_argument("--gpu", type=float, default=25, help="MB/s of each GPU's own link")
    parser.add_argument("--steps", type=int, default=1, help="of each run")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", default=str(RESULTS / "device_ways"), help="without ending")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    settings = {key: str(value) for key, value in vars(arguments).items() if key != "output"}
    report = Report("Ways of summing of emulated GPUs", arguments.output, settings)
    try:
        if not BENCH_DEVICE_WAYS.exists():
            raise BenchError("it is not built; run: ninja -C build bench_device_ways")
        for peers in ("pci", "nvlink"):
            for servers in (0, 2):
                report.say(f"{NAMES[peers]}, {servers} servers")
                measure(arguments, peers, servers, report)
    except BenchError as error:
        print(f"bench device_ways: {error}", file=sys.stderr)
        return 1
    finally:
        report.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
