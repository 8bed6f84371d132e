"""push_pull on links of a known rate, beside peers and beside what the links can do at best.

    ./dev bench lab [--row 1 --row 2 ...] [--mbit 200,500] [--repeats 7] ...      (needs root)

Hosts are network namespaces around a bridge; `tc tbf` limits every link in both directions. The
rate B is what one plain stream of a socket reaches between two of the hosts, the better of before
and after every repeat; t_opt is the least time that any split of the work needs at B. Rows 5 and 6
print every step. Tables go to bench-out/lab.md and bench-out/lab.json. The rows:

"""

from __future__ import annotations

import argparse
import os
import sys

from harness.command import end_on_signals, settings_of
from harness.lab import Lab
from harness.network import SUBNETS, LinkOptions, Network, remove_leftovers
from harness.programs import RESULTS, BenchError, require_programs
from harness.report import Report
from harness.shapes import shape_names
from lab_rows import ROWS, describe_rows

BURST_HELP = (
    "of the token bucket; below 64 it cuts the kernel's large segments into packets, which costs "
    "several times the CPU; its part of the tensor is a free ride (256 KB of 100 MB: 0.3 %%)"
)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench lab",
        description=f"{__doc__}{describe_rows()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--row",
        type=int,
        action="append",
        choices=tuple(ROWS),
        metavar="N",
        help="may be repeated; default: all",
    )
    parser.add_argument("--mbit", default="200,500", help="link rates")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--servers", type=int, default=4, help="hosts that only sum")
    parser.add_argument(
        "--beside", action="store_true", help="a server beside each worker, too, in any case"
    )
    parser.add_argument(
        "--ranks",
        type=int,
        default=1,
        help="workers on each worker host; t_opt counts a host once, however many it has",
    )
    parser.add_argument("--megabytes", type=int, default=100, help="of one tensor")
    parser.add_argument("--models", default=",".join(shape_names()), help="row 7")
    parser.add_argument("--congestion", default="cubic", help="of every host")
    parser.add_argument("--mtu", type=int, default=1500)
    parser.add_argument("--burst-kb", type=int, default=256, help=BURST_HELP)
    parser.add_argument(
        "--links",
        type=int,
        default=1,
        choices=range(1, len(SUBNETS) + 1),
        help="of each host, each in a network of its own; only row 32 uses more than the first",
    )
    parser.add_argument("--queue-ms", type=int, default=20, help="of a port")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="BYTEPS_NAME=VALUE",
        help="for the byteps job",
    )
    parser.add_argument(
        "--variant",
        action="append",
        default=[],
        metavar="BYTEPS_NAME=VALUE,...",
        help="a further byteps job with these options, in turn with the others",
    )
    parser.add_argument("--output", default=str(RESULTS / "lab"), help="without ending")
    return parser.parse_args()


def run_rate(mbit: int, arguments: argparse.Namespace, report: Report) -> None:
    """All wanted rows at one link rate."""
    options = LinkOptions(
        mbit,
        arguments.mtu,
        arguments.burst_kb,
        arguments.queue_ms,
        arguments.congestion,
        arguments.links,
    )
    with Network(arguments.workers + arguments.servers, options) as network:
        workers = network.hosts[: arguments.workers]
        servers = network.hosts[arguments.workers :]
        with Lab(network, mbit, arguments, workers, servers) as lab:
            for row in sorted(set(arguments.row or ROWS)):
                ROWS[row](lab, report)


def main() -> int:
    arguments = parse_arguments()
    require_programs()
    if os.geteuid() != 0:
        print("bench lab: network namespaces need root; run it with sudo", file=sys.stderr)
        return 2
    end_on_signals()
    remove_leftovers()
    report = Report("Lab: push_pull on limited links", arguments.output, settings_of(arguments))
    try:
        for mbit in arguments.mbit.split(","):
            run_rate(int(mbit), arguments, report)
    except BenchError as error:
        print(f"bench lab: {error}", file=sys.stderr)
        return 1
    finally:
        report.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
