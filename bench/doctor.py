"""The figures of `bps doctor` on links of known rates, beside a plain socket on the same.

    ./dev bench doctor [--mbit 100,500] [--repeats 3]      (needs root)

Hosts are network namespaces, as in bench/lab.py. The last one has a link of half the rate, and the
doctor must name it as the bottleneck. The plain socket is bench/socket_bench.cc, which shares no
code with the doctor. The table goes to bench-out/doctor.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness.jobs import median, start_sockets
from harness.network import Host, LinkOptions, Network, remove_leftovers
from harness.programs import RESULTS, BenchError, Fleet, require_programs

HOSTS = 3
STREAM_S = 1.0
LIMIT_S = 300


def rsh(folder: Path, network: Network) -> str:
    """Write a command that runs a command on a host, as ssh does; return its words."""
    cases = "\n".join(f"{h.address}) name={h.namespace} ;;" for h in network.hosts)
    script = folder / "rsh"
    script.write_text(
        f'#!/bin/sh\ncase "$1" in\n{cases}\nesac\nshift\nexec ip netns exec $name "$@"\n'
    )
    script.chmod(0o755)
    return str(script)


def plain(source: Host, target: Host, mbit: float) -> float:
    """Return what a plain socket gets from one host to another, in Mbit/s."""
    nbytes = int(mbit * 1e6 / 8 * STREAM_S)
    with Fleet() as fleet:
        job = start_sockets(fleet, [(target.place, target.address)], [source.place])
        return nbytes * 8 / job.run(f"stream {nbytes}").seconds / 1e6


def by_doctor(network: Network, shell: str) -> dict[str, Any]:
    """Return what the doctor has found."""
    hosts = ",".join(host.address for host in network.hosts)
    command = [sys.executable, "-m", "byteps.cli", "doctor", "--json", "--hosts", hosts]
    done = subprocess.run(
        [*command, "--rsh", shell, "--seconds", str(STREAM_S)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    survey: dict[str, Any] = json.loads(done.stdout)["survey"]
    if not any(link["socket_mbit"] for link in survey["links"]):
        raise BenchError(f"the doctor could not measure: {survey['problems']}")
    return survey


def measure(mbit: int, repeats: int, folder: Path) -> list[list[str]]:
    """Return a row of the table for each link: medians of the repeats, and their ratios."""
    found: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    with Network(HOSTS, LinkOptions(mbit)) as network:
        slow = network.hosts[-1]
        network.set_rate(slow, mbit / 2)
        at = {host.address: host for host in network.hosts}
        for _ in range(repeats):
            survey = by_doctor(network, rsh(folder, network))
            if slow.address not in survey["bottleneck"].partition(":")[0]:
                raise BenchError(f"the bottleneck is {slow.address}: {survey['bottleneck']}")
            for link in survey["links"]:
                if link["socket_mbit"] is None or link["push_pull_mbit"] is None:
                    continue  # no neighbours in the list
                ends = link["source"], link["target"]
                rate = mbit / 2 if slow.address in ends else mbit
                # The better one of two was not disturbed.
                socket = max(plain(at[ends[0]], at[ends[1]], rate) for _ in range(2))
                found.setdefault(ends, []).append(
                    (socket, link["socket_mbit"], link["push_pull_mbit"])
                )
    return [_row(*ends, rates) for ends, rates in found.items()]


def _row(source: str, target: str, rates: list[tuple[float, float, float]]) -> list[str]:
    sockets, streams, tensors = zip(*rates, strict=True)
    values = [f"{median(list(one)):.1f}" for one in (sockets, streams, tensors)]
    ratios = [
        f"{median([a / b for a, b in zip(one, sockets, strict=True)]):.3f}"
        for one in (streams, tensors)
    ]
    return [source, target, *values, *ratios]


def main() -> int:
    """Measure at each rate and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mbit", default="100,500", help="rates of the links")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    require_programs()
    remove_leftovers()
    head = ["Mbit/s", "from", "to", "plain socket", "doctor: socket", "doctor: push_pull"]
    head += ["ratio", "ratio"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    with tempfile.TemporaryDirectory() as folder:
        for mbit in arguments.mbit.split(","):
            for row in measure(int(mbit), arguments.repeats, Path(folder)):
                lines.append(f"| {mbit} | {' | '.join(row)} |")
                print(lines[-1], flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "doctor.md").write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
