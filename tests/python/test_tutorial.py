"""The commands of docs/tutorial.md, typed as they are printed.

A comment before a block says what the reader does with it: writes a file, runs it, or sees it as
the output. The blocks of two machines run together, in a network of its own that has the addresses
of both.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import test_jobs
from processes import LIMIT_S

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^<!-- (file|run|output)(?:: ([\w.]+))? -->\n```\w*\n(.*?)^```", re.M | re.S)
NETWORK = (
    "ip link set lo up && ip address add 10.0.0.1/32 dev lo && "
    'ip address add 10.0.0.2/32 dev lo && exec "$@"'
)


@dataclass(frozen=True)
class Block:
    kind: str
    word: str
    text: str


def blocks() -> list[Block]:
    return [Block(*match.groups(default="")) for match in BLOCK.finditer(PAGE.read_text())]


def test_every_block_says_what_it_is() -> None:
    fences = len(re.findall(r"^```", PAGE.read_text(), re.MULTILINE)) // 2
    # The installation alone: `./dev first-sum` does that in a bare system.
    assert len(blocks()) == fences - 1


def own_network() -> str:
    """Return why there can be no network of its own here; empty if there can be one."""
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", NETWORK, "sh", "true"],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return done.stderr.strip() if done.returncode else ""


@test_jobs.pytestmark
def test_the_commands_do_what_the_page_says(tmp_path) -> None:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DMLC_", "BYTEPS_"))}
    path = f"{Path(sys.executable).parent}:{kept.get('PATH', '')}"
    environment = {**kept, "PATH": path}
    together: list[str] = []
    printed = ""
    for block in blocks():
        if block.kind == "file":
            (tmp_path / block.word).write_text(block.text)
        elif block.word == "together":
            together.append(block.text)
        elif block.kind == "run":
            printed = run(["bash", "-e", "-c", block.text], tmp_path, environment)
        else:
            if together:
                why = own_network()
                if why:
                    pytest.skip(f"the part with two machines needs root and unshare: {why}")
                printed = run_together(together, tmp_path, environment)
                together = []
            assert set(block.text.splitlines()) <= set(printed.splitlines()), printed
    assert not together, "the page does not say what the machines print"


def run(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_together(scripts: list[str], folder: Path, environment: dict[str, str]) -> str:
    """Run each script as a machine would, at the same time as the others."""
    names = []
    for number, text in enumerate(scripts):
        names.append(f"machine{number}.sh")
        (folder / names[-1]).write_text(text)
    starts = "\n".join(f"bash -e {name} &" for name in names)
    waits = "\n".join("wait -n" for _ in names)
    script = f"{starts}\n{waits}"
    network = [
        "unshare",
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "sh",
        "-c",
        NETWORK,
        "sh",
    ]
    return run([*network, "bash", "-e", "-c", script], folder, environment)
