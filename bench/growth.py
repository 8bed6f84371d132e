"""What names, shapes, process sets and optimizers that come and go cost, and whether it stays.

    ./dev bench growth [--kinds names,shapes,sets,optimizers] [--servers 0,1] [--scale 1.0]

A job of two ranks makes 100,000 names, 100,000 shapes, 10,000 process sets and 1,000 optimizers of
100 parameters, each kind in ten parts, and drops them. Prints the resident memory of the largest
process of each role after the first and after the last part, in MiB. Memory that stays shows as a
difference: it should be the noise of the allocator. Takes about half an hour on two cores.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))

import growth_job

COUNTS = {"names": 100_000, "shapes": 100_000, "sets": 10_000, "optimizers": 1_000}
PARTS, LIMIT_S = 10, 3600.0


def main() -> None:
    """Measure what was asked for; print a row for each role."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--kinds", default=",".join(growth_job.KINDS))
    parser.add_argument("--servers", default="0,1")
    parser.add_argument("--scale", type=float, default=1.0, help="of the counts")
    options = parser.parse_args()
    print("| kind | count | servers | role | after a tenth, MiB | at the end, MiB | most, MiB |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for kind in options.kinds.split(","):
        count = int(COUNTS[kind] * options.scale)
        for servers in map(int, options.servers.split(",")):
            seen = growth_job.measure(kind, count, PARTS, servers, LIMIT_S)
            for role in seen[0]:
                sizes = [part[role] / 1024 for part in seen]
                print(
                    f"| {kind} | {count} | {servers} | {role} | {sizes[0]:.1f} | {sizes[-1]:.1f} | "
                    f"{max(sizes):.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
