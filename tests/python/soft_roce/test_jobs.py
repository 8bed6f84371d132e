"""Jobs of real processes over Soft-RoCE: what they sum, and what they do when something fails."""

from __future__ import annotations

import gzip
import importlib.util
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import fabric
import numpy as np
import pytest
from real_jobs import Job, Talk, digest, fork_and_scribble, sums

import byteps.numpy as bps

pytestmark = pytest.mark.skipif(
    not fabric.is_here(), reason="this is not the virtual machine of the lane `rdma`"
)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[object]:
    """Makes jobs, and ends them; repairs the network."""
    jobs: list[Job] = []

    def make_job(transport: str = "rdma", **options: str) -> Job:
        folder = tmp_path / str(len(jobs))
        folder.mkdir()
        jobs.append(Job(folder, transport, **options))
        return jobs[-1]

    yield make_job
    for job in jobs:
        job.end()
    for host in fabric.HOSTS:
        fabric.pass_rdma(host)
        fabric.plug_cable(host)


def started(make, transport: str = "rdma", program=sums, **options: str) -> Job:
    job = make(transport, **options)
    job.start_services()
    job.start_workers(program)
    return job


def running(make, **options: str) -> Job:
    """Return a job whose tensors go over RDMA."""
    job = started(make, **options)
    before = fabric.packets()
    job.run(3)
    assert fabric.packets() - before > 100, job.all_said()
    return job


# ---- the same bits ----


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return the images of scikit-learn's digits; its import would take long here."""
    found = importlib.util.find_spec("sklearn")
    assert found is not None
    assert found.origin is not None
    with gzip.open(Path(found.origin).parent / "datasets/data/digits.csv.gz") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    return table[:, :-1] / 16, table[:, -1].astype(int)


def train(talk: Talk) -> None:
    """Train a network with one hidden layer on this rank's half of the digits."""
    bps.init()
    images, labels = digits()
    images, labels = images[bps.rank() :: 2], labels[bps.rank() :: 2]
    draw = np.random.default_rng(0)
    weights = [draw.normal(0, 0.1, shape).astype(np.float32) for shape in ((64, 1024), (1024, 10))]
    for step in range(talk.wanted()):
        batch = slice(step * 32 % 864, step * 32 % 864 + 32)
        hidden = np.maximum(images[batch] @ weights[0], 0)
        scores = hidden @ weights[1]
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        scores /= scores.sum(axis=1, keepdims=True)
        wrong = scores - np.eye(10, dtype=np.float32)[labels[batch]]
        back = (wrong @ weights[1].T) * (hidden > 0)
        gradients = [images[batch].T @ back / 32, hidden.T @ wrong / 32]
        means = bps.grouped_allreduce(gradients, name="gradients", op=bps.Average)
        weights = [w - np.float32(0.3) * m for w, m in zip(weights, means, strict=True)]
    right = (np.maximum(images @ weights[0], 0) @ weights[1]).argmax(axis=1) == labels
    talk.say(f"digest {digest(weights)} {right.mean():.3f}")
    bps.shutdown()


def weights_of(make, transport: str, steps: int) -> set[str]:
    """Train over a transport, and return what the workers ended with."""
    job = started(make, transport, train)
    for worker in job.workers:
        worker.want(steps)
    for worker in job.workers:
        worker.wait_for_line("digest ")
    job.stop(workers=())
    assert all(worker.wait() == 0 for worker in job.workers), job.all_said()
    said = job.said("worker 0") + job.said("server 1")
    assert ("tensors go over rdma rxe" in said) == (transport == "rdma"), said
    ends = [worker.lines[-1].split() for worker in job.workers]
    assert all(float(end[2]) > 0.7 for end in ends), ends
    return {end[1] for end in ends}


def test_weights_are_those_of_a_training_over_tcp(make) -> None:
    before = fabric.packets()
    over_tcp = weights_of(make, "tcp", 30)
    assert fabric.packets() == before
    over_rdma = weights_of(make, "rdma", 30)
    assert fabric.packets() - before > 1000
    assert len(over_tcp) == 1
    assert over_rdma == over_tcp


def test_all_four_devices_carry_tensors(make) -> None:
    before = [fabric.packets_of(host) for host in fabric.HOSTS]
    job = running(make)
    after = [fabric.packets_of(host) for host in fabric.HOSTS]
    assert all(y - x > 20 for x, y in zip(before, after, strict=True)), (before, after)
    for number in (0, 1):
        assert f"tensors go over rdma rxe{1 + number}" in job.said(f"worker {number}")
        assert f"tensors go over rdma rxe{3 + number}" in job.said(f"server {number}")
    job.stop()


# ---- processes that die or stand still ----


def test_the_job_goes_on_when_a_server_is_killed(make) -> None:
    job = running(make)
    job.begin(20)
    job.wait(before_end=18)
    job.kill("server 1")
    job.wait()
    before = fabric.packets()
    job.run(3)
    assert fabric.packets() > before + 50, "the other server's connections are still RDMA"
    job.stop(services=("server 0", "scheduler"))


def test_the_other_worker_goes_on_when_one_is_killed(make) -> None:
    """The worker kills itself, so it dies for sure while its tensor is on the way."""
    job = running(make, BYTEPS_MIN_WORKERS="1", TEST_DIES_IN="8")
    job.begin(20)
    job.wait(workers=[0])
    assert job.workers[1].wait() == -signal.SIGKILL
    assert job.workers[0].lines[-1] == f"round {job.rounds} of 1"
    before = fabric.packets()
    job.run(3, workers=[0])
    assert fabric.packets() > before + 50
    job.stop(workers=[0])


def test_a_scheduler_that_is_killed_and_started_again_is_not_missed(make) -> None:
    job = running(make)
    job.begin(20)
    job.wait(before_end=18)
    job.kill("scheduler")
    job.start_scheduler()
    job.wait()
    job.run(3)
    job.stop()


def test_a_server_that_stands_still_for_5_s_does_no_harm(make) -> None:
    job = running(make)
    job.begin(20)
    job.wait(before_end=18)
    job.services["server 0"].send_signal(signal.SIGSTOP)
    time.sleep(5)
    job.services["server 0"].send_signal(signal.SIGCONT)
    job.wait()
    job.run(3)
    job.stop()


def test_a_worker_that_stands_still_for_5_s_is_waited_for(make) -> None:
    job = running(make, BYTEPS_EVICTION_TIMEOUT_MS="60000", BYTEPS_HEARTBEAT_TIMEOUT_MS="60000")
    job.begin(20)
    job.wait(before_end=18)
    job.workers[1].kill(signal.SIGSTOP)
    time.sleep(5)
    job.workers[1].kill(signal.SIGCONT)
    job.wait()
    job.run(3)
    job.stop()


# ---- ways that break ----


def test_the_job_goes_on_when_the_link_of_a_server_is_down(make) -> None:
    job = running(make)
    job.begin(20)
    job.wait(before_end=18)
    fabric.pull_cable(4)
    job.wait()
    before = [fabric.packets_of(host) for host in (3, 4)]
    job.run(3)
    after = [fabric.packets_of(host) for host in (3, 4)]
    assert after[0] > before[0] + 20, "the other link still carries RDMA"
    fabric.plug_cable(4)
    job.run(3)
    for number in (0, 1):
        job.workers[number].want(0)
    assert [worker.wait() for worker in job.workers] == [0, 0], job.all_said()


def test_the_job_goes_on_over_tcp_when_a_firewall_begins_to_drop_rdma(make) -> None:
    job = running(make)
    job.begin(20)
    job.wait(before_end=18)
    for host in fabric.HOSTS:
        fabric.drop_rdma(host)
    job.wait()
    before = fabric.packets()
    job.run(3)
    assert fabric.packets() - before < 50, "tensors go over TCP"
    job.stop()


def test_a_firewall_at_the_start_ends_the_start_of_a_job_that_needs_rdma(make) -> None:
    for host in fabric.HOSTS:
        fabric.drop_rdma(host)
    job = started(make)
    assert [worker.wait() for worker in job.workers] == [1, 1], job.all_said()
    # Whoever notices first says why: a worker, or a server, which then closes its connections.
    assert "UDP port 4791" in job.all_said()


def test_a_firewall_at_the_start_leaves_a_job_with_auto_on_tcp(make) -> None:
    for host in fabric.HOSTS:
        fabric.drop_rdma(host)
    job = started(make, "auto", BYTEPS_RDMA_DEVICES="rxe1,rxe2,rxe3,rxe4")
    job.run(3)
    deadline = time.monotonic() + 60
    while "UDP port 4791" not in job.said("worker 0"):
        assert time.monotonic() < deadline, job.all_said()
        time.sleep(0.1)
    job.run(3)
    assert "tensors go over rdma" not in job.all_said()
    job.stop()


# ---- devices that do not serve ----


def test_auto_leaves_rdma_in_software_alone(make) -> None:
    before = fabric.packets()
    job = started(make, "auto")
    job.run(10)
    assert fabric.packets() == before
    assert "rxe" not in job.all_said()
    job.stop()


def test_a_device_that_has_another_address_does_not_serve(make) -> None:
    job = started(make, "auto", BYTEPS_RDMA_DEVICES="rxe1,rxe3,rxe4")
    job.run(5)
    text = "no RDMA device has the address 10.20.0.2 (RoCE v2): rxe1:1, rxe3:1, rxe4:1"
    assert text in job.said("worker 1"), job.all_said()
    assert "tensors go over rdma rxe1" in job.said("worker 0"), job.all_said()
    job.stop()


ORDINARY_USER = (
    *("prlimit", "--memlock=65536"),
    # The files of this machine may belong to root alone.
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-ipc_lock"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
)


def test_an_ordinary_user_who_may_lock_64_kb_stays_on_tcp_and_hears_why(make) -> None:
    job = make("auto", BYTEPS_RDMA_DEVICES="rxe1,rxe2,rxe3,rxe4")
    job.start_services(ORDINARY_USER)
    job.start_workers()
    job.run(5)
    said = job.said("server 0")
    assert "ulimit -l" in said, job.all_said()
    assert "tensors go over rdma" not in job.all_said()
    job.stop()


def test_a_process_without_dev_infiniband_hears_what_its_container_needs(make) -> None:
    job = make()
    hide = 'mount -t tmpfs none /dev/infiniband && exec "$0" "$@"'
    job.start_server(0, ("unshare", "--mount", "bash", "-c", hide))
    assert job.services["server 0"].wait(60) == 1, job.all_said()
    assert "/dev/infiniband" in job.said("server 0")


# ---- fork ----


def forks(talk: Talk) -> None:
    """Sums while children of this process come and go."""
    bps.init()
    talk.wanted()
    for step in range(12):
        data = np.full(200_000, step + bps.rank(), np.float32)
        handle = bps.push_pull_async(data, name="data", average=False)
        fork_and_scribble()
        total = bps.synchronize(handle)
        assert (total == 2 * step + 1).all(), np.unique(total)
    talk.say("done")
    bps.shutdown()


def test_children_of_a_worker_do_no_harm(make) -> None:
    before = fabric.packets()
    job = started(make, program=forks)
    for worker in job.workers:
        worker.want(1)
    for worker in job.workers:
        worker.wait_for_line("done")
    assert fabric.packets() - before > 500
    job.stop(workers=())
    assert [worker.wait() for worker in job.workers] == [0, 0]


# ---- the measurement that docs/rdma.md asks for ----


def test_the_measurement_between_two_hosts_runs_over_a_device(tmp_path: Path) -> None:
    """The command of people with cards, with one device for their card and this host as the other.

    fake_ssh.py starts the server here. The figures mean nothing in an emulated machine.
    """
    bench = fabric.REPOSITORY / "bench" / "rdma.py"
    ssh = f"{sys.executable} {fabric.REPOSITORY}/tests/python/fake_ssh.py --"
    words = ["--device", "rxe1", "--peer", fabric.address(3), "--ssh", ssh, "--mb", "1"]
    before = fabric.packets_of(1), fabric.packets_of(3)
    done = subprocess.run(
        [sys.executable, str(bench), *words, "--rounds", "5", "--json", str(tmp_path / "figures")],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert fabric.packets_of(1) > before[0] + 500
    assert fabric.packets_of(3) > before[1] + 500
    figures = json.loads((tmp_path / "figures").read_text())
    assert figures["rdma"]["digest"] == figures["tcp"]["digest"]
    for transport in ("tcp", "rdma"):
        assert figures[transport]["MB_per_s"] > 0
        assert "server_sleeps_per_GB" in figures[transport]
