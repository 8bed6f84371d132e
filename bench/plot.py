"""Draw the figures that are kept in bench/figures, and write the table of docs/performance.md.

    ./dev bench plot [--take bench-out/lab.json ...]

`--take` first puts the rows of a lab's report into bench/figures, in place of those that were
measured with as many workers and ranks on as fast links. Each row gets a picture in docs/plots; the
README's picture comes from row 4.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
from harness.lab import optimal_seconds
from matplotlib import pyplot as plt

REPOSITORY = Path(__file__).resolve().parents[1]
FIGURES = REPOSITORY / "bench" / "figures"
PLOTS = REPOSITORY / "docs" / "plots"
PAGE = REPOSITORY / "docs" / "performance.md"
BEGIN = "<!-- ./dev bench plot writes this table -->"
END = "<!-- end of the table -->"
COLORS = {"byteps": "#00796b", "gloo": "#ef6c00", "openmpi": "#5e35b1"}
NAMES = {"byteps": "BytePS", "gloo": "Gloo", "openmpi": "Open MPI"}
OTHER = "#78909c"
SHOWN_SETTINGS = ("megabytes", "option", "repeats")

mpl.rcParams["svg.hashsalt"] = "byteps"
mpl.rcParams["svg.fonttype"] = "none"  # text stays text
mpl.rcParams["font.family"] = "sans-serif"
mpl.rcParams["font.size"] = 9

Point = dict[str, Any]


def take(path: Path) -> set[int]:
    """Put a report's rows into the kept figures; return their numbers."""
    report = json.loads(path.read_text())
    settings = report["settings"]
    taken: dict[tuple[int, str], dict[str, Any]] = {}
    for row in report["rows"]:
        place = f"{settings['workers']} workers"
        if settings["ranks"] > 1:
            place += f" x {settings['ranks']} ranks"
        group = taken.setdefault(
            (row["row"], f"{place}, {row['Mbit/s']} Mbit/s"),
            {
                "date": datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)
                .date()
                .isoformat(),
                "machine": report["machine"],
                "settings": {key: settings[key] for key in SHOWN_SETTINGS},
                "points": [],
            },
        )
        group["points"].append(_point(row))
    for (number, name), group in taken.items():
        file = FIGURES / f"row-{number:02}.json"
        groups = json.loads(file.read_text()) if file.exists() else {}
        groups[name] = group
        file.write_text(json.dumps(dict(sorted(groups.items())), indent=1) + "\n")
    return {number for number, _ in taken}


def _point(row: dict[str, Any]) -> Point:
    point = {key: row[key] for key in ("what", "case", "n", "k", "ratio", "least", "most")}
    if row["goodput_mbit"]:
        # In units of the time that a link needs for the tensor once.
        times = zip(row["seconds"], row["goodput_mbit"], strict=True)
        units = [seconds * mbit * 125_000 / row["bytes"] for seconds, mbit in times]
        point["time"] = round(statistics.median(units), 3)
    return point


def kept(number: int) -> dict[str, dict[str, Any]]:
    """Return a row's groups by name."""
    file = FIGURES / f"row-{number:02}.json"
    groups: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file.exists() else {}
    return groups


def answers(row: dict[str, Any], group: dict[str, Any]) -> list[Point]:
    """Return the points that answer the row's question."""
    return [
        point
        for point in group["points"]
        if point["what"] == row["what"]
        and row.get("case", "") in point["case"]
        and ("without" not in row or row["without"] not in point["case"])
    ]


def draw_row(row: dict[str, Any], groups: dict[str, dict[str, Any]]) -> None:
    """All points of a row with their spread, the limit and the goal."""
    labels, points = [], []
    for name, group in groups.items():
        for point in group["points"]:
            what = NAMES.get(point["what"], point["what"])
            labels.append(f"{what}: {point['case']}\n{name}, k = {point['k']}")
            points.append(point)
    figure, axes = plt.subplots(figsize=(7.5, 0.8 + 0.34 * len(points)))
    for y, point in enumerate(points):
        color = COLORS.get(point["what"], OTHER)
        axes.plot([point["least"], point["most"]], [y, y], color=color, linewidth=1.5)
        axes.plot(point["ratio"], y, "o", color=color, markersize=4)
    axes.axvline(row["limit"], color="#90a4ae", linestyle=":", label=f"limit {row['limit']}")
    axes.axvline(row["goal"], color="#c62828", linestyle="--", label=f"goal {row['goal']}")
    axes.set_yticks(range(len(points)), labels, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel(row["question"], fontsize=8)
    axes.legend(fontsize=7, frameon=False)
    axes.grid(visible=True, axis="x", color="#eceff1")
    _save(figure, f"row-{row['row']:02}")


def draw_steps(groups: dict[str, dict[str, Any]]) -> None:
    """The README's picture: what a step's exchange takes, by servers and by workers."""
    figure, (by_servers, by_workers) = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True)
    _draw_by_servers(by_servers, 4, _times(groups, 4))
    _draw_by_workers(by_workers, {n: _times(groups, n) for n in (2, 4, 8)})
    by_servers.set_ylabel("time / (bytes / link)")
    by_servers.set_ylim(bottom=0)
    for axes in (by_servers, by_workers):
        axes.grid(visible=True, axis="y", color="#eceff1")
        axes.legend(fontsize=7, frameon=False)
    _save(figure, "steps")


Times = dict[tuple[str, int], float]


def _times(groups: dict[str, dict[str, Any]], workers: int) -> Times:
    found: Times = {}
    for name, group in groups.items():
        if re.match(rf"{workers} workers, ", name):
            found |= {(p["what"], p["k"]): p["time"] for p in group["points"]}
    return found


def _draw_by_servers(axes: Any, workers: int, times: Times) -> None:
    servers = sorted(k for what, k in times if what == "byteps")
    bound = [optimal_seconds(workers, k, 1, 1) for k in servers]
    axes.plot(servers, bound, ":", color="#90a4ae", label="least possible")
    axes.plot(servers, [times["byteps", k] for k in servers], "o-", color=COLORS["byteps"])
    for what in ("gloo", "openmpi"):
        if (what, 0) in times:
            axes.axhline(times[what, 0], color=COLORS[what], label=NAMES[what])
    axes.set_xticks(servers)
    axes.set_xlabel("machines added that only sum")
    axes.set_title(f"{workers} workers", fontsize=9)


def _draw_by_workers(axes: Any, times: dict[int, Times]) -> None:
    for what in ("openmpi", "gloo"):
        there = [n for n in times if (what, 0) in times[n]]
        values = [times[n][what, 0] for n in there]
        axes.plot(there, values, "s-", color=COLORS[what], label=NAMES[what])
    for servers, style, text in (
        ("none", "o--", "no machine added"),
        ("n", "o-", "one each added"),
    ):
        there = [n for n in times if ("byteps", n if servers == "n" else 0) in times[n]]
        values = [times[n]["byteps", n if servers == "n" else 0] for n in there]
        axes.plot(there, values, style, color=COLORS["byteps"], label=f"BytePS, {text}")
    axes.set_xticks(list(times))
    axes.set_xlabel("workers")
    axes.set_title("by the number of workers", fontsize=9)


def _save(figure: Any, name: str) -> None:
    PLOTS.mkdir(exist_ok=True)
    figure.tight_layout()
    figure.savefig(PLOTS / f"{name}.svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    file = PLOTS / f"{name}.svg"
    lines = [line.rstrip() for line in file.read_text().splitlines()]
    file.write_text("\n".join(lines) + "\n")


def table(rows: list[dict[str, Any]]) -> str:
    """Return the table of all rows that have figures."""
    lines = ["| row | question | limit | goal | measured | on | command, plot |"]
    lines.append("|" + "---|" * 7)
    for row in rows:
        for name, group in kept(row["row"]).items():
            if row.get("one rank") and " ranks" in name:
                continue  # has limits and goals of its own
            points = answers(row, group)
            if not points:
                continue
            low, high = min(p["ratio"] for p in points), max(p["ratio"] for p in points)
            measured = f"**{low:.3f}**" if low == high else f"**{low:.3f} to {high:.3f}**"
            spread = f"{min(p['least'] for p in points):.3f}, {max(p['most'] for p in points):.3f}"
            number = row["row"]
            cells = [
                f"{number}",
                row["question"],
                f"{row['limit']}",
                f"{row['goal']}",
                f"{measured} ({spread})",
                f"{name}, {group['settings']['megabytes']} MB, {group['date']}",
                f"[`--row {number}`](plots/row-{number:02}.svg)",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write_table(rows: list[dict[str, Any]]) -> None:
    """Put the table into its place on the page."""
    before, found, rest = PAGE.read_text().partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not (found and ended):
        raise SystemExit(f"bench plot: {PAGE} has no place for the table ({BEGIN} ... {END})")
    PAGE.write_text(f"{before}{BEGIN}\n\n{table(rows)}\n\n{END}{after}")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./dev bench plot",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--take", type=Path, nargs="+", default=[], metavar="REPORT")
    arguments = parser.parse_args()
    for report in arguments.take:
        print(f"{report}: rows {', '.join(map(str, sorted(take(report))))}")
    rows = json.loads((FIGURES / "rows.json").read_text())
    for row in rows:
        if groups := kept(row["row"]):
            draw_row(row, groups)
    if groups := kept(4):
        draw_steps(groups)
    write_table(rows)
    print(f"drawn: {PLOTS.relative_to(REPOSITORY)}; table: {PAGE.relative_to(REPOSITORY)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
