"""The command `bps doctor`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from byteps.cli.arguments import Number, Parser
from byteps.cli.doctor import machine, rdma, report, scheduler_check, software, sums
from byteps.cli.doctor.remote import SSH, RemoteAgent
from byteps.cli.doctor.survey import Survey, examine
from byteps.cli.ports import read_ports
from byteps.common.errors import InvalidArgumentError

_HELP = """Say what this machine has, and what its links and servers can do.

Without options, bps doctor looks at this machine alone. With --scheduler it looks whether the
scheduler can be reached. With --hosts it starts itself on each host through ssh: every pair is
tried both ways, and each host's links to its neighbours in the list are measured, with plain bytes
and with tensors. With a:4,b:4 it also says what the bits of sums depend on in a job with so many
workers on each host.

The exit code is 1 if there is a problem, or if something that --need names is missing.

Examples:
  bps doctor --need torch --need tls
  bps doctor --scheduler 10.0.0.1:9000
  bps doctor --hosts 10.0.0.1:8,10.0.0.2:8
"""


def _parser() -> Parser:
    parser = Parser("bps doctor", "", _HELP)
    parser.option("-H", "--hosts", default="", shown="A,B", text="Hosts to examine, by ssh.")
    parser.option("--scheduler", default="", shown="HOST:PORT", text="A scheduler to look for.")
    parser.flag("--check-build", text="Only what is built in, as horovodrun shows it.")
    parser.option(
        "--need",
        action="append",
        default=[],
        shown="NAME",
        text="A framework or feature that must be there.",
    )
    parser.flag("--json", dest="as_json", text="Print JSON.")
    parser.option(
        "--seconds",
        kind=Number(float, 0.2, 30),
        default=1.0,
        shown="SECONDS",
        text="How long each link is measured.",
    )
    parser.option(
        "--port",
        kind=Number(int, 0, 65535),
        default=0,
        shown="PORT",
        text="Where hosts listen for each other; 0: anywhere.",
    )
    parser.option(
        "--ports",
        default="",
        shown="FIRST-LAST",
        text="The same, for tensors too: as of bps run.",
    )
    parser.option(
        "--rsh",
        "--ssh",
        dest="shell",
        default=SSH,
        shown="COMMAND",
        text="Runs a command on a host.",
    )
    parser.option(
        "--python",
        default=sys.executable,
        shown="PATH",
        text="The Python of the hosts.",
    )
    return parser


def main(words: Sequence[str]) -> int:
    """Say what this machine has, and what its links and servers can do; return the exit code."""
    said = _parser().read(words)
    found: dict[str, Any] = software.facts()
    if said.check_build:
        _print(found, said.as_json, report.check_build(found))
        return _missing(said.need, found)
    here: dict[str, Any] = machine.facts()
    ways = rdma.facts(found["libraries"]["verbs"], here["locked_memory_bytes"])
    result: dict[str, Any] = {"software": found, "machine": here, "rdma": ways}
    problems = software.warnings(found) + machine.warnings(here)
    problems += rdma.problems(ways, os.environ.get("BYTEPS_TRANSPORT", ""))
    notes = machine.notes(here) + rdma.notes(ways)
    lines = [*report.describe_software(found), *report.describe_machine(here)]
    lines += report.describe_rdma(rdma.describe(ways))
    if ranks := found["cuda"]["count"]:
        result["device_sums"] = sums.foresee_on_gpus(ranks)
        lines += report.describe_device_sums(result["device_sums"])
    if said.scheduler:
        looked = scheduler_check.look_at(*scheduler_check.parse(said.scheduler))
        result["scheduler"] = looked
        lines += report.describe_scheduler(looked)
        problems += [str(looked["problem"])] if "problem" in looked else []
    if slots := sums.slots_of(said.hosts):
        result["sums"] = sums.foresee(slots)
        lines += report.describe_sums(result["sums"])
    if said.hosts:
        allowed = _ports(said.ports, said.port)
        survey = _survey(said.hosts, said.seconds, allowed, said.shell, said.python)
        result["survey"] = survey.plain()
        lines += report.describe_survey(survey)
        problems += survey.problems
        notes += survey.notes
    result |= {"problems": problems, "notes": notes}
    _print(result, said.as_json, [*lines, *report.describe_problems(problems, notes)])
    return 1 if problems else _missing(said.need, found)


def _ports(ports: str, port: int) -> range:
    return read_ports(ports) if ports else range(port, port + 1 if port else port)


def _survey(hosts: str, seconds: float, ports: range, shell: str, python: str) -> Survey:
    # "host:slots", as other launchers write it, names the host, too.
    names = [word.strip().partition(":")[0] for word in hosts.split(",") if word.strip()]
    if len(names) < 2 or len(set(names)) != len(names):
        raise InvalidArgumentError(
            f"--hosts is {hosts!r}; it must name two or more different hosts, separated by commas."
        )
    with ExitStack() as stack:
        agents = []
        for name in names:
            agents.append(RemoteAgent(name, shell, python))
            stack.callback(agents[-1].close)
        return examine(agents, seconds, ports, _say)


def _say(text: str) -> None:
    """Tell what is going on; the result alone goes to stdout."""
    print(f"bps doctor: {text}", file=sys.stderr, flush=True)


def _missing(need: list[str], found: dict[str, Any]) -> int:
    missing = software.lacks(need, found)
    for name in missing:
        print(f"bps doctor: {name} is missing: this build lacks it, or nothing of that name is "
              "installed here", file=sys.stderr)  # fmt: skip
    return 1 if missing else 0


def _print(result: dict[str, Any], as_json: bool, lines: list[str]) -> None:
    print(json.dumps(result, indent=2) if as_json else "\n".join(lines))
