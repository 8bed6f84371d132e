"""Agents on hosts, started through ssh or another command that runs a command there."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from byteps.cli.hosts import real_name
from byteps.common.errors import UnavailableError

SSH = "ssh -o BatchMode=yes -o ConnectTimeout=10"
START_S = 30.0
_END_S = 5.0
_NOISE_MAX = 2000


class RemoteAgent:
    """One agent. `host` is its name for people and for ssh, `address` how other hosts reach it."""

    def __init__(self, host: str, shell: str = SSH, python: str = sys.executable) -> None:
        self.host = host
        words = shlex.split(shell)
        # Other commands than ssh have no names of their own for hosts.
        is_ssh = Path(words[0]).name == "ssh" if words else False
        self.address = real_name(host, words) if is_ssh else host.rpartition("@")[2]
        self.port = 0  # on which it listens
        command = [*words, host, *_words(python, os.environ)]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        except OSError as error:
            raise UnavailableError(f"{command[0]}: {error.strerror}") from error
        self._rest = b""
        self._may_greet = True  # the shell of the host, before the agent begins
        self._greeting = ""  # the last line of that shell, until the agent answers

    def tell(self, do: str, **order: Any) -> None:
        """Give an order without waiting."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the answer says why
            self._process.stdin.write(json.dumps({"do": do, **order}).encode() + b"\n")
            self._process.stdin.flush()

    def answer(self, limit_s: float = START_S) -> dict[str, Any]:
        """Wait for the answer to the oldest open order."""
        deadline = time.monotonic() + limit_s
        line = self._line(deadline, limit_s)
        while self._may_greet and not line.startswith(b"{"):
            self._greeting = line.decode(errors="replace")[:_NOISE_MAX]
            line = self._line(deadline, limit_s)
        self._may_greet, self._greeting = False, ""
        try:
            return dict(json.loads(line))
        except ValueError:
            text = line.decode(errors="replace")[:_NOISE_MAX]
            raise UnavailableError(
                f"{self.host} answered {text!r}, which is no answer of a doctor. Install the same "
                "version of byteps on all hosts."
            ) from None

    def _line(self, deadline: float, limit_s: float) -> bytes:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise UnavailableError(
                        f"{self.host} has not answered within {limit_s:.0f} s{self._noise()}"
                    )
                data = os.read(self._process.stdout.fileno(), 1 << 16)
                if not data:
                    raise UnavailableError(
                        f"no doctor runs on {self.host}: {self._last_words()}{self._noise()}"
                    )
                self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def ask(self, do: str, limit_s: float = START_S, **order: Any) -> dict[str, Any]:
        """Give an order and wait for its answer."""
        self.tell(do, **order)
        return self.answer(limit_s)

    def close(self) -> None:
        """End it; the agent ends with its input."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_END_S)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _noise(self) -> str:
        if not self._greeting:
            return ""
        return f"; it printed {self._greeting!r}, which is no answer of a doctor"

    def _last_words(self) -> str:
        assert self._process.stderr is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        if self._process.poll() is None:
            return "it has closed its output"
        lines = self._process.stderr.read().decode(errors="replace").strip().splitlines()
        words = lines[-1][:_NOISE_MAX] if lines else "it printed nothing"
        return f"exit code {self._process.returncode}, {words}"


def _words(python: str, environment: Mapping[str, str]) -> list[str]:
    """Return the command of an agent. A package that runs from a folder does so there, too."""
    words = [python, "-m", "byteps.cli.doctor.agent"]
    kept = [
        f"{name}={shlex.quote(environment[name])}"
        for name in ("PYTHONPATH", "BYTEPS_PROGRAM_DIR")
        if environment.get(name)
    ]
    return ["env", *kept, *words] if kept else words
