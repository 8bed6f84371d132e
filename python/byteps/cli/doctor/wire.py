"""Plain bytes between two hosts: can they connect, how long is a round trip, how fast is the link.

A `Responder` answers. Each connection begins with a line of JSON: the token, so that strangers get
nothing, and what to do.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import socket
import statistics
import threading
import time

_CONNECT_S = 5.0
_SILENCE_S = 10.0
_LINE_BYTES_MAX = 4096
_CHUNK_BYTES = 256 << 10
_ROUND_TRIPS = 50
# The first part of a stream is not measured: TCP finds its speed, and buckets of shapers are full.
_WARM_UP = 0.3
_SECONDS_MAX = 60.0


class Responder:
    """Listens on one port of all addresses of this machine, until it is closed."""

    def __init__(self, token: str, port: int = 0) -> None:
        self._token = token
        family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
        self._listener = socket.create_server(
            ("", port), family=family, dualstack_ipv6=family == socket.AF_INET6, backlog=64
        )
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="doctor-accept", daemon=True).start()

    def close(self) -> None:
        """Let nobody in any more."""
        # A shutdown wakes the thread that accepts.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            _prepare(connection)
            order = json.loads(_read_line(connection))
            if not hmac.compare_digest(str(order["token"]), self._token):
                return
            if order["do"] == "echo":
                _echo(connection)
            elif order["do"] == "take":
                _take(connection, min(float(order["seconds"]), _SECONDS_MAX))


def round_trip_us(host: str, port: int, token: str) -> float:
    """Return the median time of a byte there and back, in microseconds."""
    with _open(host, port, {"token": token, "do": "echo"}) as connection:
        times = []
        for _ in range(_ROUND_TRIPS):
            began = time.perf_counter()
            connection.sendall(b"x")
            if not connection.recv(1):
                raise ConnectionError("the other end closed the connection; is it another program?")
            times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


def send_rate_mbit(host: str, port: int, token: str, seconds: float) -> float:
    """Return how fast the other end received a stream from here, in Mbit/s of payload."""
    with _open(host, port, {"token": token, "do": "take", "seconds": seconds}) as connection:
        chunk = memoryview(bytes(_CHUNK_BYTES))
        answer: list[str] = []
        reader = threading.Thread(target=_collect, args=(connection, answer), daemon=True)
        reader.start()
        # The other end says when it has enough.
        with contextlib.suppress(OSError):
            while reader.is_alive():
                connection.send(chunk)
        reader.join(_SILENCE_S)
    if not answer:
        raise ConnectionError("the other end ended the stream without a result")
    return float(json.loads(answer[0])["mbit"])


def explain(error: OSError, host: str, port: int) -> str:
    """Return what to look at if `host` could not be reached."""
    if isinstance(error, socket.gaierror):
        return f"no name server knows the name {host}"
    if isinstance(error, ConnectionRefusedError):
        return f"{host} refuses port {port}: nothing listens there, or a firewall rejects it"
    if isinstance(error, TimeoutError):
        return f"{host} does not answer on port {port}: a wrong address, or a firewall in between"
    return f"{host}, port {port}: {error.strerror or error}"


def _open(host: str, port: int, order: dict[str, object]) -> socket.socket:
    connection = socket.create_connection((host, port), timeout=_CONNECT_S)
    _prepare(connection)
    connection.sendall(json.dumps(order).encode() + b"\n")
    return connection


def _prepare(connection: socket.socket) -> None:
    connection.settimeout(_SILENCE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _read_line(connection: socket.socket) -> str:
    line = bytearray()
    while len(line) < _LINE_BYTES_MAX:
        byte = connection.recv(1)
        if byte in (b"", b"\n"):
            break
        line += byte
    return line.decode()


def _echo(connection: socket.socket) -> None:
    while data := connection.recv(64):
        connection.sendall(data)


def _take(connection: socket.socket, seconds: float) -> None:
    buffer = bytearray(_CHUNK_BYTES)
    began = time.perf_counter()
    first, last, received = 0.0, 0.0, 0
    # Measured from the first bytes after the warm-up on, however late they come.
    while not first or last < first + seconds:
        count = connection.recv_into(buffer)
        if count == 0:
            return
        last = time.perf_counter() - began
        if first:
            received += count
        elif last >= seconds * _WARM_UP:
            first = last
    mbit = received * 8 / (last - first) / 1e6
    connection.sendall(json.dumps({"mbit": mbit}).encode() + b"\n")
    connection.shutdown(socket.SHUT_WR)
    # What is on its way is read, or the kernel would answer it with a reset that eats the result.
    while connection.recv_into(buffer):
        pass


def _collect(connection: socket.socket, answer: list[str]) -> None:
    with contextlib.suppress(OSError):
        line = _read_line(connection)
        if line:
            answer.append(line)
