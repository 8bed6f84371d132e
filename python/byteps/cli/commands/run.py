"""The command `bps run`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from byteps.cli import run_options
from byteps.cli.arguments import Choice, Number, Parser
from byteps.cli.cores import SWITCH_VARIABLE
from byteps.cli.horovod import translate
from byteps.cli.lost_processes import RESTARTS_DEFAULT
from byteps.common import environment
from byteps.common.environment import TORCH_AS_VARIABLE
from byteps.common.job.cluster import MIN_WORKERS_VARIABLE

_HELP = """Start a whole job: workers, and servers and a scheduler if needed.

On this machine with -np, on several with --hosts or --hostfile over ssh. Each host needs byteps at
the same path, and the working directory. The environment goes to all hosts.

Every line of output carries the name of its process. A server or the scheduler that dies is started
again, at most --restart times in all, and the training goes on. With --min-np it also goes on after
a worker has died. Any other loss ends all processes. bps prints the reason and ends with the exit
code of the lost process (128 + n for signal n).

Ctrl-C, SIGTERM, SIGHUP and SIGQUIT end the job: bps passes them to the workers, waits for the grace
time, and kills every process that is left. bps also passes SIGUSR1 and SIGUSR2 to the workers;
these do not end the job. If a script starts the worker, the script must exec it. The worker of rank
0 reads bps' input, so breakpoint() works there.

Examples:
  bps run -np 2 python train.py --epochs 3
  bps run -np 4 --servers 2 python -m my.training
  bps run -np 8 --servers 2 --min-np 6 python train.py
  bps run --hosts a:4,b:4 --server-hosts c,d python train.py
"""


def _parser() -> Parser:
    parser = Parser("bps run", "COMMAND [ARGUMENT]...", _HELP)
    run_options.add_to(parser)
    parser.option(
        "--grace",
        kind=Number(float, 0),
        default=3.0,
        shown="SECONDS",
        text="Seconds that processes get to end before bps kills them.",
    )
    parser.option(
        "--restart",
        kind=Number(int, 0),
        default=RESTARTS_DEFAULT,
        shown="N",
        text="How often bps starts servers and scheduler again after they died, all together.",
    )
    parser.option(
        "--output",
        kind=Choice(run_options.LINES, run_options.RAW),
        default=run_options.LINES,
        shown="lines|raw",
        text="lines: bps writes whole lines, each with the name of its process. raw: the "
        "processes write to bps' own output themselves.",
    )
    parser.option(
        "--output-dir",
        "--output-filename",
        shown="DIR",
        text="Also write the output of each process to a file of its own in this folder, on its "
        "own host.",
    )
    parser.option(
        "--min-np",
        kind=Number(int, 0),
        default=0,
        shown="N",
        variable=MIN_WORKERS_VARIABLE,
        text="If workers die, go on while so many live; 0: end the job at the first loss.",
    )
    parser.option(
        "--numa",
        kind=Choice("on", "off"),
        shown="on|off",
        text="on, as without this option: on a machine with several NUMA nodes each worker runs "
        "on cores of one node, and lanes and shards run near their network interface. off: bind "
        "nothing.",
    )
    parser.option(
        "--as",
        dest="torch_as",
        kind=Choice("gloo"),
        shown="gloo",
        variable=TORCH_AS_VARIABLE,
        text="gloo: a program that asks torch.distributed for this backend gets byteps, so a "
        "script of torch needs no change.",
    )
    parser.flag(
        "--print-config", text="Print the options of each role in this job, and start nothing."
    )
    return parser


def main(words: Sequence[str]) -> int:
    """Start a job and wait for its end; return its exit code."""
    parser = _parser()
    said, program = parser.read_before_program(_without_horovods_flags(words, parser))
    if not program:
        parser.error("the program of a worker is missing: COMMAND [ARGUMENT]...")
    if said.torch_as is not None:
        os.environ[TORCH_AS_VARIABLE] = said.torch_as
    set_numa(said.numa)
    chosen = run_options.of(said)
    if said.print_config:
        from byteps.cli.job_config import show_config

        return show_config(chosen.described(program))
    return chosen.supervisor(program).run().exit_code


def set_numa(word: str | None) -> None:
    """Set the variable that the launcher and the library read, if the option was given."""
    if word is not None:
        os.environ[SWITCH_VARIABLE] = "1" if word == "on" else "0"


def _without_horovods_flags(words: Sequence[str], parser: Parser) -> list[str]:
    translated = translate(words, parser.with_value)
    os.environ.update(translated.variables)
    environment.take_horovods()
    for notice in translated.notices:
        print(f"[bps] {notice}", file=sys.stderr)
    return translated.arguments
