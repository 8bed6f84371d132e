"""The command `bps docs`."""

from __future__ import annotations

from collections.abc import Sequence

from byteps.cli import pages
from byteps.cli.arguments import Parser

_HELP = "Print a page of the documentation: bps docs running."


def main(words: Sequence[str]) -> int:
    """Print the page; return the exit code."""
    parser = Parser("bps docs", "[PAGE]", _HELP)
    parser.argument("page", nargs="?", shown="PAGE", text="Without it, the names of all pages.")
    page = parser.read(words).page
    if page is not None:
        print(pages.page(page), end="")
        return 0
    for name, title in pages.names().items():
        print(f"{name:<21}{title}")
    return 0
