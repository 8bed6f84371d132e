"""The command `bps top`."""

from __future__ import annotations

from collections.abc import Sequence

from byteps.cli import top
from byteps.cli.arguments import Number, Parser
from byteps.common.errors import InvalidArgumentError

_HELP = "Show the state of a running job: members, rates, who is late, what waits for whom."


def main(words: Sequence[str]) -> int:
    """Show a job; return the exit code."""
    parser = Parser("bps top", "[[HOST:]PORT]", _HELP)
    parser.argument(
        "address",
        nargs="?",
        shown="[HOST:]PORT",
        text="What BYTEPS_STATUS_PORT (and _HOST) of the job say. Without an address: the job of "
        "this user on this machine.",
    )
    parser.option(
        "--job",
        default="",
        shown="NAME",
        text="One of several jobs on this machine: how its name begins, or its process.",
    )
    parser.option(
        "--every",
        kind=Number(float, 0.1),
        default=1.0,
        shown="SECONDS",
        text="Look again after.",
    )
    parser.flag("--once", text="Print the state once and end.")
    parser.flag("--live", text="Serve the web page of the job on this machine.")
    said = parser.read(words)
    if said.address is None:
        if said.live:
            return top.live_of_user(said.job)
        return top.top_of_user(said.job, said.every, said.once)
    if said.job or said.live:
        raise InvalidArgumentError(
            "--job and --live are for jobs of this user on this machine. A status port has "
            f"the web page itself: http://{said.address}/live."
        )
    return top.top(said.address, said.every, said.once)
