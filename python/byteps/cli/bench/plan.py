"""What a benchmark measures: sizes, repeats, and how the launcher tells it to the workers."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from byteps.common.errors import InvalidArgumentError

SIZES_DEFAULT = "4K,64K,1M,16M,64M"
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SIZE = re.compile(r"(\d{1,12})([KMG]?)(?:I?B)?")
_ITEM_BYTES = 4  # of float32
_BYTES_MAX = 1 << 33

# One timing lasts about so long, so that the clock and the first wake-up do not matter.
_TIMING_S = 0.1
ITERATIONS_MAX = 500

RESULT_MARK = "byteps-bench-result "


@dataclass(frozen=True)
class Plan:
    """What each worker is told. Host i has `workers[i]` workers and `servers[i]` servers; hosts
    that have only servers come last."""

    sizes: Sequence[int]
    repeats: int
    gloo: bool
    workers: Sequence[int]
    servers: Sequence[int]

    def text(self) -> str:
        """Return it as one word of a command."""
        return json.dumps(asdict(self), separators=(",", ":"))


def read_plan(text: str) -> Plan:
    """Return the plan that `Plan.text` has written."""
    return Plan(**json.loads(text))


def read_sizes(text: str) -> list[int]:
    """Return the bytes of sizes such as `4K,1M,64M`; whole numbers of float32."""
    sizes = []
    for word in filter(None, (one.strip() for one in text.split(","))):
        parts = _SIZE.fullmatch(word.upper())
        nbytes = int(parts[1]) * _UNITS[parts[2]] if parts else 0
        if nbytes % _ITEM_BYTES or not _ITEM_BYTES <= nbytes <= _BYTES_MAX:
            raise InvalidArgumentError(
                f"--sizes: {word!r} is no size. A size is a number of bytes, a multiple of "
                f"{_ITEM_BYTES} up to 8G; K, M and G may follow it, as in 4K,1M,64M."
            )
        sizes.append(nbytes)
    if not sizes:
        raise InvalidArgumentError("--sizes names no size; write it as in --sizes 4K,1M,64M.")
    return sizes


def iterations_for(seconds: float) -> int:
    """Return how many exchanges one timing has, if one takes so long."""
    return max(1, min(ITERATIONS_MAX, round(_TIMING_S / max(seconds, 1e-6))))


def size_text(nbytes: int) -> str:
    """Return a size as people write it."""
    for unit, factor in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if nbytes >= factor and nbytes % factor == 0:
            return f"{nbytes // factor} {unit}iB"
    return f"{nbytes} B"
