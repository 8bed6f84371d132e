"""Programs that open connections to ports without being of the job, and do there what they like.

    python strangers.py KIND SECONDS SEED RECORDED PORT...

RECORDED is a JSON file: what members said, in hexadecimal, by name. Prints one line of JSON: how
many connections were opened, how many of them the other side ended, how many were open at most.
"""

from __future__ import annotations

import errno
import itertools
import json
import random
import selectors
import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

Recorded = dict[str, list[bytes]]
READ_BYTES = 1 << 16


def frame(kind: int, payload: bytes, size: int | None = None, header_size: int = 0) -> bytes:
    """Return a frame, which may say that its payload and header have other sizes."""
    claimed = len(payload) if size is None else size
    return struct.pack("<IHBB", claimed, header_size, kind, 0) + payload


def tls_hello(chance: random.Random) -> bytes:
    """Return the first message of some TLS client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    version = chance.choice([ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    context.minimum_version = context.maximum_version = version
    outgoing = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="example.org").do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("a handshake without a peer")


def random_bytes(chance: random.Random, recorded: Recorded) -> list[bytes]:
    return [chance.randbytes(chance.randint(1, 5000))]


def web(chance: random.Random, recorded: Recorded) -> list[bytes]:
    return [b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"]


def other_tls(chance: random.Random, recorded: Recorded) -> list[bytes]:
    return [tls_hello(chance)]


def half_header(chance: random.Random, recorded: Recorded) -> list[bytes]:
    first = recorded["member"][0]
    return [first[: chance.randint(1, len(first) - 1)]]


def huge_frames(chance: random.Random, recorded: Recorded) -> list[bytes]:
    size = chance.choice([1 << 31, (1 << 32) - 1, 1 << 20, 1025])
    header_size = chance.choice([0, 128, 129, 65535])
    return [frame(chance.randrange(256), b"\0" * 64, size, header_size)]


def every_kind(chance: random.Random, recorded: Recorded) -> list[bytes]:
    """A frame of the job's own kinds, in place of a hello or behind one."""
    wrong = frame(chance.randrange(16), chance.randbytes(chance.randint(0, 900)))
    return [wrong] if chance.random() < 0.5 else [recorded["member"][0] + wrong]


def hello_only(chance: random.Random, recorded: Recorded) -> list[bytes]:
    return recorded["member"][:1]


def other_version(chance: random.Random, recorded: Recorded) -> list[bytes]:
    hello = bytearray(recorded["member"][0])
    hello[12:14] = b"\x4d\0"  # behind the frame's prefix and the magic; anything under TLS
    return [bytes(hello)]


def replayed(chance: random.Random, recorded: Recorded) -> list[bytes]:
    return recorded["member"]


def other_secret(chance: random.Random, recorded: Recorded) -> list[bytes]:
    return recorded["other secret"]


def nothing(chance: random.Random, recorded: Recorded) -> list[bytes]:
    return []


@dataclass(frozen=True)
class Kind:
    """What strangers of a kind say, and what they do then."""

    what: str
    words: Callable[[random.Random, Recorded], list[bytes]]
    then: str = "hold"  # or close, reset, drip (a byte at a time), flood, deaf (never read)
    at_once: int = 100  # connections
    per_second: int = 1000  # new ones at most


KINDS = {
    "random": Kind("random bytes", random_bytes, "close"),
    "web": Kind("a web browser's request", web),
    "other-tls": Kind("first messages of other TLS clients", other_tls),
    "half": Kind("part of a member's first message, then silence", half_header, at_once=1000),
    "huge": Kind("frames that claim up to 4 GiB", huge_frames),
    "kinds": Kind("the job's own frames before the handshake's end", every_kind),
    "hello": Kind("a member's hello, then silence", hello_only, at_once=1000),
    "replay": Kind("a member's hello and proof once more", replayed),
    "other-secret": Kind("a member of the same job with another secret", other_secret),
    "idle": Kind("silence", nothing, at_once=10_000, per_second=4000),
    # Not more: closed connections keep their ports for a minute, and the job needs some, too.
    "storm": Kind("connections that close at once", nothing, "close", 50, 2000),
    "reset": Kind("connections that reset at once", nothing, "reset", 50, 20_000),
    "drip": Kind("a byte every 100 ms", hello_only, "drip", at_once=1000),
    "flood": Kind("a hello and then as much as the socket takes", hello_only, "flood"),
    "deaf": Kind("refused, and never reads it", other_version, "deaf", at_once=1000),
    "refused-flood": Kind("refused, and then as much as the socket takes", other_version, "flood"),
}


class Stranger:
    """One connection."""

    def __init__(self, port: int, words: list[bytes], then: str) -> None:
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.connect_ex(("127.0.0.1", port))
        self.words, self.then = list(words), then
        self.next_s = 0.0

    def speak(self, now_s: float) -> bool:
        """Say what can be said now; return False when this connection is over."""
        try:
            while self.words and (self.then != "drip" or now_s >= self.next_s):
                word = self.words[0][:1] if self.then == "drip" else self.words[0]
                sent = self.socket.send(word)
                rest = self.words[0][sent:]
                self.words[:1] = [rest] if rest else []
                self.next_s = now_s + 0.1
            while self.then == "flood" and not self.words:
                self.socket.send(b"\0" * READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError as error:
            return error.errno == errno.ENOTCONN  # not yet
        if self.then == "reset" and not self.words:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return self.then not in ("close", "reset") or bool(self.words)

    def hears_the_end(self) -> bool:
        """Return whether the other side has ended the connection."""
        try:
            while data := self.socket.recv(READ_BYTES):
                if len(data) < READ_BYTES:
                    return False
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            return error.errno != errno.ENOTCONN
        return True


class Crowd:
    """Strangers of one kind at some ports."""

    def __init__(self, kind: Kind, ports: list[int], recorded: Recorded, seed: str) -> None:
        self._kind, self._recorded, self._chance = kind, recorded, random.Random(seed)
        self._ports: Iterator[int] = itertools.cycle(ports)
        self._selector = selectors.EpollSelector()
        self._open: dict[int, Stranger] = {}
        self.opened = self.ended = self.most = 0

    def run(self, seconds: float) -> None:
        """Do it for a while, then close all."""
        begin_s = now_s = time.monotonic()
        while now_s < begin_s + seconds:
            allowed = int((now_s - begin_s) * self._kind.per_second) + 1
            for _ in range(min(allowed - self.opened, self._kind.at_once - len(self._open), 200)):
                self._begin()
            self.most = max(self.most, len(self._open))
            for key, _ in self._selector.select(0.005):
                if key.data.hears_the_end():
                    self.ended += 1
                    self._close(key.data)
            now_s = time.monotonic()
            for stranger in [s for s in self._open.values() if s.words or s.then == "flood"]:
                self._speak(stranger, now_s)
        for stranger in list(self._open.values()):
            self._close(stranger)

    def _begin(self) -> None:
        words = self._kind.words(self._chance, self._recorded)
        stranger = Stranger(next(self._ports), words, self._kind.then)
        self.opened += 1
        self._open[stranger.socket.fileno()] = stranger
        if self._kind.then != "deaf":
            self._selector.register(stranger.socket, selectors.EVENT_READ, stranger)
        self._speak(stranger, time.monotonic())

    def _speak(self, stranger: Stranger, now_s: float) -> None:
        if not stranger.speak(now_s):
            self._close(stranger)

    def _close(self, stranger: Stranger) -> None:
        del self._open[stranger.socket.fileno()]
        if stranger.then != "deaf":
            self._selector.unregister(stranger.socket)
        stranger.socket.close()


def main() -> None:
    kind, seconds, seed, recorded_path, *ports = sys.argv[1:]
    said = json.loads(Path(recorded_path).read_text())
    recorded = {name: [bytes.fromhex(word) for word in words] for name, words in said.items()}
    crowd = Crowd(KINDS[kind], [int(port) for port in ports], recorded, seed)
    crowd.run(float(seconds))
    print(json.dumps({"opened": crowd.opened, "ended": crowd.ended, "most": crowd.most}))


if __name__ == "__main__":
    main()
