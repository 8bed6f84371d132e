"""Python with its frameworks imported already, for the ranks of jobs that tests run.

To import a framework takes 2 to 8 seconds of a core, most of what a rank of a short job costs. One
process imports them once, and each rank is a fork of it:

    python warm_python.py serve ADDRESS MODULE...     imports the modules, then forks
    python -SE warm_python.py run ADDRESS PROGRAM...  in place of `python PROGRAM...`: a small
                                                      process that lives and ends as the fork does

The fork has the standard files, the environment and the folder of the small process; signals
reach it, and it is killed when the small process is. What it is not: a child of the launcher.
A test that kills ranks, or looks at them in /proc, starts a Python of its own.
"""

# The small process imports as little as it can:
# ruff: noqa: PTH100, PTH109, PTH120, PTH123
from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
LENGTH_BYTES = 8


def run(address: str, words: list[str]) -> int:
    """Have a program run by a fork of the server; return its exit code, or end by its signal."""
    server = socket.socket(socket.AF_UNIX)
    server.connect(address)
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: server.sendall(bytes([number])))
    variables = [f"{name}={value}" for name, value in os.environ.items()]
    parts = [os.getcwd(), str(len(words)), *words, *variables]
    request = "\0".join(parts).encode(errors="surrogateescape")
    socket.send_fds(server, [len(request).to_bytes(LENGTH_BYTES, "little")], [0, 1, 2])
    server.sendall(request)
    answer = server.recv(4)
    if not answer:
        sys.exit("warm_python: the server of this test has ended")
    code = int.from_bytes(answer, "little", signed=True)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def receive(connection: socket.socket) -> tuple[list[str], list[int]]:
    """Return what a small process has sent: its words, and its standard files."""
    length, files, _, _ = socket.recv_fds(connection, LENGTH_BYTES, 3)
    left = int.from_bytes(length, "little")
    with connection.makefile("rb") as reader:
        return reader.read(left).decode(errors="surrogateescape").split("\0"), files


def become(request: list[str], files: list[int]) -> None:
    """In a fork: be what the small process is."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    folder, count, *rest = request
    os.chdir(folder)
    os.environ.clear()
    for variable in rest[int(count) :]:
        name, _, value = variable.partition("=")
        os.environ[name] = value
    sys.argv = rest[: int(count)]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    if os.environ.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]


def serve(address: str) -> None:
    """Fork for each small process until the input ends. Returns in the forks only."""
    import selectors

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    print("ready", flush=True)
    events = selectors.DefaultSelector()
    events.register(listener, selectors.EVENT_READ)
    events.register(sys.stdin, selectors.EVENT_READ)
    # A fork has two entries: its small process, and the descriptor that tells of its end.
    processes: dict[socket.socket, int] = {}
    while True:
        for key, _ in events.select():
            if key.fileobj is sys.stdin:
                for process in processes.values():
                    os.kill(process, signal.SIGKILL)
                os._exit(0)
            if key.fileobj is listener:
                connection, _ = listener.accept()
                request, files = receive(connection)
                process = os.fork()
                if process == 0:
                    for other in (listener, connection, *processes):
                        other.close()
                    for ended in events.get_map().values():
                        if ended.data is not None:
                            os.close(ended.fd)
                    events.close()
                    become(request, files)
                    return
                for file in files:
                    os.close(file)
                processes[connection] = process
                events.register(connection, selectors.EVENT_READ)
                events.register(os.pidfd_open(process), selectors.EVENT_READ, connection)
            elif key.data is not None:  # the fork has ended
                connection = key.data
                events.unregister(key.fileobj)
                os.close(key.fd)
                _, status = os.waitpid(processes.pop(connection), 0)
                code = os.waitstatus_to_exitcode(status)
                with contextlib.suppress(OSError):  # the small process was killed before
                    connection.sendall(code.to_bytes(4, "little", signed=True))
                if connection in {entry.fileobj for entry in events.get_map().values()}:
                    events.unregister(connection)
                connection.close()
            elif key.fileobj in processes:
                number = key.fileobj.recv(1)  # type: ignore[union-attr]
                if not number:
                    events.unregister(key.fileobj)
                os.kill(processes[key.fileobj], number[0] if number else signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        sys.exit(run(sys.argv[2], sys.argv[3:]))
    for module in sys.argv[3:]:
        __import__(module)
    serve(sys.argv[2])
    __file__ = sys.argv[0]
    with open(__file__, "rb") as program:
        exec(compile(program.read(), __file__, "exec"))
