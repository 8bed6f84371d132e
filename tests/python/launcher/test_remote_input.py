"""The input of `bps run --hosts` on its way to rank 0: all of it, slowly, and never in the way."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import threading
import types
from pathlib import Path

import pytest
import test_launcher
from processes import LIMIT_S, finish, wait_for_line, wait_until

from byteps.cli import job_input
from byteps.cli.children import ProcessSpec
from byteps.cli.confirmations import Confirmations, confirmation
from byteps.cli.job_input import WINDOW_BYTES, InputForwarder
from byteps.cli.output import Output

environment = test_launcher.environment

FAKE_SSH = [sys.executable, str(Path(__file__).parents[1] / "fake_ssh.py")]
DATA = random.Random(1).randbytes(3 << 20)  # all values of a byte, also of line feeds and zeros
PIPE_BYTES = 1 << 16
# What a launcher or an agent may need for input that waits, with what Python itself does meanwhile.
MEMORY_MAX = 4 << 20

# Says how much has come. It ends, or it stays until a signal comes.
READER = """
import hashlib, os, signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print("ready", os.getppid(), flush=True)
count, digest = 0, hashlib.sha256()
while data := os.read(0, 1 << 16):
    count += len(data)
    digest.update(data)
    time.sleep(0.01)
print("got", count, digest.hexdigest(), flush=True)
if "stay" in sys.argv:
    signal.sigwait([signal.SIGUSR1])
"""

# Reads nothing, and answers signals.
DEAF = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGTERM])
print("ready", flush=True)
while (number := signal.sigwait([signal.SIGUSR1, signal.SIGTERM])) != signal.SIGTERM:
    print("heard", number, flush=True)
print("ends", flush=True)
"""


def start(
    environment, program: str, *options: str, rate: int = 0, arguments: tuple[str, ...] = (), stdin
) -> subprocess.Popen[str]:
    """Start the program on one host behind the fake ssh, with so many bytes in a second."""
    ssh = shlex.join([*FAKE_SSH, *([str(rate)] if rate else [])])
    job = [*options, sys.executable, "-c", program, *arguments]
    return test_launcher.bps_run(
        environment, "--ssh", ssh, "--hosts", "127.0.0.2:1", *job, stdin=stdin
    )


class Feeder:
    """Writes to the input of a launcher until all is written or nobody reads any more."""

    def __init__(self, descriptor: int, data: bytes) -> None:
        self.written = 0
        self._descriptor = descriptor
        self._data = data
        self._thread = threading.Thread(target=self._feed)
        self._thread.start()

    def _feed(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            while more := self._data[self.written : self.written + 4096]:
                self.written += os.write(self._descriptor, more)
        os.close(self._descriptor)

    def join(self) -> None:
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()


@contextlib.contextmanager
def fed(data: bytes):
    """A pipe for the input of a launcher, and what starts to write the data into it."""
    read_end, writer = os.pipe()
    feeders: list[Feeder] = []
    try:
        with os.fdopen(read_end, "rb", buffering=0) as reader:
            yield reader, lambda: feeders.append(Feeder(writer, data)) or feeders[0]
    finally:
        for feeder in feeders:
            feeder.join()


def peak_memory(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def expected(data: bytes) -> str:
    return f"got {len(data)} {hashlib.sha256(data).hexdigest()}"


@pytest.mark.parametrize("form", ["lines", "raw"])
def test_a_slow_reader_gets_all_of_a_pipe(environment, form) -> None:
    with fed(DATA) as (reader, feed):
        job = start(environment, READER, "--output", form, stdin=reader)
        reader.close()
        feed()
        code, out, err = finish(job)
    assert code == 0, err
    assert expected(DATA) in out, out + err
    assert err == ""  # neither a complaint nor a word that the agent has for the launcher alone


def test_a_slow_reader_gets_all_of_a_file(environment, tmp_path) -> None:
    (tmp_path / "input").write_bytes(DATA)
    with (tmp_path / "input").open("rb") as file:
        code, out, err = finish(start(environment, READER, stdin=file))
    assert code == 0, err
    assert expected(DATA) in out, out + err
    assert err == ""


def test_input_that_waits_needs_little_memory(environment) -> None:
    data = DATA * 4
    with fed(data) as (reader, feed):
        job = start(environment, READER, rate=8 << 20, arguments=("stay",), stdin=reader)
        reader.close()
        agent = int(wait_for_line(job, "ready").split()[-1])
        places = {"launcher": job.pid, "agent": agent}
        before = {name: peak_memory(process) for name, process in places.items()}
        feed()
        assert expected(data) in wait_for_line(job, "got")
        grown = {name: peak_memory(places[name]) - before[name] for name in places}
        job.send_signal(signal.SIGUSR1)
        code, _, err = finish(job)
    assert code == 0, err
    assert max(grown.values()) < MEMORY_MAX, grown


@pytest.mark.parametrize("rate", [0, 300_000])
def test_signals_pass_by_the_input_that_nobody_reads(environment, rate) -> None:
    """At any speed the launcher stops to read, says nothing of it, and the job goes on."""
    data = DATA * 8
    with fed(data) as (reader, feed):
        job = start(environment, DEAF, "--grace", "30", rate=rate, stdin=reader)
        reader.close()
        wait_for_line(job, "ready")
        launcher = peak_memory(job.pid)
        feeder = feed()
        wait_until(lambda: feeder.written >= WINDOW_BYTES + PIPE_BYTES)
        job.send_signal(signal.SIGUSR1)
        wait_for_line(job, f"heard {signal.SIGUSR1.value}")
        assert peak_memory(job.pid) - launcher < MEMORY_MAX
        job.send_signal(signal.SIGTERM)
        out, err = job.communicate(timeout=LIMIT_S)
    assert job.returncode == 128 + signal.SIGTERM, err
    assert "ends" in out
    assert err == "[bps] got SIGTERM; ending the job\n"
    # The window, and what the pipes hold of rank 0 and of the launcher.
    assert feeder.written <= WINDOW_BYTES + 2 * PIPE_BYTES


def test_an_input_that_cannot_be_read_ends_the_job(environment, tmp_path) -> None:
    with (tmp_path / "input").open("wb") as file:  # as of: bps run 0>file
        code, out, err = finish(start(environment, READER, stdin=file))
    assert code == 1, err
    assert "bps cannot read its input for rank 0: Bad file descriptor; give it another one" in err
    assert "got" not in out


def test_a_job_ends_while_its_input_goes_on(environment) -> None:
    with fed(DATA) as (reader, feed):
        job = start(environment, "print('enough')", stdin=reader)
        reader.close()
        feed()
        code, out, err = finish(job)
    assert (code, err) == (0, "")
    assert "enough" in out


# The confirmations.


def test_confirmations_are_taken_out_wherever_reads_cut_them() -> None:
    stream = b"a\0b\n" + confirmation("t0", 5) + b"[x] c" + confirmation("t0", 70) + b"d\0t0:\n\0"
    for size in range(1, len(stream)):
        confirmations = Confirmations("t0")
        pieces = [stream[begin : begin + size] for begin in range(0, len(stream), size)]
        left = b"".join(confirmations.take_out(piece) for piece in pieces)
        assert left + confirmations.take_out(b"") == b"a\0b\n[x] cd\0t0:\n\0"
        assert confirmations.taken == 70


def test_text_that_is_no_confirmation_comes_at_once() -> None:
    confirmations = Confirmations("t0")
    assert confirmations.take_out(b"(Pdb) ") == b"(Pdb) "
    assert confirmations.take_out(b"\0t1:5\0") == b"\0t1:5"  # the last one may begin another
    assert confirmations.take_out(b"x") == b"\0x"
    assert confirmations.taken == 0


def test_each_job_has_a_token_of_its_own() -> None:
    assert Confirmations().token != Confirmations().token


# The launcher's side alone.


class FakeSupervisor:
    """Has one agent, which reads a pipe."""

    def __init__(self, words: Output) -> None:
        self.words: Output | None = words
        self.stopped: list[str] = []
        self.watched: list[int] = []
        self.listen = None
        self.forward = None

    def words_of(self, place: int) -> Output | None:
        assert place == 1
        return self.words

    def before_each_wait(self, call) -> None:
        self.listen = call

    def watch(self, descriptor: int, call) -> None:
        self.watched.append(descriptor)
        self.forward = call

    def unwatch(self, descriptor: int) -> None:
        self.watched.remove(descriptor)

    def stop(self, exit_code: int, reason: str) -> None:
        self.stopped.append(reason)


@pytest.fixture
def agent():
    """A supervisor with an agent, the agent's end of their pipe, and the confirmations."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    yield FakeSupervisor(Output(writer)), reader, Confirmations("t0")
    os.close(reader)
    os.close(writer)


def forwarder_of(supervisor, confirmations) -> InputForwarder:
    other = ProcessSpec("host b", ["x"], {})
    first = ProcessSpec("host a", ["x"], {}, rank=0, confirmations=confirmations)
    return InputForwarder(supervisor, [other, first])


def read_word(reader: int) -> tuple[dict[str, int], bytes]:
    line, _, rest = os.read(reader, 1 << 20).partition(b"\n")
    return json.loads(line), rest


def with_read(monkeypatch, read, is_terminal: bool = False) -> None:
    """Let the launcher read its input by this function, and nothing else."""
    system = types.SimpleNamespace(read=read, isatty=lambda descriptor: is_terminal)
    monkeypatch.setattr(job_input, "os", system)


def test_an_input_that_must_not_be_read_has_ended(agent, monkeypatch) -> None:
    """In the background of a terminal: rank 0 would wait for ever else."""
    supervisor, reader, confirmations = agent
    monkeypatch.setattr(job_input, "may_read_input", lambda: False)
    with_read(monkeypatch, lambda descriptor, count: pytest.fail("it was read"))
    forwarder_of(supervisor, confirmations)
    supervisor.listen()
    supervisor.listen()
    assert read_word(reader) == ({"input": 0}, b"")
    assert supervisor.watched == []


def test_no_more_is_sent_than_is_confirmed(agent, monkeypatch) -> None:
    supervisor, reader, confirmations = agent
    monkeypatch.setattr(job_input, "may_read_input", lambda: True)
    with_read(monkeypatch, lambda descriptor, count: b"x" * count)
    forwarder_of(supervisor, confirmations)

    def pump() -> int:
        sent = 0
        supervisor.listen()
        while supervisor.watched:
            supervisor.forward()
            word, rest = read_word(reader)
            assert word == {"input": len(rest)}
            sent += len(rest)
            supervisor.listen()
        return sent

    assert pump() == WINDOW_BYTES
    assert pump() == 0
    confirmations.take_out(confirmation("t0", 1000))
    assert pump() == 1000


def test_no_input_stands_before_a_signal(agent, monkeypatch) -> None:
    """While the connection takes nothing, the input stays where it is."""
    supervisor, _, confirmations = agent
    monkeypatch.setattr(job_input, "may_read_input", lambda: True)
    with_read(monkeypatch, lambda descriptor, count: b"x" * count)
    forwarder_of(supervisor, confirmations)
    supervisor.listen()
    assert supervisor.watched == [0]
    supervisor.words.put(b"y" * (2 * PIPE_BYTES))
    supervisor.forward()  # an event of the same batch
    supervisor.listen()
    assert supervisor.watched == []
    pending = supervisor.words.pending_bytes
    supervisor.words.put(b'{"signal": 10}\n')
    assert supervisor.words.pending_bytes == pending + len(b'{"signal": 10}\n')
    supervisor.words = None  # the agent has ended
    supervisor.listen()
    assert supervisor.watched == []


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_that_is_gone_is_the_end_of_the_input(agent, monkeypatch, is_terminal) -> None:
    supervisor, reader, confirmations = agent
    monkeypatch.setattr(job_input, "may_read_input", lambda: True)

    def read(descriptor: int, count: int) -> bytes:
        raise OSError(5, "Input/output error")

    with_read(monkeypatch, read, is_terminal)
    forwarder_of(supervisor, confirmations)
    supervisor.listen()
    supervisor.forward()
    supervisor.listen()
    assert supervisor.watched == []
    if is_terminal:
        assert read_word(reader) == ({"input": 0}, b"")
    else:
        assert "Input/output error" in supervisor.stopped[0]
    assert bool(supervisor.stopped) != is_terminal


def test_an_input_that_is_not_ready_after_all_is_read_later(agent, monkeypatch) -> None:
    supervisor, _, confirmations = agent
    monkeypatch.setattr(job_input, "may_read_input", lambda: True)

    def read(descriptor: int, count: int) -> bytes:
        raise BlockingIOError

    with_read(monkeypatch, read)
    forwarder_of(supervisor, confirmations)
    supervisor.listen()
    supervisor.forward()
    supervisor.listen()
    assert supervisor.watched == [0]
    assert not supervisor.stopped
