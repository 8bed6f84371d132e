"""The command `bps stack`."""

from __future__ import annotations

from collections.abc import Sequence

from byteps.cli.arguments import Number, Parser
from byteps.cli.stacks import show_stacks

_HELP = "Show where the Python threads of workers on this machine are; the workers go on."


def main(words: Sequence[str]) -> int:
    """Show the threads; return the exit code."""
    parser = Parser("bps stack", "[PROCESS]", _HELP)
    parser.argument(
        "process",
        nargs="?",
        type=Number(int, 1),
        shown="PROCESS",
        text="Without it, all workers of this user here.",
    )
    return show_stacks(parser.read(words).process)
