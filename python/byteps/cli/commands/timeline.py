"""The command `bps timeline`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from byteps.cli.arguments import Parser
from byteps.common.errors import BytepsError
from byteps.common.timeline.timeline_merge import merge

_HELP = "Make one timeline of those of several ranks and servers, by one clock, for Perfetto."


def main(words: Sequence[str]) -> int:
    """Write the one timeline; return the exit code."""
    parser = Parser("bps timeline", "MERGED.json FILE...", _HELP)
    parser.argument("output", type=Path, shown="MERGED.json", text="The file to write.")
    parser.argument(
        "files",
        nargs="+",
        type=Path,
        shown="FILE",
        text="The timelines of the ranks and the servers.",
    )
    said = parser.read(words)
    whole = {}
    for file in said.files:
        try:
            whole[file] = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            print(f"bps: {file} is left out: {error}", file=sys.stderr)
    try:
        if not whole:
            raise ValueError("no file could be read")
        merged = merge(whole.values())
        said.output.write_text(json.dumps(merged), encoding="utf-8")
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise BytepsError(
            f"the timelines cannot be merged: {error!r}. Give the files that start_timeline or "
            "BYTEPS_TIMELINE has written, one for each rank and each server."
        ) from None
    print(f"{said.output}: {len(merged)} events of {len(whole)} files; open it in ui.perfetto.dev")
    return 0
