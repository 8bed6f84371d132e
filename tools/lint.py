"""Runs all checks that need no build, side by side: `./dev lint [NAME...]`.

`headers` compiles, and takes minutes in a new clone: it runs when it is named. The lane clang does.
"""

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from repo import ROOT, files


@dataclass(frozen=True)
class Outcome:
    name: str
    status: int
    seconds: float
    output: str


LINES_MAX = 100
WHEN_NAMED = ("headers",)


def tool(name: str) -> str:
    """A program of the virtual environment that runs this."""
    return str(Path(sys.executable).parent / name)


def checks() -> dict[str, list[str]]:
    """The slowest first, so that they overlap with the rest."""
    paths = files()
    python = [p for p in paths if p.endswith((".py", ".pyi"))]
    typed = [
        p
        for p in python
        if p.startswith(("python/byteps/", "spec/", "tools/")) and "/tests/" not in p
    ]
    tests = [p for p in python if p.startswith("tests/python/") and "/jobs/" not in p]
    shell = [p for p in paths if p.endswith(".sh") or p in ("dev", ".ci/run")]
    own = [sys.executable, "-B"]
    return {
        "headers": [*own, "tools/check_headers.py"],
        "mypy": [tool("mypy"), "--no-error-summary", *typed],
        "imports": [
            tool("mypy"),
            "--no-error-summary",
            "--config-file=tests/python/mypy.ini",
            *tests,
        ],
        "checkers": [*own, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tools/tests"],
        "format": [*own, "tools/format.py"],
        "shell": ["shellcheck", "-x", "--severity=style", "--exclude=SC1091,SC2034,SC2153", *shell],
        "tidy": [*own, "tools/tidy.py"],
        "layers": [*own, "tools/check_layers.py"],
        "docs": [*own, "tools/check_docs.py"],
        "options": [*own, "tools/check_options.py"],
        "version": [*own, "tools/check_version.py"],
        "names": [*own, "tools/check_compatibility.py"],
        "ruff": [tool("ruff"), "check", "-q", *python],
    }


def run(name: str, command: list[str]) -> Outcome:
    started = time.monotonic()
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        result = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        status, output = result.returncode, result.stdout + result.stderr
    except FileNotFoundError as missing:
        status, output = 127, f"{missing.filename} is not installed: run ./dev setup\n"
    return Outcome(name, status, time.monotonic() - started, output)


def show(outcome: Outcome) -> None:
    verdict = "FAILED" if outcome.status else "ok"
    print(f"{verdict:6} {outcome.name:10} {outcome.seconds:5.1f} s", flush=True)
    if outcome.status:
        lines = outcome.output.splitlines()
        if len(lines) > LINES_MAX:
            lines[LINES_MAX:] = [f"... {len(lines) - LINES_MAX} more: ./dev lint {outcome.name}"]
        print("".join(f"    {line}\n" for line in lines), end="", flush=True)


def main() -> int:
    table = checks()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(table))
    args = parser.parse_args()
    unknown = set(args.names) - set(table)
    if unknown:
        parser.error(f"no check {', '.join(sorted(unknown))}; there are: {', '.join(table)}")
    names = args.names or [n for n in table if n not in WHEN_NAMED]
    wanted = {n: c for n, c in table.items() if n in names}
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        futures = [pool.submit(run, name, command) for name, command in wanted.items()]
        outcomes = []
        for future in futures:
            outcomes.append(future.result())
            show(outcomes[-1])
    failed = sum(1 for o in outcomes if o.status)
    print(f"lint: {len(outcomes) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
