"""The command `bps`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from byteps.__version__ import __version__
from byteps.cli import build_flags, pages
from byteps.cli import run_options as options
from byteps.cli.bench import command as bench_command
from byteps.cli.doctor import command as doctor_command
from byteps.cli.horovod import translate
from byteps.cli.job_config import show_config
from byteps.cli.lost_processes import RESTARTS_DEFAULT
from byteps.cli.output import open_standard_descriptors
from byteps.cli.stacks import show_stacks
from byteps.cli.top import live_of_user, top_of_user
from byteps.cli.top import top as show_top
from byteps.common import environment
from byteps.common.errors import BytepsError, InvalidArgumentError
from byteps.common.job.executables import exec_program
from byteps.common.timeline.timeline_merge import merge

app = typer.Typer(
    name="bps",
    help="BytePS: data-parallel training over CPU summation servers.",
    epilog="Start here: bps run -np 2 python train.py",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_RUN_HELP = """Start a whole job: workers, and servers and a scheduler if needed.

On this machine with `-np`, on several with `--hosts` or `--hostfile` over ssh. Each host needs
byteps at the same path, and the working directory. The environment goes to all hosts.

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
* `bps run --hosts a:4,b:4 --server-hosts c,d python train.py`
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
    command: options.Command,
    num_proc: options.NumProc = None,
    hosts: options.Hosts = None,
    hostfile: options.Hostfile = None,
    servers: options.Servers = None,
    server_hosts: options.ServerHosts = None,
    ssh_port: options.SshPort = None,
    ssh_key: options.SshKey = None,
    ssh: options.Ssh = "ssh",
    ports: options.Ports = None,
    grace: options.Grace = 3.0,
    restart: options.Restart = RESTARTS_DEFAULT,
    output: options.OutputStyle = options.OutputForm.LINES,
    output_dir: options.OutputDir = None,
    min_np: options.MinNp = 0,
    numa: options.Numa = None,
    torch_as: options.TorchAs = None,
    print_config: options.PrintConfig = False,
) -> None:
    """Start a whole job."""
    options.set_torch_as(torch_as)
    options.set_numa(numa)
    chosen = options.RunOptions(
        num_proc=num_proc,
        hosts=hosts,
        hostfile=hostfile,
        servers=servers,
        server_hosts=server_hosts,
        ssh=options.ssh_command(ssh, ssh_port, ssh_key),
        ports=ports,
        grace=grace,
        restart=restart,
        output=output,
        output_dir=output_dir,
        min_np=min_np,
    )
    if print_config:
        raise typer.Exit(show_config(chosen.described(command)))
    raise typer.Exit(chosen.supervisor(command).run().exit_code)


@app.command()
def top(
    address: Annotated[
        str | None,
        typer.Argument(
            metavar="[HOST:]PORT",
            help="What BYTEPS_STATUS_PORT (and _HOST) of the job say. Without an address: the job "
            "of this user on this machine.",
        ),
    ] = None,
    job: Annotated[
        str,
        typer.Option(
            "--job",
            metavar="NAME",
            help="One of several jobs on this machine: how its name begins, or its process.",
        ),
    ] = "",
    every: Annotated[
        float, typer.Option("--every", min=0.1, metavar="SECONDS", help="Look again after.")
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print the state once and end.")] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Serve the web page of the job on this machine.")
    ] = False,
) -> None:
    """Show the state of a running job: members, rates, who is late, what waits for whom."""
    if address is not None:
        if job or live:
            raise InvalidArgumentError(
                "--job and --live are for jobs of this user on this machine. A status port has "
                f"the web page itself: http://{address}/live."
            )
        raise typer.Exit(show_top(address, every, once))
    raise typer.Exit(live_of_user(job) if live else top_of_user(job, every, once))


@app.command()
def stack(
    process: Annotated[
        int | None,
        typer.Argument(metavar="[PROCESS]", help="Without it, all workers of this user here."),
    ] = None,
) -> None:
    """Show where the Python threads of workers on this machine are; the workers go on."""
    raise typer.Exit(show_stacks(process))


@app.command()
def timeline(
    output: Annotated[Path, typer.Argument(help="The file to write.", metavar="MERGED.json")],
    files: Annotated[
        list[Path],
        typer.Argument(help="The timelines of the ranks and the servers.", metavar="FILE..."),
    ],
) -> None:
    """Make one timeline of those of several ranks and servers, by one clock, for Perfetto."""
    whole = {}
    for file in files:
        try:
            whole[file] = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            typer.echo(f"bps: {file} is left out: {error}", err=True)
    try:
        if not whole:
            raise ValueError("no file could be read")
        merged = merge(whole.values())
        output.write_text(json.dumps(merged), encoding="utf-8")
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise BytepsError(
            f"the timelines cannot be merged: {error!r}. Give the files that start_timeline or "
            "BYTEPS_TIMELINE has written, one for each rank and each server."
        ) from None
    typer.echo(f"{output}: {len(merged)} events of {len(whole)} files; open it in ui.perfetto.dev")


@app.command()
def docs(
    page: Annotated[
        str | None, typer.Argument(metavar="[PAGE]", help="Without it, the names of all pages.")
    ] = None,
) -> None:
    """Print a page of the documentation: bps docs running."""
    if page is not None:
        typer.echo(pages.page(page), nl=False)
        return
    for name, title in pages.names().items():
        typer.echo(f"{name:<21}{title}")


@app.command()
def config(
    includes: Annotated[bool, typer.Option("--includes", help="Flag for the headers.")] = False,
    libs: Annotated[bool, typer.Option("--libs", help="Flags for the library.")] = False,
    cmakedir: Annotated[
        bool, typer.Option("--cmakedir", help="Folder for CMake: -Dbyteps_DIR=...")
    ] = False,
    pkgconfigdir: Annotated[
        bool, typer.Option("--pkgconfigdir", help="Folder for PKG_CONFIG_PATH.")
    ] = False,
) -> None:
    """Print what a compiler needs for programs in C and C++: `bps config --includes --libs`."""
    chosen = {
        build_flags.includes: includes,
        build_flags.libs: libs,
        build_flags.cmake_folder: cmakedir,
        build_flags.pkg_config_folder: pkgconfigdir,
    }
    words = [value() for value, wanted in chosen.items() if wanted]
    if not words:
        raise InvalidArgumentError(
            "Say what to print: --includes, --libs, --cmakedir or --pkgconfigdir."
        )
    typer.echo(" ".join(words))


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


app.command("bench", help=bench_command.HELP)(bench_command.bench)
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


def _without_horovods_flags(arguments: list[str]) -> list[str]:
    translated = translate(arguments)
    os.environ.update(translated.variables)
    environment.take_horovods()
    for notice in translated.notices:
        print(f"[bps] {notice}", file=sys.stderr)
    return translated.arguments


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    open_standard_descriptors()
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        if arguments[:1] == ["run"]:
            arguments = ["run", *_without_horovods_flags(arguments[1:])]
        app(args=arguments, prog_name="bps")
    except BytepsError as error:
        print(f"bps: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
