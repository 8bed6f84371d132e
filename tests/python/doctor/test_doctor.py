"""`bps doctor`: what it measures, what it says, and that nothing of it is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
import uuid

import pytest
import torch_jobs
from processes import LIMIT_S, TOKEN_VARIABLE, carriers, free_ports, wait_for_line, wait_until_gone

from byteps.cli.doctor import long_paths, machine, report, scheduler_check, software, wire
from byteps.cli.doctor.remote import RemoteAgent
from byteps.cli.doctor.survey import Link, Survey, bottleneck
from byteps.cli.main import main
from byteps.common.errors import InvalidArgumentError, UnavailableError

HERE = "127.0.0.1"


@pytest.fixture
def responder():
    responder = wire.Responder("token")
    yield responder
    responder.close()


def test_two_ends_measure_a_link(responder) -> None:
    assert wire.round_trip_us(HERE, responder.port, "token") > 0
    assert wire.send_rate_mbit(HERE, responder.port, "token", 0.2) > 0


def test_a_stream_that_begins_late_is_measured(monkeypatch) -> None:
    moments = iter([0.0, 9.0, 9.25])
    monkeypatch.setattr(wire, "time", types.SimpleNamespace(perf_counter=lambda: next(moments)))
    counts = iter([1 << 20, 1 << 18, 0])
    said: list[bytes] = []
    connection = types.SimpleNamespace(
        recv_into=lambda buffer: next(counts), sendall=said.append, shutdown=lambda how: None
    )
    wire._take(connection, 0.2)
    assert json.loads(b"".join(said)) == {"mbit": (1 << 18) * 8 / 0.25 / 1e6}


def test_a_stranger_gets_nothing(responder) -> None:
    with pytest.raises(ConnectionError):
        wire.round_trip_us(HERE, responder.port, "guess")
    with pytest.raises(ConnectionError):
        wire.send_rate_mbit(HERE, responder.port, "guess", 0.2)


def test_a_port_without_a_listener_is_explained() -> None:
    (port,) = free_ports(1)
    with pytest.raises(ConnectionRefusedError) as refused:
        wire.round_trip_us(HERE, port, "token")
    text = wire.explain(refused.value, HERE, port)
    assert text == f"{HERE} refuses port {port}: nothing listens there, or a firewall rejects it"
    assert "name server" in wire.explain(_no_such_name(), "nowhere", 1)
    assert "firewall" in wire.explain(TimeoutError(), "far", 1)


def _no_such_name() -> OSError:
    import socket

    return socket.gaierror(-2, "Name or service not known")


def survey(slow: float = 900.0, shard: float = 2000.0, problem: str = "") -> Survey:
    links = [Link("a", "b", 50.0, 950.0, 940.0), Link("b", "a", 50.0, slow, 890.0, problem)]
    return Survey(links=links, sum_mbit={"a": 3000.0, "b": shard})


def test_the_bottleneck_has_a_name() -> None:
    assert bottleneck(survey()) == "the link from b to a: it carries 900 Mbit/s"
    server = bottleneck(survey(shard=400.0))
    assert server.startswith("the server of b: one shard takes in 400 Mbit/s")
    assert server.endswith("BYTEPS_SERVER_SHARDS=3 gives it 3 threads")
    assert bottleneck(survey(problem="refused")).startswith("b cannot reach a")
    assert bottleneck(Survey()) == "unknown: nothing could be measured"


def test_small_limits_are_named() -> None:
    found = {**machine.facts(), "descriptors": 256, "shared_memory_bytes": 1 << 20}
    found["address_outwards"] = None
    (text,) = machine.warnings(found)
    assert "ulimit -n" in text
    memory, network = machine.notes(found)  # jobs run all the same
    assert "--shm-size" in memory
    assert "no route" in network


def test_a_long_path_says_what_tcp_does_there_and_what_caps_it(tmp_path) -> None:
    kernel = tmp_path / "proc/sys/net/ipv4"
    kernel.mkdir(parents=True)
    (kernel / "tcp_wmem").write_text("4096\t16384\t4194304\n")
    (kernel / "tcp_rmem").write_text("4096\t131072\t6291456\n")
    found = {"congestion_control": "cubic", **long_paths.facts(tmp_path)}
    found["long_path_congestion"] = False
    text = long_paths.warning("b", 50_000.0, found)
    assert "the path to b takes 50 ms" in text
    assert "cubic carries a small part" in text
    assert "tcp_allowed_congestion_control='reno cubic bbr'" in text
    assert long_paths.warning("b", 4_999.0, found) == ""
    assert long_paths.warning("b", 50_000.0, {**found, "long_path_congestion": True}) == ""
    hosts = {"a": {"machine": found}, "b": {"machine": found}}
    links = [Link("a", "b", 50_000.0, 300.0, 300.0), Link("b", "a", 200.0, 300.0, 300.0)]
    lines = report.describe_survey(Survey(hosts=hosts, links=links))
    told = [line for line in lines if line.startswith("long path")]
    assert len(told) == 1
    assert "from a to b: jobs use cubic" in told[0]
    assert "one connection carry 671 Mbit/s" in told[0]
    assert long_paths.facts(tmp_path / "nothing")["tcp_send_bytes"] is None


def test_what_is_needed_and_missing_is_named() -> None:
    frameworks = dict.fromkeys(software.FRAMEWORKS) | {"torch": "2.13.0", "tensorflow": None}
    found = {"frameworks": frameworks}
    assert software.lacks(["torch", "TLS", "tcp"], found) == []
    assert software.lacks(["tensorflow", "UCX", "torhc"], found) == ["tensorflow", "UCX", "torhc"]


def test_libraries_are_found_where_the_loader_looks(tmp_path, monkeypatch) -> None:
    (tmp_path / "libcuda.so.1").write_bytes(b"")
    (tmp_path / "libnccl.so.2").write_bytes(b"")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{tmp_path}")
    monkeypatch.setattr(software, "_loader_cache", dict)
    found = software.libraries()
    assert found["CUDA driver"] == str(tmp_path / "libcuda.so.1")
    assert found["NCCL"] == str(tmp_path / "libnccl.so.2")
    assert found["verbs"] is None


def test_a_server_program_that_is_missing_is_named(tmp_path, monkeypatch) -> None:
    for name in ("bps-server", "bps-scheduler"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("BYTEPS_PROGRAM_DIR", str(tmp_path))
    found = software.facts()
    assert found["programs"]["server"] == str(tmp_path / "bps-server")  # type: ignore[index]
    (tmp_path / "bps-server").unlink()
    found = software.facts()
    assert found["programs"]["server"] is None  # type: ignore[index]
    assert "BYTEPS_PROGRAM_DIR" in str(software.warnings(found))


def test_the_build_is_shown_as_horovodrun_shows_it() -> None:
    frameworks = dict.fromkeys(software.FRAMEWORKS) | {"torch": "2.13.0"}
    found = {
        "version": "1.2.3",
        "frameworks": frameworks,
        "adapters": ["torch", "jax"],
        "features": software.features(),
    }
    lines = report.check_build(found)
    assert lines[0] == "BytePS v1.2.3:"
    assert "Available Frameworks:" in lines
    assert "    [X] PyTorch" in lines
    assert "    [ ] JAX" in lines  # there is a module, and no JAX
    assert "    [X] BytePS" in lines


@pytest.mark.parametrize("text", ["host", "host:", "host:0", "host:70000", ":9000", "host:x"])
def test_what_is_no_address_is_refused(text) -> None:
    with pytest.raises(InvalidArgumentError, match="HOST:PORT"):
        scheduler_check.parse(text)


def test_addresses_of_schedulers() -> None:
    assert scheduler_check.parse("10.0.0.1:9000") == ("10.0.0.1", 9000)
    assert scheduler_check.parse("[fd00::2]:9000") == ("fd00::2", 9000)


@pytest.mark.parametrize(
    ("shell", "limit_s", "words"),
    [
        ("sh -c 'echo no such key >&2; exit 255'", LIMIT_S, "exit code 255, no such key"),
        ("sh -c 'echo Welcome; sleep 1000'", 5, "'Welcome', which is no answer of a doctor"),
    ],
)
def test_a_host_without_a_doctor_is_named(shell, limit_s, words) -> None:
    agent = RemoteAgent("far", shell)
    try:
        with pytest.raises(UnavailableError, match="far") as error:
            agent.ask("facts", limit_s)
        assert words in str(error.value)
    finally:
        agent.close()


def test_a_shell_that_is_not_there_is_named() -> None:
    with pytest.raises(UnavailableError, match="no-such-shell"):
        RemoteAgent("far", "no-such-shell")


def doctor(*arguments: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "byteps.cli", "doctor", *arguments],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.fixture
def environment():
    token = uuid.uuid4().hex
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DMLC_", "BYTEPS_"))}
    yield {**kept, TOKEN_VARIABLE: token}
    assert wait_until_gone(carriers(token)) == {}


def test_check_build_has_horovods_spelling_too(capsys) -> None:
    for flag in ("--check-build", "-cb"):
        with pytest.raises(SystemExit) as end:
            main([flag])
        assert end.value.code == 0
        assert "Available Tensor Operations:" in capsys.readouterr().out


@torch_jobs.needs_torch
def test_two_hosts_are_examined_behind_one_that_does_not_answer(environment, tmp_path) -> None:
    shell = tmp_path / "rsh"
    shell.write_text(
        '#!/bin/sh\n[ "$1" = away ] && echo "away: no route" >&2 && exit 255\nshift\nexec "$@"\n'
    )
    shell.chmod(0o755)
    hosts = ("127.0.0.1", "127.0.0.2")
    options = ("--json", "--seconds", "0.2", "--rsh", str(shell))
    named = ",".join(f"{host}:3" for host in ("away", *hosts))
    done = doctor("--hosts", named, *options, environment=environment)
    assert done.stdout, done.stderr
    everything = json.loads(done.stdout)
    assert "set BYTEPS_SUM_GROUP=3" in everything["sums"]["text"]
    assert done.returncode == 1
    assert "no doctor runs on away: exit code 255, away: no route" in everything["problems"]
    assert everything["problems"][-1] == "1 of 3 hosts could not be examined: away"
    found = everything["survey"]
    assert set(found["hosts"]) == set(hosts)
    assert [(link["source"], link["target"]) for link in found["links"]] == [hosts, hosts[::-1]]
    for link in found["links"]:
        assert link["problem"] == "", found["problems"]
        assert link["round_trip_us"] > 0
        assert link["socket_mbit"] > 0
        assert link["push_pull_mbit"] > 0, found["problems"]
    assert all(found["sum_mbit"][host] > 0 for host in hosts), found["problems"]
    assert found["bottleneck"].startswith(("the link from 127.0.0.", "the server of 127.0.0."))


@torch_jobs.needs_torch
def test_a_scheduler_is_told_from_another_program(environment) -> None:
    (port,) = free_ports(1)
    job = {
        "DMLC_ROLE": "scheduler",
        "DMLC_PS_ROOT_URI": HERE,
        "DMLC_PS_ROOT_PORT": str(port),
        "DMLC_NUM_WORKER": "2",
        "DMLC_NUM_SERVER": "1",
        "BYTEPS_LOG_LEVEL": "info",
    }
    script = "from byteps.common.job.executables import exec_program; exec_program('scheduler')"
    scheduler = subprocess.Popen(
        [sys.executable, "-c", script],
        env=environment | job,
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        wait_for_line(scheduler, "listening on")
        found = look_for(port, environment)
        assert found["round_trip_us"] > 0
        assert "problem" not in found, found
    finally:
        scheduler.kill()
        scheduler.communicate(timeout=LIMIT_S)
    assert "refuses port" in look_for(port, environment)["problem"]


def look_for(port: int, environment: dict[str, str]) -> dict[str, object]:
    """Return what a doctor finds at a port."""
    done = doctor("--json", "--scheduler", f"{HERE}:{port}", environment=environment)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)["scheduler"]
