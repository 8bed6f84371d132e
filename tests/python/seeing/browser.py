"""A headless Chromium that a test steers over two pipes, by the protocol of its developer tools."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from processes import LIMIT_S

# Descriptors on which Chromium reads and writes with --remote-debugging-pipe.
_READS, _WRITES = 3, 4
_ABOVE_THEM = 10
_END = b"\0"
_LOOK_AGAIN_S = 0.05
_PICTURES_MAX, _EQUAL_PICTURES = 200, 20
# Where the pictures of the pages in docs/ go; without it no picture is made.
PICTURES_VARIABLE = "SEEING_PICTURES"


def why_not() -> str:
    """Return why there is no browser here; empty: there is one."""
    return "" if shutil.which("chromium") else "chromium is not installed (Debian: chromium)"


class Browser:
    """One page of a browser. What it cannot do in time is a TimeoutError."""

    def __init__(self, folder: Path, width: int = 1280, height: int = 800) -> None:
        """Start it, with what it stores in a folder."""
        commands_read, self._commands = os.pipe()
        self._answers, answers_write = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, _ABOVE_THEM)
                for end in (commands_read, answers_write)]  # fmt: skip
        for end in (commands_read, answers_write):
            os.close(end)
        words = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu"]
        words += ["--remote-debugging-pipe", "--no-first-run", "--disable-background-networking"]
        words += [f"--user-data-dir={folder}", f"--window-size={width},{height}"]
        # A shell puts the pipes where the browser looks for them.
        script = f'exec "$@" {_READS}<&{ends[0]} {_WRITES}>&{ends[1]}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *words],
            pass_fds=ends,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in ends:
            os.close(end)
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.exceptions: list[str] = []  # of the page's scripts
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self._call("Runtime.enable")

    def open(self, address: str) -> None:
        """Go to a page."""
        failed = self._call("Page.navigate", url=address).get("errorText")
        assert failed is None, f"{address}: {failed}"

    def ask(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript."""
        told = self._evaluate(expression)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def wait_until(self, expression: str, is_so: Callable[[Any], bool] = bool) -> Any:
        """Ask again and again, also while the page is loaded; return the first right value."""
        until = time.monotonic() + LIMIT_S
        while True:
            told = self._evaluate(expression)
            if "exceptionDetails" not in told and is_so(value := told["result"].get("value")):
                return value
            assert time.monotonic() < until, f"{expression} is {told}"
            time.sleep(_LOOK_AGAIN_S)

    def _evaluate(self, expression: str) -> dict[str, Any]:
        return self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )

    def picture(self, name: str, width: int, height: int) -> None:
        """Store what the page looks like, if somebody wants the pictures.

        That is when it has not changed for a while; what moves all the time is taken as it is then.
        """
        folder = os.environ.get(PICTURES_VARIABLE)
        if not folder:
            return
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        seen, equal = "", 0
        for _ in range(_PICTURES_MAX):
            data = self._call("Page.captureScreenshot", clip=clip)["data"]
            equal = equal + 1 if data == seen else 0
            seen = data
            if equal == _EQUAL_PICTURES:
                break
            time.sleep(_LOOK_AGAIN_S)
        Path(folder, f"{name}.png").write_bytes(base64.b64decode(seen))

    def close(self) -> None:
        """End the browser."""
        os.close(self._commands)
        os.close(self._answers)
        try:
            self._process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + _END)
        until = time.monotonic() + LIMIT_S
        while True:
            told = self._read(until)
            if told.get("method") == "Runtime.exceptionThrown":
                self.exceptions.append(str(told["params"]["exceptionDetails"]))
            if told.get("id") == self._number:
                assert "error" not in told, f"{method}: {told['error']}"
                result: dict[str, Any] = told["result"]
                return result

    def _read(self, until: float) -> dict[str, Any]:
        while _END not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], max(0, until - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            more = os.read(self._answers, 1 << 16)
            assert more, "the browser has ended"
            self._rest += more
        line, _, self._rest = self._rest.partition(_END)
        told: dict[str, Any] = json.loads(line)
        return told


@contextlib.contextmanager
def opened(folder: Path, width: int = 1280, height: int = 800) -> Iterator[Browser]:
    """Have a browser."""
    browser = Browser(folder, width, height)
    try:
        yield browser
    finally:
        browser.close()
