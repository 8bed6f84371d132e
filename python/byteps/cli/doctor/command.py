"""The command `bps doctor`."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from typing import Annotated, Any

import typer

from byteps.cli.doctor import machine, report, scheduler_check, software, sums
from byteps.cli.doctor.remote import SSH, RemoteAgent
from byteps.cli.doctor.survey import Survey, examine
from byteps.common.errors import InvalidArgumentError

HELP = """Say what this machine has, and what its links and servers can do.

Without options, bps doctor looks at this machine alone. With `--scheduler` it looks whether the
scheduler can be reached. With `--hosts` it starts itself on each host through ssh: every pair is
tried both ways, and each host's links to its neighbours in the list are measured, with plain bytes
and with tensors. With `a:4,b:4` it also says what the bits of sums depend on in a job with so many
workers on each host.

The exit code is 1 if there is a problem, or if something that `--need` names is missing.

**Examples**

* `bps doctor --need torch --need tls`
* `bps doctor --scheduler 10.0.0.1:9000`
* `bps doctor --hosts 10.0.0.1:8,10.0.0.2:8`
"""


def doctor(
    hosts: Annotated[
        str, typer.Option("--hosts", "-H", metavar="A,B", help="Hosts to examine, by ssh.")
    ] = "",
    scheduler: Annotated[
        str, typer.Option("--scheduler", metavar="HOST:PORT", help="A scheduler to look for.")
    ] = "",
    check_build: Annotated[
        bool, typer.Option("--check-build", help="Only what is built in, as horovodrun shows it.")
    ] = False,
    need: Annotated[
        list[str] | None,
        typer.Option("--need", metavar="NAME", help="A framework or feature that must be there."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    seconds: Annotated[
        float, typer.Option(min=0.2, max=30, help="How long each link is measured.")
    ] = 1.0,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where hosts listen for each other; 0: anywhere.")
    ] = 0,
    shell: Annotated[
        str, typer.Option("--rsh", "--ssh", metavar="COMMAND", help="Runs a command on a host.")
    ] = SSH,
    python: Annotated[
        str, typer.Option("--python", metavar="PATH", help="The Python of the hosts.")
    ] = sys.executable,
) -> None:
    """Say what this machine has, and what its links and servers can do."""
    found = software.facts()
    if check_build:
        _print(found, as_json, report.check_build(found))
        raise typer.Exit(_missing(need, found))
    here = machine.facts()
    result: dict[str, Any] = {"software": found, "machine": here}
    problems = software.warnings(found) + machine.warnings(here)
    notes = machine.notes(here)
    lines = [*report.describe_software(found), *report.describe_machine(here)]
    if scheduler:
        looked = scheduler_check.look_at(*scheduler_check.parse(scheduler))
        result["scheduler"] = looked
        lines += report.describe_scheduler(looked)
        problems += [str(looked["problem"])] if "problem" in looked else []
    if slots := sums.slots_of(hosts):
        result["sums"] = sums.foresee(slots)
        lines += report.describe_sums(result["sums"])
    if hosts:
        survey = _survey(hosts, seconds, port, shell, python)
        result["survey"] = survey.plain()
        lines += report.describe_survey(survey)
        problems += survey.problems
        notes += survey.notes
    result |= {"problems": problems, "notes": notes}
    _print(result, as_json, [*lines, *report.describe_problems(problems, notes)])
    raise typer.Exit(1 if problems else _missing(need, found))


def print_build(wanted: bool) -> None:
    """Print what is built in and end: `bps --check-build`, as `horovodrun --check-build` does."""
    if wanted:
        typer.echo("\n".join(report.check_build(software.facts())))
        raise typer.Exit


def _survey(hosts: str, seconds: float, port: int, shell: str, python: str) -> Survey:
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
        return examine(agents, seconds, port, _say)


def _say(text: str) -> None:
    """Tell what is going on; the result alone goes to stdout."""
    print(f"bps doctor: {text}", file=sys.stderr, flush=True)


def _missing(need: list[str] | None, found: dict[str, Any]) -> int:
    missing = software.lacks(need or [], found)
    for name in missing:
        print(f"bps doctor: {name} is missing: this build lacks it, or nothing of that name is "
              "installed here", file=sys.stderr)  # fmt: skip
    return 1 if missing else 0


def _print(result: dict[str, Any], as_json: bool, lines: list[str]) -> None:
    typer.echo(json.dumps(result, indent=2) if as_json else "\n".join(lines))
