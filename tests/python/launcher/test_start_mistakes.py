"""Mistakes at the start of a job: each ends in bounded time, with an exit code and a next step."""

from __future__ import annotations

import functools
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import job_runs
import pytest
import torch_jobs
from processes import LIMIT_S, finish, free_ports, wait_until
from rank_programs import rank_program

environment = job_runs.environment
pytestmark = torch_jobs.needs_torch

SECRET = "of these tests"
# Loaded before the C library, it puts the time of day ten years ahead.
WRONG_CLOCK = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { kAhead = 10 * 365 * 86400 };

int clock_gettime(clockid_t clock, struct timespec* now) {
  long result = syscall(SYS_clock_gettime, clock, now);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) now->tv_sec += kAhead;
  return (int)result;
}
time_t time(time_t* now) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  if (now) *now = precise.tv_sec;
  return precise.tv_sec;
}
int gettimeofday(struct timeval* now, void* zone) {
  struct timespec precise;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}
"""


COMES = "it comes"
# A worker that has a name when it has imported what takes time.
WORKER = f"""
import runpy
from pathlib import Path
import byteps._core
import byteps.common.session.session
Path("/proc/self/comm").write_text({COMES!r})
runpy.run_path({rank_program("small")!r}, run_name="__main__")
"""


class Job:
    """Starts single processes of a job, each with what it was told."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.port = free_ports(1)[0]
        self.told = {
            **environment,
            "DMLC_PS_ROOT_URI": "127.0.0.1",
            "DMLC_PS_ROOT_PORT": str(self.port),
            "DMLC_NUM_WORKER": "1",
            "DMLC_NUM_SERVER": "1",
            "BYTEPS_FORCE_DISTRIBUTED": "1",
            "BYTEPS_JOB_ID": "a",
            "BYTEPS_JOB_SECRET": SECRET,
            "BYTEPS_START_TIMEOUT": str(round(LIMIT_S)),
        }

    def start(self, role: str, *before: str, **told: str) -> subprocess.Popen[str]:
        script = f"from byteps.common.job.executables import exec_program; exec_program('{role}')"
        command = [sys.executable, "-c", WORKER if role == "worker" else script]
        return subprocess.Popen(
            [*before, *command],
            env={**self.told, "DMLC_ROLE": role, **told},
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def meet(
        self, *others: subprocess.Popen[str], seconds: int = 4, **told: str
    ) -> subprocess.Popen[str]:
        """Start a scheduler that waits for some seconds, when the others look for it.

        To come so far takes a process longer than that on a busy machine.
        """
        for other in others:
            wait_until(functools.partial(looks_for_the_scheduler, other))
        return self.start("scheduler", **{"BYTEPS_START_TIMEOUT": str(seconds), **told})


def looks_for_the_scheduler(process: subprocess.Popen[str]) -> bool:
    """Return whether a server or a worker has begun, or has ended."""
    try:
        words = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        name = Path(f"/proc/{process.pid}/comm").read_text()
    except FileNotFoundError:
        return True
    begun = name == COMES + "\n" if WORKER.encode() in words else b"bps-server" in words[0]
    return begun or process.poll() is not None


@pytest.fixture
def mistaken(environment) -> Job:
    return Job(environment)


def ended(process: subprocess.Popen[str]) -> str:
    """Return what a process said that had to end with an error."""
    code, out, err = finish(process)
    assert code not in (0, None), out + err
    return out + err


def test_a_wrong_port_of_the_scheduler(mistaken) -> None:
    with socket.socket() as nobody:  # It has the port, so no other test listens there meanwhile.
        nobody.bind(("127.0.0.1", mistaken.port))
        for role in ("worker", "server"):
            said = ended(mistaken.start(role, BYTEPS_START_TIMEOUT="1"))
            assert f"cannot reach the scheduler at 127.0.0.1:{mistaken.port} (" in said
            assert "are DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT right?" in said


def test_a_name_of_the_scheduler_that_nobody_has(mistaken) -> None:
    told = {"DMLC_PS_ROOT_URI": "no-such-host.invalid", "BYTEPS_START_TIMEOUT": "1"}
    said = ended(mistaken.start("worker", **told))
    assert "cannot reach the scheduler at no-such-host.invalid:" in said
    assert "are DMLC_PS_ROOT_URI" in said


def test_a_port_that_is_taken(mistaken) -> None:
    with socket.create_server(("127.0.0.1", mistaken.port)):
        said = ended(mistaken.start("scheduler"))
    assert f"cannot listen on 127.0.0.1:{mistaken.port}" in said


def test_a_server_whose_port_is_taken(mistaken) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = mistaken.start("server", DMLC_PORT=str(port))
        scheduler = mistaken.meet(server)
        said = ended(server)
    assert f"cannot listen on 127.0.0.1:{port}" in said
    ended(scheduler)


@pytest.mark.parametrize(
    ("role", "told", "text"),
    [
        ("server", {"DMLC_NUM_SERVER": "2"}, "you were told of 2 servers, the coordinator of 1"),
        ("worker", {"DMLC_NUM_SERVER": "3"}, "you were told of 3 servers, the coordinator of 1"),
    ],
)
def test_a_wrong_number_of_processes(mistaken, role, told, text) -> None:
    wrong = mistaken.start(role, **told)
    scheduler = mistaken.meet(wrong)
    said = ended(wrong)
    assert text in said
    assert "must be the same everywhere" in said
    assert text in ended(scheduler)  # which also says whom it has refused


def test_workers_that_disagree_about_their_number(mistaken) -> None:
    mistaken.told["DMLC_NUM_WORKER"] = "2"
    first = mistaken.start("worker", DMLC_WORKER_ID="0")
    wrong = mistaken.start("worker", DMLC_WORKER_ID="1", DMLC_NUM_WORKER="3")
    scheduler = mistaken.meet(first, wrong)
    said = ended(wrong)
    assert "you were told of 3 workers, the coordinator of 2 worker machines" in said
    assert "DMLC_NUM_WORKER must be the same everywhere" in said
    ended(scheduler)
    ended(first)


def test_workers_that_disagree_about_the_machines(mistaken) -> None:
    mistaken.told["DMLC_NUM_WORKER"] = "2"
    wrong = mistaken.start("worker", DMLC_WORKER_ID="1", BYTEPS_LOCAL_SIZES="1,2")
    scheduler = mistaken.meet(wrong, BYTEPS_LOCAL_SIZES="2,1")
    said = ended(wrong)
    both = (
        "you were told of machines with 1,2 workers, the coordinator of machines with 2,1 workers"
    )
    assert both in said
    assert "DMLC_NUM_WORKER and BYTEPS_LOCAL_SIZES" in said
    assert both in ended(scheduler)


def test_numbers_of_machines_that_contradict_each_other(mistaken) -> None:
    mistaken.told |= {"DMLC_NUM_WORKER": "2", "DMLC_WORKER_ID": "1", "BYTEPS_LOCAL_SIZES": "2,1"}
    said = ended(mistaken.start("worker", BYTEPS_LOCAL_SIZE="2"))
    assert "local_size=2 (BYTEPS_LOCAL_SIZE) must be 1, or not set: local_sizes=2,1" in said
    said = ended(mistaken.start("scheduler", DMLC_NUM_WORKER="3"))
    assert "local_sizes=2,1 (BYTEPS_LOCAL_SIZES) has a number for each of 2 machines, but" in said


def test_a_worker_s_number_twice(mistaken) -> None:
    mistaken.told["DMLC_NUM_WORKER"] = "2"
    workers = [mistaken.start("worker", DMLC_WORKER_ID="0") for _ in range(2)]
    scheduler = mistaken.meet(*workers)
    said = [ended(worker) for worker in workers]
    assert any("it is taken by worker 0 (process " in text for text in said), said
    assert any("give each worker a DMLC_WORKER_ID" in text for text in said), said
    assert "missing worker 1" in ended(scheduler)


@pytest.mark.parametrize("second", [{"BYTEPS_LOCAL_RANK": "0"}, {}], ids=["twice", "missing"])
def test_a_local_rank_twice_or_missing(mistaken, second) -> None:
    mistaken.told |= {"BYTEPS_LOCAL_SIZE": "2", "DMLC_WORKER_ID": "0"}
    server = mistaken.start("server")
    workers = [mistaken.start("worker", **more) for more in ({"BYTEPS_LOCAL_RANK": "0"}, second)]
    scheduler = mistaken.meet(server, *workers, seconds=8)
    said = [ended(worker) for worker in workers]
    # The coordinator says so, or the two have met before.
    twice = "it is taken by worker 0 \\(process |two processes of this machine are local rank 0"
    assert any(re.search(twice, text) for text in said), said
    assert all("BYTEPS_LOCAL_RANK of its own" in text for text in said), said
    for process in (scheduler, server):
        assert re.search("missing worker 1|missing workers 0, 1", ended(process))


@pytest.mark.parametrize("second", [{"BYTEPS_LOCAL_RANK": "0"}, {}], ids=["twice", "missing"])
def test_a_local_rank_twice_or_missing_without_servers(mistaken, second) -> None:
    mistaken.told |= {"BYTEPS_LOCAL_SIZE": "2", "DMLC_WORKER_ID": "0", "DMLC_NUM_SERVER": "0"}
    mistaken.told |= {"BYTEPS_FORCE_DISTRIBUTED": "0", "BYTEPS_START_TIMEOUT": "20"}
    workers = [mistaken.start("worker", **more) for more in ({"BYTEPS_LOCAL_RANK": "0"}, second)]
    for worker in workers:
        said = ended(worker)
        assert "two processes of this machine are local rank 0 of 2" in said
        assert "BYTEPS_LOCAL_RANK" in said


def test_a_local_rank_that_is_too_large(mistaken) -> None:
    told = {"BYTEPS_LOCAL_RANK": "2", "BYTEPS_LOCAL_SIZE": "2", "DMLC_WORKER_ID": "0"}
    said = ended(mistaken.start("worker", **told))
    assert "local_rank=2 must be below local_size=2 (BYTEPS_LOCAL_RANK, BYTEPS_LOCAL_SIZE)" in said


@pytest.mark.parametrize(
    ("role", "missing"),
    [
        ("worker", "DMLC_WORKER_ID"),
        ("worker", "DMLC_NUM_WORKER"),
        ("worker", "DMLC_NUM_SERVER"),
        ("server", "DMLC_PS_ROOT_URI"),
        ("scheduler", "DMLC_PS_ROOT_PORT"),
    ],
)
def test_a_variable_that_is_missing(mistaken, role, missing) -> None:
    mistaken.told |= {"DMLC_NUM_WORKER": "2", "DMLC_WORKER_ID": "0"}
    del mistaken.told[missing]
    said = ended(mistaken.start(role))
    assert f"a {role} of a job needs a value, not set: {missing}" in said
    assert "Set them for every process of the job, or start the job with `bps run`" in said


def test_an_error_of_init_is_shown_in_few_lines(environment) -> None:
    """Its traceback ends where the program has called this package."""
    program = "import byteps.numpy as bps\nbps.init()"
    told = {"DMLC_NUM_WORKER": "2", "DMLC_NUM_SERVER": "1"}
    told |= {"DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": "9"}
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment | told,
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    said = ended(process)
    assert "DMLC_WORKER_ID" in said
    assert len(said.splitlines()) <= 4, said


def test_a_worker_s_number_that_is_too_large(mistaken) -> None:
    said = ended(mistaken.start("worker", DMLC_WORKER_ID="1"))
    assert "DMLC_WORKER_ID" in said
    assert "DMLC_NUM_WORKER" in said


def test_a_worker_that_never_comes(mistaken) -> None:
    mistaken.told["DMLC_NUM_WORKER"] = "2"
    server = mistaken.start("server")
    worker = mistaken.start("worker", DMLC_WORKER_ID="0")
    scheduler = mistaken.meet(server, worker)
    for process in (scheduler, server, worker):
        said = ended(process)
        assert "1/2 workers, 1/1 servers; missing worker 1; waited 4 s" in said
        assert "start what is missing, or raise BYTEPS_START_TIMEOUT" in said


def test_a_firewall_in_between(mistaken) -> None:
    """Nobody takes what comes out at the other end of the link."""
    lose = " && ".join((
        "ip link add lost0 type veth peer name lost1",
        "ip link set lost1 up",
        "ip addr add 10.9.9.1/24 dev lost0",
        "ip link set lost0 up",
        "ip neigh add 10.9.9.2 lladdr 02:00:00:00:00:02 dev lost0",
        "",
    ))  # fmt: skip
    tools = [shutil.which(name) for name in ("unshare", "ip")]
    probe = subprocess.run(
        ["unshare", "-rn", "sh", "-c", lose + "true"], capture_output=True, text=True, check=False
    ) if all(tools) else None  # fmt: skip
    if probe is None or probe.returncode != 0:
        why = "no unshare or ip" if probe is None else probe.stderr.strip()
        pytest.skip(f"no network namespace with a link can be made here: {why}")
    told = {"DMLC_PS_ROOT_URI": "10.9.9.2", "BYTEPS_START_TIMEOUT": "2"}
    said = ended(
        mistaken.start("worker", "unshare", "-rn", "sh", "-c", lose + 'exec "$@"', "sh", **told)
    )
    assert f"cannot reach the scheduler at 10.9.9.2:{mistaken.port} (" in said
    assert "waited 2 s" in said


def test_two_jobs_on_one_port(mistaken) -> None:
    stranger = mistaken.start("worker", BYTEPS_JOB_ID="b")
    scheduler = mistaken.meet(stranger)
    said = ended(stranger)
    assert "it belongs to another job" in said
    said = ended(scheduler)
    assert "refused" in said
    assert "another job" in said


def test_another_secret(mistaken) -> None:
    stranger = mistaken.start("server", BYTEPS_JOB_SECRET="another")
    scheduler = mistaken.meet(stranger)
    said = ended(stranger)
    assert "BYTEPS_JOB_SECRET" in said
    ended(scheduler)


@pytest.fixture
def wrong_clock(tmp_path) -> str:
    """A library that puts the clock of a program ahead."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler, so nothing can put a program's clock ahead (Debian: gcc)")
    (tmp_path / "clock.c").write_text(WRONG_CLOCK)
    library = str(tmp_path / "clock.so")
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", library, str(tmp_path / "clock.c")]
    subprocess.run(command, check=True, timeout=LIMIT_S)
    told = subprocess.run(
        [sys.executable, "-c", "import time; print(time.gmtime().tm_year)"],
        env={"LD_PRELOAD": library},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert int(told.stdout) >= time.gmtime().tm_year + 9
    return library


def test_clocks_that_differ_by_years_do_no_harm(mistaken, wrong_clock) -> None:
    mistaken.told |= {"DMLC_NUM_WORKER": "2", "DMLC_NUM_SERVER": "2"}
    job = [mistaken.start("scheduler")]
    for number, more in enumerate(({}, {"LD_PRELOAD": wrong_clock})):
        job.append(mistaken.start("server", **more))
        job.append(mistaken.start("worker", DMLC_WORKER_ID=str(number), **more))
    for process in job:
        code, out, err = finish(process)
        assert code == 0, out + err


def test_monotonic_clocks_that_differ_by_days_do_no_harm(mistaken) -> None:
    """As in containers, of which each may have a time of its own."""
    later = ("unshare", "--time", "--monotonic", "864000", "--fork")
    tried = subprocess.run([*later, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no time namespace can be made here: {tried.stderr.strip()}")
    mistaken.told |= {"DMLC_NUM_WORKER": "2", "DMLC_NUM_SERVER": "2"}
    job = [mistaken.start("scheduler")]
    for number, before in enumerate(((), later)):
        job.append(mistaken.start("server", *before))
        job.append(mistaken.start("worker", *before, DMLC_WORKER_ID=str(number)))
    for process in job:
        code, out, err = finish(process)
        assert code == 0, out + err


def hello_of(version: int) -> bytes:
    """Return the frame with which a process of this version of the wire format begins."""
    job = b"a"
    payload = struct.pack(
        "<IHBBIIQQII16sH", 0x31535042, version, 0, 2, 0xFFFFFFFF, 0, 7, 0, 0, 0, b"n" * 16, len(job)
    ) + job  # fmt: skip
    return struct.pack("<IHBB", len(payload), 0, 1, 0) + payload


def test_another_version_comes(mistaken) -> None:
    scheduler = mistaken.meet()

    def has_come() -> bool:
        try:
            with socket.create_connection(("127.0.0.1", mistaken.port), LIMIT_S) as link:
                link.sendall(hello_of(99))
                link.recv(4096)
        except ConnectionRefusedError:
            return scheduler.poll() is not None
        return True

    wait_until(has_come)
    said = ended(scheduler)
    assert "version" in said


def test_another_version_answers(mistaken) -> None:
    with socket.create_server(("127.0.0.1", mistaken.port)) as stranger:
        stranger.settimeout(LIMIT_S)
        worker = mistaken.start("worker")

        def answer() -> None:
            link, _ = stranger.accept()
            with link:
                link.recv(4096)
                text = b"it speaks version 99 of the protocol, you speak 3"
                fixed = struct.pack("<IHBBQ32sH", 0x31535042, 99, 8, 0, 7, b"", len(text))
                payload = fixed + text
                link.sendall(struct.pack("<IHBB", len(payload), 0, 2, 0) + payload)
                link.recv(4096)

        thread = threading.Thread(target=answer)
        thread.start()
        said = ended(worker)
        thread.join()
    assert "it speaks version 99 of the protocol, you speak 3" in said
