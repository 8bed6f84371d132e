"""The command `bps`. A command's module is imported when that command runs, and no other is."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from byteps.cli.arguments import Parser
from byteps.cli.output import open_standard_descriptors
from byteps.common.errors import BytepsError

_INTERRUPTED = 130  # as a shell tells it of SIGINT


class _Command(NamedTuple):
    module: str  # has `main`; empty: a program of the package
    text: str


_COMMANDS = {
    "run": _Command(
        "byteps.cli.commands.run", "Start a whole job: workers, and servers if needed."
    ),
    "top": _Command(
        "byteps.cli.commands.top", "Show the state of a running job: members, rates, who is late."
    ),
    "stack": _Command(
        "byteps.cli.commands.stack", "Show where the Python threads of workers here are."
    ),
    "timeline": _Command(
        "byteps.cli.commands.timeline", "Make one timeline of those of ranks and servers."
    ),
    "docs": _Command("byteps.cli.commands.docs", "Print a page of the documentation."),
    "config": _Command(
        "byteps.cli.commands.config", "Print what a compiler needs for programs in C and C++."
    ),
    "server": _Command("", "Become a summation server of the job in the environment."),
    "scheduler": _Command("", "Become the scheduler of the job in the environment."),
    "bench": _Command("byteps.cli.bench.command", "Measure an exchange between workers."),
    "doctor": _Command(
        "byteps.cli.doctor.command", "Say what this machine has, and what its links can do."
    ),
}
_HELP = """BytePS: data-parallel training over CPU summation servers.

Start here: bps run -np 2 python train.py

bps COMMAND --help says more of a command.
"""


def _main_of(name: str, words: Sequence[str]) -> int:
    module = _COMMANDS[name].module
    if not module:
        from byteps.common.job.executables import exec_program

        exec_program(name, words)
    code: int = importlib.import_module(module).main(words)
    return code


def _without_command(words: Sequence[str]) -> int:
    commands = {name: command.text for name, command in _COMMANDS.items()}
    parser = Parser("bps", "COMMAND [ARGUMENT]...", _HELP, commands)
    parser.flag("--version", text="Show the version.")
    parser.flag("-cb", "--check-build", text="Show what is built in, as horovodrun does.")
    said, rest = parser.read_before_program(words)
    if said.version:
        from byteps.__version__ import __version__

        print(f"bps {__version__}")
        return 0
    if said.check_build:
        return _main_of("doctor", ["--check-build"])
    if rest:
        parser.error(f"there is no command {rest[0]!r}; there are {', '.join(_COMMANDS)}")
    parser.print_help(sys.stderr)
    return 2


def _bps(words: Sequence[str]) -> int:
    name = words[0] if words else ""
    return _main_of(name, words[1:]) if name in _COMMANDS else _without_command(words)


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    open_standard_descriptors()
    try:
        code = _bps(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except BytepsError as error:
        print(f"bps: {error}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except BrokenPipeError:  # of `bps docs running | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 1
    sys.exit(code)


if __name__ == "__main__":
    main()
