"""In place of ssh: runs the command on this machine, if wanted behind a slow link.

fake_ssh.py [BYTES_PER_SECOND] -G HOST
fake_ssh.py [BYTES_PER_SECOND] OPTION... -- HOST COMMAND
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

_READ_BYTES = 1 << 12


def _pass_on(to: int, bytes_per_s: int) -> None:
    try:
        while data := os.read(0, _READ_BYTES):
            time.sleep(len(data) / bytes_per_s)
            while data:
                data = data[os.write(to, data) :]
    except BrokenPipeError:  # the command reads no more
        return
    os.close(to)


def _run_behind_a_slow_link(command: str, bytes_per_s: int) -> int:
    process = subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE)
    assert process.stdin is not None
    arguments = (process.stdin.fileno(), bytes_per_s)
    threading.Thread(target=_pass_on, args=arguments, daemon=True).start()
    return process.wait()


def main() -> None:
    words = sys.argv[1:]
    bytes_per_s = int(words.pop(0)) if words[0].isdigit() else 0
    if words[0] == "-G":
        print("hostname 127.0.0.1")
        return
    command = " ".join(words[words.index("--") + 2 :])
    if not bytes_per_s:
        os.execvp("sh", ["sh", "-c", command])
    os._exit(_run_behind_a_slow_link(command, bytes_per_s))  # whatever is on the way


if __name__ == "__main__":
    main()
