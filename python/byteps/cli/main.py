"""The command `bps`."""

from __future__ import annotations

import json
import os
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from byteps.__version__ import __version__
from byteps.cli.doctor import command as doctor_command
from byteps.cli.job_config import show_config
from byteps.cli.local_job import local_job
from byteps.cli.lost_processes import RESTARTS_DEFAULT, LossPolicy
from byteps.cli.output import open_standard_descriptors
from byteps.cli.output_files import OutputFiles
from byteps.cli.supervisor import Supervisor
from byteps.cli.top import top as show_top
from byteps.common.cluster import MIN_WORKERS_VARIABLE, servers_needed
from byteps.common.errors import BytepsError
from byteps.common.programs import exec_program
from byteps.common.timeline import merge

app = typer.Typer(
    name="bps",
    help="BytePS: data-parallel training over CPU summation servers.",
    epilog="Start here: bps run -np 2 python train.py",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class OutputForm(str, Enum):
    """How the output of the processes is shown."""

    LINES = "lines"
    RAW = "raw"


_RUN_HELP = """Start a whole job on this machine: workers, and servers and a scheduler if needed.

Every line of output carries the name of its process. A server or the scheduler that dies is started
again, at most `--restart` times in all, and the training goes on. With `--min-np` it also goes on
after a worker has died. Any other loss ends all processes. bps prints the reason and ends with the
exit code of the lost process (128 + n for signal n). Ctrl-C, SIGTERM, SIGHUP and SIGQUIT end the
job: bps passes them to the workers, waits for the grace time, and kills every process that is left.
bps also passes SIGUSR1 and SIGUSR2 to the workers; these do not end the job. If a script starts the
worker, the script must `exec` it. The worker of rank 0 reads bps' input, so `breakpoint()` works
there.

**Examples**

* `bps run -np 2 python train.py --epochs 3`
* `bps run -np 4 --servers 2 python -m my.training`
* `bps run -np 8 --servers 2 --min-np 6 python train.py`
"""

_SERVICE_HELP = """{what}

The environment describes the job: DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT, DMLC_NUM_WORKER,
DMLC_NUM_SERVER. All arguments go to the program: bps {role} --help shows them.
"""


@app.command(
    help=_RUN_HELP,
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False},
)
def run(
    command: Annotated[
        list[str],
        typer.Argument(help="The program of a worker and its arguments.", metavar="COMMAND"),
    ],
    num_proc: Annotated[
        int, typer.Option("-np", "-n", "--num-proc", min=1, metavar="N", help="Number of workers.")
    ],
    servers: Annotated[
        int | None,
        typer.Option(
            "--servers",
            min=1,
            metavar="K",
            help="Number of summation servers. Without this option, 2 to 64 workers share memory "
            "and need no server; otherwise 1.",
        ),
    ] = None,
    grace: Annotated[
        float,
        typer.Option(
            "--grace",
            min=0,
            metavar="SECONDS",
            help="Seconds that processes get to end before bps kills them.",
        ),
    ] = 3.0,
    restart: Annotated[
        int,
        typer.Option(
            "--restart",
            min=0,
            metavar="N",
            help="How often bps starts servers and scheduler again after they died, all together.",
        ),
    ] = RESTARTS_DEFAULT,
    output: Annotated[
        OutputForm,
        typer.Option(
            "--output",
            help="lines: bps writes whole lines, each with the name of its process. raw: the "
            "processes write to bps' own output themselves.",
        ),
    ] = OutputForm.LINES,
    output_dir: Annotated[
        str | None,
        typer.Option(
            "--output-dir",
            metavar="DIR",
            help="Also write the output of each process to a file of its own in this folder.",
        ),
    ] = None,
    min_np: Annotated[
        int,
        typer.Option(
            "--min-np",
            min=0,
            metavar="N",
            envvar=MIN_WORKERS_VARIABLE,
            help="If workers die, go on while so many live; 0: end the job at the first loss.",
        ),
    ] = 0,
    print_config: Annotated[
        bool,
        typer.Option(
            "--print-config", help="Print the options of each role in this job, and start nothing."
        ),
    ] = False,
) -> None:
    """Start a whole job on this machine."""
    if min_np > num_proc:
        raise BytepsError(f"--min-np is {min_np}, but there are only {num_proc} workers (-np).")
    if servers is None:
        servers = servers_needed(num_proc, os.environ, min_np)
    if output == OutputForm.RAW and output_dir is not None:
        raise BytepsError(
            "--output raw and --output-dir exclude each other: raw output does not pass bps."
        )
    specs = local_job(num_proc, servers, command, os.environ, min_np)
    if print_config:
        raise typer.Exit(show_config(specs))
    supervisor = Supervisor(
        specs,
        grace,
        prefixed=output == OutputForm.LINES,
        policy=LossPolicy(restart, min_np),
        files=OutputFiles(output_dir) if output_dir is not None else None,
    )
    raise typer.Exit(supervisor.run().exit_code)


@app.command()
def top(
    address: Annotated[
        str,
        typer.Argument(
            metavar="[HOST:]PORT", help="What BYTEPS_STATUS_PORT (and _HOST) of the job say."
        ),
    ],
    every: Annotated[
        float, typer.Option("--every", min=0.1, metavar="SECONDS", help="Look again after.")
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print the state once and end.")] = False,
) -> None:
    """Show the state of a running job: members, rates, who is late, what waits for whom."""
    raise typer.Exit(show_top(address, every, once))


@app.command()
def timeline(
    output: Annotated[Path, typer.Argument(help="The file to write.", metavar="MERGED.json")],
    files: Annotated[
        list[Path], typer.Argument(help="The timelines of the ranks.", metavar="FILE...")
    ],
) -> None:
    """Make one timeline of those of several ranks, by one clock, for Perfetto."""
    try:
        merged = merge(json.loads(file.read_text(encoding="utf-8")) for file in files)
        output.write_text(json.dumps(merged), encoding="utf-8")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BytepsError(
            f"the timelines cannot be merged: {error!r}. Give the files that start_timeline or "
            "BYTEPS_TIMELINE has written, one for each rank."
        ) from None
    typer.echo(f"{output}: {len(merged)} events of {len(files)} ranks; open it in ui.perfetto.dev")


_PASS_ALL = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


@app.command(
    help=_SERVICE_HELP.format(what="Become a summation server of a job.", role="server"),
    context_settings=_PASS_ALL,
)
def server(context: typer.Context) -> None:
    """Become a summation server."""
    exec_program("server", context.args)


@app.command(
    help=_SERVICE_HELP.format(what="Become the scheduler of a job.", role="scheduler"),
    context_settings=_PASS_ALL,
)
def scheduler(context: typer.Context) -> None:
    """Become the scheduler."""
    exec_program("scheduler", context.args)


app.command("doctor", help=doctor_command.HELP)(doctor_command.doctor)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bps {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
    check_build: Annotated[
        bool,
        typer.Option(
            "-cb",
            "--check-build",
            callback=doctor_command.print_build,
            is_eager=True,
            help="Show what is built in, as horovodrun does.",
        ),
    ] = False,
) -> None:
    pass


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    open_standard_descriptors()
    try:
        app(args=arguments, prog_name="bps")
    except BytepsError as error:
        print(f"bps: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
