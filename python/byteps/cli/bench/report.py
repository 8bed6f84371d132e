"""What a benchmark has found, as text for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from byteps.cli.bench.bound import MEANINGFUL_BYTES
from byteps.cli.bench.plan import size_text

_WIDTH = 11


def describe_begin(begin: Mapping[str, Any], servers: int) -> list[str]:
    """Return the lines above the table."""
    machines = begin["machines"]
    where = "on this machine" if machines == 1 else f"on {machines} machines"
    versions = ", ".join(f"{name} {version}" for name, version in begin["versions"].items())
    helpers = f"{servers} server{'s' * (servers != 1)}" if servers else "no servers"
    lines = [f"{begin['workers']} workers {where}, {helpers}; {begin['adapter']}, {versions}"]
    lines += [f"Gloo is left out: {begin['without_gloo']}"] if begin["without_gloo"] else []
    lines.append(f"the least time: {_bound_text(begin)}")
    with_gloo = not begin["without_gloo"]
    return [*lines, "", *_header(with_gloo)]


def _bound_text(begin: Mapping[str, Any]) -> str:
    copy = "each worker copies the tensor once with memcpy, all at the same time"
    loads = begin["link_loads"]
    if not loads:
        return copy
    return (
        f"{copy}; or, if that takes longer, each link carries the tensor {loads:.2f} times "
        "in both directions, as fast as plain sockets"
    )


def _header(with_gloo: bool) -> list[str]:
    gloo = [("Gloo", "ms"), ("byteps", "/ Gloo")] if with_gloo else []
    columns = [("size", ""), ("in place", "ms"), ("", "MB/s"), ("new tensor", "ms"), *gloo,
               ("least", "ms"), ("least", "/ in place")]  # fmt: skip
    return ["".join(f"{word:>{_WIDTH}}" for word in row) for row in zip(*columns, strict=True)]


def describe_size(result: Mapping[str, Any]) -> str:
    """Return the line of one size."""
    seconds, nbytes = result["seconds"], result["bytes"]
    in_place, gloo, bound = seconds["in_place"], seconds.get("gloo"), result["bound_s"]
    words = [size_text(nbytes), _ms(in_place), f"{nbytes / in_place / 1e6:.0f}"]
    words.append(_ms(seconds["new_tensor"]))
    words += [] if gloo is None else [_ms(gloo), f"{in_place / gloo:.2f}"]
    if bound is None or nbytes < MEANINGFUL_BYTES:
        words += ["-", "-"]
    else:
        words += [_ms(bound), f"{bound / in_place:.2f}"]
    return "".join(f"{word:>{_WIDTH}}" for word in words)


def describe_end(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines below the table."""
    problem = next((one["link_problem"] for one in results if one["link_problem"]), "")
    lines = [f"the links could not be measured: {problem}"] if problem else []
    links = [one["link"] for one in results if one["link"]]
    if links:
        rates = sorted(link["bytes_per_s"] for link in links)
        lines.append(f"the slowest link carried {rates[0] / 1e6:.0f} to {rates[-1] / 1e6:.0f} MB/s "
                     "with plain sockets, measured before each size")  # fmt: skip
    return lines


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}" if seconds < 1e-2 else f"{seconds * 1e3:.1f}"
