"""Draws the plot of the README from the table in docs/performance.md: docs/exchange.svg.

Usage: exchange_plot.py [FILE.svg]
"""

import re
import sys
from pathlib import Path

from repo import ROOT

PAGE = ROOT / "docs" / "performance.md"
PLOT = ROOT / "docs" / "exchange.svg"
HEAD = "### One tensor, beside Gloo"
ROW = re.compile(r"^\| *([\w/ ]*?) *\| (byteps|Gloo all_reduce) \| \**([\d.]+)\** \|", re.MULTILINE)
COLOURS = {"byteps": "#1f6feb", "Gloo all_reduce": "#bf5b17"}
NAMES = {"byteps": "BytePS, 4 extra server machines", "Gloo all_reduce": "Gloo's ring"}
WIDTH, LEFT, BAR, SCALE, TOP = 760, 130, 22, 360, 72


def ratios(page: str) -> dict[str, dict[str, float]]:
    """Return for each link what takes how long, in units of the least possible time."""
    table = page.partition(HEAD)[2].partition("\n#")[0]
    found: dict[str, dict[str, float]] = {}
    link = ""
    for name, what, ratio in ROW.findall(table):
        link = name or link
        found.setdefault(link, {})[what] = float(ratio)
    return found


def plot(found: dict[str, dict[str, float]]) -> str:
    """Return the plot."""
    lines = []
    y = TOP
    for link, bars in found.items():
        lines.append(f'  <text x="{LEFT - 12}" y="{y + BAR + 5}" text-anchor="end">{link}</text>')
        for what, ratio in bars.items():
            lines.append(
                f'  <rect x="{LEFT}" y="{y}" width="{ratio * SCALE:.0f}" height="{BAR - 3}" '
                f'fill="{COLOURS[what]}"/>'
            )
            lines.append(
                f'  <text x="{LEFT + ratio * SCALE + 8:.0f}" y="{y + 15}">{ratio:.2f}</text>'
            )
            y += BAR
        y += BAR // 2
    least = LEFT + SCALE
    height = y + 34
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="14">',
        "  <title>Time to exchange 100 MB among 4 workers, beside a ring of Gloo</title>",
        f'  <rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        '  <text x="16" y="24" font-weight="bold">Time to exchange 100 MB among 4 workers</text>',
    ]
    x = LEFT
    for what, name in NAMES.items():
        head.append(f'  <rect x="{x}" y="40" width="14" height="14" fill="{COLOURS[what]}"/>')
        head.append(f'  <text x="{x + 20}" y="52">{name}</text>')
        x += 270
    tail = [
        f'  <path d="M{least} {TOP - 8}V{y}" stroke="#444" stroke-dasharray="4 3"/>',
        f'  <text x="{least}" y="{y + 20}" text-anchor="middle" fill="#444">'
        "1 = the gradient crosses a worker's link once</text>",
        "</svg>",
    ]
    return "\n".join([*head, *lines, *tail]) + "\n"


def main(arguments: list[str]) -> int:
    """Write the plot."""
    target = Path(arguments[0]) if arguments else PLOT
    target.write_text(plot(ratios(PAGE.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
