"""Python with a framework imported already, for the ranks of jobs that tests run.

To import a framework takes 3 to 12 seconds of a core, most of what a rank of a short job costs. One
process imports it once, and each rank is a fork of it:

    python warm_python.py serve NAME OWNER MODULE...  imports the modules, then forks, until the
                                                      process OWNER ends; ends at once if another
                                                      one serves under that name
    python -SE warm_python.py run NAME PROGRAM...     in place of `python PROGRAM...`: a small
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
import select
import signal
import socket
import sys
import time

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
LENGTH_BYTES = 8


def place_of(name: str) -> str:
    """Return where a server listens: no file, so nothing is left of it."""
    return f"\0warm-python {name}"


def run(name: str, words: list[str]) -> int:
    """Have a program run by a fork of the server; return its exit code, or end by its signal."""
    server = socket.socket(socket.AF_UNIX)
    server.connect(place_of(name))
    variables = [f"{key}={value}" for key, value in os.environ.items()]
    parts = [os.getcwd(), str(len(words)), *words, *variables]
    request = "\0".join(parts).encode(errors="surrogateescape")
    socket.send_fds(server, [len(request).to_bytes(LENGTH_BYTES, "little")], [0, 1, 2])
    server.sendall(request)
    # Python's own handler in C passes a number on, whatever this process does just then: one that
    # came before a call that blocks would wait for its end. Until here a signal ends this process,
    # and so the fork, as it would end a Python that has begun nothing yet.
    server.setblocking(False)
    signal.set_wakeup_fd(server.fileno(), warn_on_full_buffer=False)
    for number in PASSED_ON:
        signal.signal(number, lambda *_: None)
    select.select([server], [], [])
    answer = b""
    with contextlib.suppress(ConnectionError):
        answer = server.recv(4)
    if not answer:
        sys.exit("warm_python: the server of this test has ended")
    code = int.from_bytes(answer, "little", signed=True)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def await_server(name: str, limit_s: float) -> None:
    """Wait until a server has imported its modules, and forks."""
    until = time.monotonic() + limit_s
    while True:
        with socket.socket(socket.AF_UNIX) as server:
            server.settimeout(limit_s)
            try:
                server.connect(place_of(name))
                server.sendall(bytes(LENGTH_BYTES))  # a request for nothing
                if server.recv(1):
                    return
            except (ConnectionError, TimeoutError):
                pass
        if time.monotonic() > until:
            raise TimeoutError(f"warm_python: nobody serves {name!r} after {limit_s:g} s")
        time.sleep(0.05)


def receive(connection: socket.socket) -> tuple[list[str], list[int]]:
    """Return what a small process has sent: its words, and its standard files.

    No files: it asks for nothing, or was killed before it had sent all.
    """
    length, files, _, _ = socket.recv_fds(connection, LENGTH_BYTES, 3)
    left = int.from_bytes(length, "little")
    with connection.makefile("rb") as reader:
        request = reader.read(left)
    if len(request) < left:
        for file in files:
            os.close(file)
        files = []
    return request.decode(errors="surrogateescape").split("\0"), files


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


class Server:
    """Forks for each small process until its owner ends."""

    def __init__(self, name: str, owner: int) -> None:
        """Take the name; raises OSError if another server has it."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(place_of(name))
        self._listener.listen(256)
        self._owner = os.pidfd_open(owner)
        self._forks: dict[socket.socket, int] = {}  # the small process of each
        self._events = selectors.DefaultSelector()
        self._events.register(self._listener, selectors.EVENT_READ)
        self._events.register(self._owner, selectors.EVENT_READ)

    def run(self) -> None:
        """Return in the forks only."""
        while True:
            for key, _ in self._events.select():
                if key.fileobj == self._owner:
                    for fork in self._forks.values():
                        os.kill(fork, signal.SIGKILL)
                    os._exit(0)
                if key.fileobj is self._listener:
                    if self._fork():
                        return
                elif key.data is not None:
                    self._on_end(key.fd, key.data)
                elif key.fileobj in self._forks:
                    self._pass_on(key.fileobj)  # type: ignore[arg-type]

    def _fork(self) -> bool:
        """Return whether this is the fork."""
        connection, _ = self._listener.accept()
        request, files = receive(connection)
        if not files:  # somebody asks whether this server is ready
            with contextlib.suppress(OSError):  # it was killed
                connection.sendall(b"y")
            connection.close()
            return False
        fork = os.fork()
        if fork == 0:
            for other in (self._listener, connection, *self._forks):
                other.close()
            for end in self._events.get_map().values():
                if end.data is not None:
                    os.close(end.fd)
            os.close(self._owner)
            self._events.close()
            become(request, files)
            return True
        for file in files:
            os.close(file)
        self._forks[connection] = fork
        self._events.register(connection, selectors.EVENT_READ)
        self._events.register(os.pidfd_open(fork), selectors.EVENT_READ, connection)
        return False

    def _on_end(self, descriptor: int, connection: socket.socket) -> None:
        self._events.unregister(descriptor)
        os.close(descriptor)
        _, status = os.waitpid(self._forks.pop(connection), 0)
        code = os.waitstatus_to_exitcode(status)
        with contextlib.suppress(OSError):  # the small process was killed before
            connection.sendall(code.to_bytes(4, "little", signed=True))
        with contextlib.suppress(KeyError):  # the same
            self._events.unregister(connection)
        connection.close()

    def _pass_on(self, connection: socket.socket) -> None:
        """Give the fork a signal, or kill it if the small process was killed."""
        number = connection.recv(1)
        if not number:
            self._events.unregister(connection)
        os.kill(self._forks[connection], number[0] if number else signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        sys.exit(run(sys.argv[2], sys.argv[3:]))
    import errno
    import gc
    import selectors

    try:
        server = Server(sys.argv[2], int(sys.argv[3]))
    except OSError as error:
        sys.exit(0 if error.errno == errno.EADDRINUSE else str(error))
    for module in sys.argv[4:]:
        __import__(module)
    # Or each fork touches every object once more when it ends: three quarters of what it costs.
    gc.freeze()
    server.run()
    __file__ = sys.argv[0]
    with open(__file__, "rb") as program:
        exec(compile(program.read(), __file__, "exec"))
