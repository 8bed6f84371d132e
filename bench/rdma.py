"""What tensors between two hosts cost over RDMA, beside TCP.

    ./dev bench rdma --device mlx5_0 --peer 10.0.0.2 [--mb 64] [--rounds 30] [--ssh ssh]

The scheduler and one worker run here, one server runs on the other host. The worker sums a tensor
again and again, so the link is full in both directions. `--peer` is the address of the other host
in the network of the device. Ssh must get there without a question, and this folder must be there
at the same place, built. For each end the processor time and the sleeps are those of a job with
`--rounds`, less those of a job with none; a GB is one of the tensor, there and back. The sums must
be the same bits. The figures go to bench-out/rdma.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from harness.jobs import free_port

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent
RESULTS = REPOSITORY / "bench-out" / "rdma.json"
DEVICES = Path("/sys/class/infiniband")
GB = 1e9
# A job that stands still for so long is hung.
LIMIT_S = 300.0


def interface_of(device: str) -> str:
    """Return the network interface of a device, at its first port."""
    port = DEVICES / device / "ports/1/gid_attrs/ndevs/0"
    try:
        return port.read_text().strip()
    except OSError:  # InfiniBand
        found = sorted((DEVICES / device / "device/net").glob("*"))
    if not found:
        have = ", ".join(sorted(one.name for one in DEVICES.glob("*"))) or "none"
        sys.exit(f"rdma: {device} has no network interface here; devices of this host: {have}")
    return found[0].name


def address_of(interface: str) -> str:
    words = ["ip", "-o", "-4", "address", "show", "dev", interface]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    if "inet" not in shown:
        sys.exit(f"rdma: {interface} has no IPv4 address; a connection for tensors needs one")
    return shown[shown.index("inet") + 1].split("/")[0]


class Job:
    """A worker here and a server there."""

    def __init__(self, arguments: argparse.Namespace, transport: str) -> None:
        self.arguments = arguments
        self.interface = interface_of(arguments.device)
        self.variables = {
            "DMLC_NUM_WORKER": "1",
            "DMLC_NUM_SERVER": "1",
            "DMLC_PS_ROOT_URI": address_of(self.interface),
            "DMLC_PS_ROOT_PORT": str(free_port("0.0.0.0")),
            "BYTEPS_JOB_SECRET": os.urandom(8).hex(),
            "BYTEPS_FORCE_DISTRIBUTED": "1",
            "BYTEPS_SHARED_LINKS": "0",
            "BYTEPS_TRANSPORT": transport,
        }
        self.running: list[subprocess.Popen[str]] = []

    def run(self, rounds: int) -> dict[str, dict[str, float | str]]:
        """Return what the ends have used, and what the worker says."""
        program = [sys.executable, str(HERE / "used.py")]
        launcher = [sys.executable, "-m", "byteps.cli.bpslaunch"]
        try:
            self._here(launcher, DMLC_ROLE="scheduler")
            there = {**self.variables, "DMLC_ROLE": "server"}
            there["DMLC_NODE_HOST"] = self.arguments.peer
            words = ["env", *(f"{k}={v}" for k, v in there.items()), *program, *launcher]
            remote = f"cd {shlex.quote(str(REPOSITORY))} && {shlex.join(words)}"
            ssh = [*shlex.split(self.arguments.ssh), self.arguments.peer, remote]
            server = self._start(ssh, dict(os.environ))
            size = str(self.arguments.mb << 20)
            sums = [sys.executable, str(HERE / "rdma_worker.py"), size, str(rounds)]
            worker = self._here(
                [*program, *sums], DMLC_ROLE="worker", BYTEPS_INTERFACES=self.interface
            )
            said = [self._finish(worker, "worker"), self._finish(server, "server")]
        finally:
            for process in self.running:
                process.kill()
                process.wait()
        lines = [json.loads(line) for line in said[0].splitlines() if line.startswith("{")]
        ends = {"worker": {**lines[0], **lines[1]}}
        ends["server"] = json.loads(said[1].splitlines()[-1])
        return ends

    def _here(self, words: list[str], **more: str) -> subprocess.Popen[str]:
        return self._start(words, {**os.environ, **self.variables, **more})

    def _start(self, words: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            words, env=environment, text=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        self.running.append(process)
        return process

    def _finish(self, process: subprocess.Popen[str], name: str) -> str:
        out, _ = process.communicate(timeout=LIMIT_S)
        if process.returncode != 0:
            sys.exit(f"rdma: the {name} ended with {process.returncode}; it said: {out}")
        return out


def measure(arguments: argparse.Namespace, transport: str) -> dict[str, float | str]:
    """Return the figures of one transport."""
    idle = Job(arguments, transport).run(0)
    busy = Job(arguments, transport).run(arguments.rounds)
    bytes_there = arguments.rounds * (arguments.mb << 20)
    figures: dict[str, float | str] = {
        "digest": str(idle["worker"]["digest"]),
        "MB_per_s": bytes_there / float(busy["worker"]["seconds"]) / 1e6,
    }
    for end in ("worker", "server"):
        for what in ("cpu_s", "sleeps"):
            more = float(busy[end][what]) - float(idle[end][what])
            figures[f"{end}_{what}_per_GB"] = more / (bytes_there / GB)
    return figures


def line_of(transport: str, figures: dict[str, float | str]) -> str:
    return (
        f"{transport}: {figures['MB_per_s']:.0f} MB/s each way; worker"
        f" {figures['worker_cpu_s_per_GB']:.2f} s and {figures['worker_sleeps_per_GB']:.0f} sleeps,"
        f" server {figures['server_cpu_s_per_GB']:.2f} s and"
        f" {figures['server_sleeps_per_GB']:.0f} sleeps for each GB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", required=True, help="RDMA device of this host, such as mlx5_0")
    parser.add_argument("--peer", required=True, help="the other host's address in its network")
    parser.add_argument("--mb", type=int, default=64, help="MiB of the tensor")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--ssh", default="ssh -o BatchMode=yes", help="reaches the other host")
    parser.add_argument("--address", action="store_true", help="print that of the device, and end")
    parser.add_argument("--json", type=Path, default=RESULTS, help="where the figures go")
    arguments = parser.parse_args()
    if arguments.address:
        print(address_of(interface_of(arguments.device)))
        return
    found = {}
    for transport in ("tcp", "rdma"):
        found[transport] = measure(arguments, transport)
        print(line_of(transport, found[transport]), flush=True)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps({"device": arguments.device, **found}, indent=2) + "\n")
    if found["rdma"]["digest"] != found["tcp"]["digest"]:
        sys.exit("rdma: the sums are other bits than over TCP")


if __name__ == "__main__":
    main()
