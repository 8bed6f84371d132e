"""The commands of docs/tutorial.md, typed as they are printed.

A comment before a block says what the reader does with it: writes a file, runs it, or sees it as
the output. What needs two machines runs in a network of its own, which has the addresses of both
and an sshd.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import ssh_server
import torch_jobs
from processes import LIMIT_S

PAGE = Path(__file__).resolve().parents[3] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^<!-- (file|run|output)(?:: ([\w.]+))? -->\n```\w*\n(.*?)^```", re.M | re.S)
MACHINES = ("10.0.0.1", "10.0.0.2")
NETWORK = (
    "ip link set lo up && "
    + "".join(f"ip address add {host}/32 dev lo && " for host in MACHINES)
    + 'exec "$@"'
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


def split() -> tuple[list[Block], list[Block]]:
    """Return what needs one machine, and what needs two: the files, and what follows that mark."""
    found = blocks()
    first = next(n for n, block in enumerate(found) if block.word == "machines")
    return found[:first], [*(b for b in found[:first] if b.kind == "file"), *found[first:]]


def follow(page: list[Block], folder: Path) -> None:
    """Do what the page says, in a folder."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DMLC_", "BYTEPS_"))}
    path = f"{Path(sys.executable).parent}:{kept.get('PATH', '')}"
    environment = {**kept, "PATH": path}
    printed = ""
    for block in page:
        if block.kind == "file":
            (folder / block.word).write_text(block.text)
        elif block.word == "machines":
            printed = run_on_machines(block.text, folder, environment)
        elif block.kind == "run":
            printed = run(["bash", "-e", "-c", block.text], folder, environment)
        else:
            assert set(block.text.splitlines()) <= set(printed.splitlines()), printed


@torch_jobs.needs_torch
def test_the_commands_do_what_the_page_says(tmp_path) -> None:
    follow(split()[0], tmp_path)


@torch_jobs.needs_torch
@pytest.mark.engine("sshd")
def test_the_commands_for_two_machines_do_what_the_page_says(tmp_path) -> None:
    why = own_network()
    if why:
        pytest.skip(f"two machines on this one need root and unshare: {why}")
    follow(split()[1], tmp_path)


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


def run_on_machines(text: str, folder: Path, environment: dict[str, str]) -> str:
    """Run a block where both machines answer ssh, with keys that its user has set up."""
    keys = folder / "keys"
    keys.mkdir()
    server = shlex.join(ssh_server.configure(keys, MACHINES, port=22))
    ssh = keys / "ssh"
    ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {keys}/ssh_config "$@"\n')
    ssh.chmod(0o755)
    ready = " && ".join(f"ssh {host} true" for host in MACHINES)
    script = f"{server} 2>{keys}/log & until {ready}; do kill -0 $!; done 2>/dev/null\n{text}"
    network = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    words = [*network, "sh", "-c", NETWORK, "sh", "bash", "-e", "-c", script]
    return run(words, folder, {**environment, "PATH": f"{keys}:{environment['PATH']}"})
