"""The figures of `bps doctor` on links of known rates, beside a plain socket on the same.

    ./dev bench doctor [--mbit 100,500] [--repeats 3]      (needs root)

Hosts are network namespaces, as in bench/lab.py. The plain socket is bench/socket_bench.cc, which
shares no code with the doctor. The table goes to bench-out/doctor.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.jobs import median, start_sockets
from harness.network import LinkOptions, Network, remove_leftovers
from harness.programs import RESULTS, BenchError, Fleet, require_programs

HOSTS = 2
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


def plain(network: Network, mbit: int) -> float:
    """Return what a plain socket gets from the first host to the second, in Mbit/s."""
    first, second = network.hosts
    nbytes = int(mbit * 1e6 / 8 * STREAM_S)
    with Fleet() as fleet:
        job = start_sockets(fleet, [(second.place, second.address)], [first.place])
        return nbytes * 8 / job.run(f"stream {nbytes}").seconds / 1e6


def by_doctor(network: Network, shell: str) -> dict[str, float]:
    """Return the doctor's two figures of the same direction."""
    hosts = ",".join(host.address for host in network.hosts)
    command = [sys.executable, "-m", "byteps.cli", "doctor", "--json", "--hosts", hosts]
    done = subprocess.run(
        [*command, "--rsh", shell, "--seconds", str(STREAM_S)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    survey = json.loads(done.stdout)["survey"]
    link = survey["links"][0]
    if link["socket_mbit"] is None or link["push_pull_mbit"] is None:
        raise BenchError(f"the doctor could not measure: {survey['problems']}")
    return {"socket": link["socket_mbit"], "push_pull": link["push_pull_mbit"]}


def measure(mbit: int, repeats: int, folder: Path) -> list[str]:
    """Return one row of the table: medians of the repeats, and their ratios."""
    sockets, streams, tensors = [], [], []
    with Network(HOSTS, LinkOptions(mbit)) as network:
        shell = rsh(folder, network)
        for _ in range(repeats):
            # One before and one after: the better one was not disturbed.
            before = plain(network, mbit)
            found = by_doctor(network, shell)
            sockets.append(max(before, plain(network, mbit)))
            streams.append(found["socket"])
            tensors.append(found["push_pull"])
    of_streams = median([a / b for a, b in zip(streams, sockets, strict=True)])
    of_tensors = median([a / b for a, b in zip(tensors, sockets, strict=True)])
    rates = [f"{median(values):.1f}" for values in (sockets, streams, tensors)]
    return [str(mbit), *rates, f"{of_streams:.3f}", f"{of_tensors:.3f}"]


def main() -> int:
    """Measure at each rate and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mbit", default="100,500", help="rates of the links")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    require_programs()
    remove_leftovers()
    head = ["Mbit/s", "plain socket", "doctor: socket", "doctor: push_pull", "ratio", "ratio"]
    lines = [f"| {' | '.join(head)} |", "|---|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        for mbit in arguments.mbit.split(","):
            row = measure(int(mbit), arguments.repeats, Path(folder))
            lines.append(f"| {' | '.join(row)} |")
            print(lines[-1], flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "doctor.md").write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
