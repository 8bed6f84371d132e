"""How `bps doctor` looks at several hosts, and what its agents do there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from test_doctor_parts import MACHINE, SOFTWARE, raises

from byteps.cli.doctor import agent, remote, report, scheduler_check, small_job, survey, wire
from byteps.cli.doctor.survey import Link, Survey, bottleneck, examine
from byteps.common.errors import InvalidArgumentError, UnavailableError


class Raising:
    """Raises whenever it is called."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __call__(self, *arguments: Any) -> Any:
        raise self._error


class FakeAgent:
    """Answers as a host would; keeps the orders."""

    def __init__(self, host: str, **answers: dict[str, Any]) -> None:
        self.host = host
        self.address = f"10.0.0.{host}"
        self.port = 0
        self.orders: list[dict[str, Any]] = []
        self._answers: dict[str, dict[str, Any]] = {
            "facts": {"machine": MACHINE, "software": SOFTWARE},
            "listen": {"port": 5000 + ord(host)},
            "reach": {"round_trip_us": 50.0},
            "stream": {"mbit": 900.0},
            "serve": {"settings": [f"root_host={host}"]},
            "push_pull": {"mbit": 800.0},
            "end_job": {},
            "sum_rate": {"mbit": 2000.0},
        } | answers

    def tell(self, do: str, **order: Any) -> None:
        self.orders.append({"do": do, **order})

    def answer(self, limit_s: float = 0) -> dict[str, Any]:
        answer: dict[str, Any] = self._answers[self.orders[-1]["do"]]
        return answer

    def ask(self, do: str, limit_s: float = 0, **order: Any) -> dict[str, Any]:
        self.tell(do, **order)
        return self.answer()

    def of(self, do: str) -> list[dict[str, Any]]:
        return [order for order in self.orders if order["do"] == do]


@pytest.fixture
def looked_at(monkeypatch):
    """Return a function that examines agents; of this machine's software nothing hurts."""
    monkeypatch.setattr(survey.software, "warnings", lambda found: found.get("hurts", []))

    def look(*agents: FakeAgent, ports: range = range(7000, 7003)) -> tuple[Survey, list[str]]:
        said: list[str] = []
        return examine(agents, 0.5, ports, said.append), said  # type: ignore[arg-type]

    return look


def test_every_pair_is_tried_and_neighbours_are_measured(looked_at) -> None:
    agents = [FakeAgent(host) for host in "abcd"]
    found, said = looked_at(*agents)
    pairs = [(link.source, link.target) for link in found.links]
    assert pairs == [(s, t) for s in "abcd" for t in "abcd" if s != t]
    assert all(link.round_trip_us == 50.0 for link in found.links)
    measured = {(link.source, link.target) for link in found.links if link.socket_mbit == 900.0}
    ring = {("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")}
    assert measured == ring | {(t, s) for s, t in ring}
    assert {(k.source, k.target) for k in found.links if k.push_pull_mbit == 800.0} == measured
    assert found.sum_mbit == dict.fromkeys("abcd", 2000.0)
    assert found.problems == []
    assert found.bottleneck.startswith("the link from")
    assert said.count("measuring the link from a to b") == 1
    assert said[-1] == "measuring the server of d"
    first = agents[0]
    assert first.of("listen")[0]["on"] == 7000
    tokens = {one.of("listen")[0]["token"] for one in agents}
    assert len(tokens) == 1
    assert len(tokens.pop()) >= 32
    assert first.of("reach")[0] == {"do": "reach", "host": "10.0.0.b", "port": 5000 + ord("b")}
    assert first.of("stream")[0] == {
        "do": "stream",
        "seconds": 0.5,
        "host": "10.0.0.b",
        "port": 5000 + ord("b"),
    }
    assert first.of("push_pull")[0] == {
        "do": "push_pull",
        "settings": ["root_host=b"],
        "expected_mbit": 900.0,
        "seconds": 0.5,
    }
    expected = {"do": "serve", "here": "10.0.0.a", "on": [7001, 7002], "transport": "tcp"}
    assert first.of("serve")[0] == expected
    assert len(first.of("end_job")) == len(first.of("serve")) == 2
    assert json.dumps(found.plain())


def test_a_firewall_that_lets_one_port_through_leaves_the_rate_of_bytes(looked_at) -> None:
    agents = [FakeAgent("a"), FakeAgent("b")]
    found, _ = looked_at(*agents, ports=range(7000, 7001))
    assert [(link.socket_mbit, link.push_pull_mbit) for link in found.links] == [(900.0, None)] * 2
    assert agents[0].of("serve") == []
    assert found.problems == []
    assert found.notes[-1].endswith("needs 3 ports: --ports FIRST-LAST, as of bps run")
    found, _ = looked_at(*agents, ports=range(0))
    assert found.links[0].push_pull_mbit == 800.0
    assert agents[0].of("listen")[-1]["on"] == 0
    assert agents[0].of("serve")[-1]["on"] == [], "where the system chooses"


def test_between_two_cards_tensors_go_over_rdma_too(looked_at) -> None:
    gid = {"index": 3, "address": "10.0.0.3", "kind": "RoCE v2", "interface": "eth1"}
    port = {
        "number": 1, "link": "Ethernet", "state": "ACTIVE", "rate": "100 Gb/sec", "gids": [gid]
    }  # fmt: skip
    card = {
        "library": "libibverbs.so.1",
        "devices": [{"name": "mlx5_0", "is_hardware": True, "ports": [port]}],
        "opened_by": ["uverbs0"],
        "locked_memory_bytes": None,
    }
    soft = {**card, "devices": [{"name": "rxe0", "is_hardware": False, "ports": [port]}]}
    told = {"machine": MACHINE, "software": SOFTWARE}
    a, b = (FakeAgent(host, facts={**told, "rdma": card}) for host in "ab")
    c = FakeAgent("c", facts={**told, "rdma": soft})
    found, _ = looked_at(a, b, c)
    assert {(k.source, k.target) for k in found.links if k.rdma_mbit == 800.0} == {
        ("a", "b"), ("b", "a")
    }  # fmt: skip
    assert sorted(one["transport"] for one in b.of("serve")) == ["rdma", "tcp", "tcp"]
    assert len(b.of("end_job")) == 3
    lines = report.describe_survey(found)
    assert lines[1].endswith("over RDMA")
    to_b, to_c = (line.split() for line in lines if line.startswith("a "))
    assert (to_b[-2:], to_c[-2:]) == (["800", "Mbit/s"], ["Mbit/s", "-"])
    assert "RDMA of a: mlx5_0:1, 100 Gb/sec" in lines
    assert not any(line.startswith("RDMA of c") for line in lines)


def test_an_error_over_rdma_is_a_problem_that_says_so(looked_at) -> None:
    link = Link("a", "b", socket_mbit=900.0)
    agents = {"a": FakeAgent("a", push_pull={"error": "no proof"}), "b": FakeAgent("b")}
    found = Survey(hosts={"a": {}, "b": {}})
    assert survey._exchange(link, agents, {"transport": "rdma"}, 0.5, found) is None
    assert found.problems == ["tensors from a to b over RDMA: no proof"]
    assert len(agents["b"].of("end_job")) == 1


def test_what_cannot_be_measured_is_a_problem_with_a_name(looked_at) -> None:
    no = {"error": "no"}
    found, said = looked_at(FakeAgent("a", reach=no), FakeAgent("b", stream=no, sum_rate=no))
    there, back = found.links
    assert (there.problem, there.socket_mbit) == ("no", None)
    assert "measuring the link from a to b" not in said
    assert (back.round_trip_us, back.socket_mbit, back.push_pull_mbit) == (50.0, None, None)
    assert found.sum_mbit == {"a": 2000.0}
    assert found.problems == ["from a to b: no", "b to a: no", "b: its server: no"]
    assert found.bottleneck == "a cannot reach b: no job can run on these hosts"


def test_tensors_that_do_not_come_through_leave_the_rate_of_bytes(looked_at) -> None:
    no = {"error": "no"}
    found, _ = looked_at(FakeAgent("a", push_pull=no), FakeAgent("b", serve=no))
    assert [link.socket_mbit for link in found.links] == [900.0, 900.0]
    assert [link.push_pull_mbit for link in found.links] == [None, 800.0]
    assert found.problems == ["a to b: no"]
    other, _ = looked_at(FakeAgent("a"), FakeAgent("b", push_pull=no))
    assert other.problems == ["tensors from b to a: no"]
    assert len(FakeAgent("b").of("end_job")) == 0


def test_hosts_that_listen_nowhere_and_what_hurts_there_are_named(looked_at) -> None:
    little = {**MACHINE, "descriptors": 5, "shared_memory_bytes": 0}
    hurts = {"machine": little, "software": {**SOFTWARE, "hurts": ["old"]}}
    newer = {"machine": MACHINE, "software": {**SOFTWARE, "version": "2.0"}}
    found, _ = looked_at(
        FakeAgent("a", facts=hurts), FakeAgent("b", facts=newer, listen={"error": "taken"})
    )
    assert found.problems[0].startswith("a: a process may open 5 descriptors")
    (note,) = found.notes
    assert note.startswith("a: /dev/shm has 0 MiB")
    assert found.problems[1:] == [
        "a: old",
        "b: taken",
        "the hosts have different versions: a 1.2.3, b 2.0; install one on all",
    ]


def test_a_host_that_cannot_be_asked_does_not_hide_the_others(looked_at, monkeypatch) -> None:
    away = FakeAgent("b")
    monkeypatch.setattr(away, "answer", Raising(UnavailableError("no doctor runs on b")))
    found, _ = looked_at(FakeAgent("a"), away, FakeAgent("c"))
    assert found.problems == ["no doctor runs on b", "1 of 3 hosts could not be examined: b"]
    assert [(link.source, link.target) for link in found.links] == [("a", "c"), ("c", "a")]
    assert all(link.socket_mbit for link in found.links)
    nobody, _ = looked_at(away)
    assert nobody.problems[0] == "no doctor runs on b"
    assert nobody.bottleneck.startswith("unknown")
    unsure, _ = looked_at(FakeAgent("a"), FakeAgent("b", facts={"error": "no /proc"}))
    assert unsure.problems[0] == "b cannot tell what it has: no /proc"
    assert unsure.left_out == ["b"]


class Dying(FakeAgent):
    """A host that goes away when it is given this order."""

    def __init__(self, host: str, at: str) -> None:
        super().__init__(host)
        self._at = at

    def ask(self, do: str, limit_s: float = 0, **order: Any) -> dict[str, Any]:
        if do == self._at:
            raise UnavailableError(f"no doctor runs on {self.host}")
        return super().ask(do, limit_s, **order)


@pytest.mark.parametrize("at", ["listen", "reach", "stream", "push_pull", "sum_rate"])
def test_a_host_that_goes_away_meanwhile_does_not_end_the_survey(looked_at, at) -> None:
    hosts = FakeAgent("a"), Dying("b", at), FakeAgent("c")
    found, said = looked_at(*hosts)
    assert found.problems.count("no doctor runs on b") == 1
    assert found.problems[-1] == "1 of 3 hosts could not be examined: b"
    assert set(found.sum_mbit) == {"a", "c"}
    measured = {(link.source, link.target) for link in found.links if link.push_pull_mbit}
    assert {("a", "c"), ("c", "a")} <= measured
    assert said[-1] == "measuring the server of c"
    orders = [order["do"] for order in hosts[1].orders]
    assert at not in orders


def test_the_bottleneck_is_the_weakest_part() -> None:
    equal = Survey(links=[Link("a", "b", 1.0, 900.0)], sum_mbit={"a": 900.0})
    assert bottleneck(equal) == "the link from a to b: it carries 900 Mbit/s"
    alone = Survey(links=[Link("a", "b", 1.0)], sum_mbit={"a": 900.0, "b": 800.0})
    assert bottleneck(alone) == "the server of b: one shard takes in 800 Mbit/s"
    weak = Survey(links=[Link("a", "b", 1.0, 900.0)], sum_mbit={"a": 450.0})
    assert "BYTEPS_SERVER_SHARDS=2 gives it 2 threads" in bottleneck(weak)
    assert "and the slowest link carries 900;" in bottleneck(weak)


# The parts of an agent.


def test_an_agent_answers_errors_too() -> None:
    hand = agent.Agent()
    refused = hand.answer({"do": "reach", "host": "127.0.0.1", "port": 1})
    assert refused["error"].startswith("127.0.0.1 refuses port 1:")
    hand._orders["facts"] = raises(OSError(28, "No space left on device"))
    assert hand.answer({"do": "facts"}) == {"error": "[Errno 28] No space left on device"}
    for error in (RuntimeError("no result"), ValueError("no number")):
        hand._orders["facts"] = raises(error)
        assert hand.answer({"do": "facts"}) == {"error": str(error)}
    assert hand.answer({"do": "end_job"}) == {}
    hand.close()


def test_an_agent_passes_the_token_that_it_was_told() -> None:
    first, second = agent.Agent(), agent.Agent()
    try:
        for one in (first, second):
            port = one.answer({"do": "listen", "token": "t", "on": 0})["port"]
        there = {"host": "127.0.0.1", "port": port}
        assert first.answer({"do": "reach", **there})["round_trip_us"] > 0
        assert first.answer({"do": "stream", "seconds": 0.2, **there})["mbit"] > 0
    finally:
        first.close()
        second.close()
    assert "error" in first.answer({"do": "reach", **there})


def test_a_tensor_fits_its_link() -> None:
    assert small_job.tensor_bytes(0.0) == 1 << 20
    assert small_job.tensor_bytes(1000.0) == 1000_000_000 // 8 // 4 // 64 * 64
    assert small_job.tensor_bytes(1e9) == 64 << 20


def test_a_small_job_inherits_no_job() -> None:
    mine = {"DMLC_ROLE": "x", "BYTEPS_JOB_ID": "x", "BYTEPS_PROGRAM_DIR": "/p", "PATH": "/bin"}
    assert small_job._clean(mine) == {"BYTEPS_PROGRAM_DIR": "/p", "PATH": "/bin"}


def test_a_worker_of_a_small_job_that_fails_says_why() -> None:
    worker = small_job.Worker(["role=nonsense"], 0, 1 << 20, 0.2)
    try:
        worker.tell()
        with pytest.raises(RuntimeError, match="nonsense"):
            worker.result()
    finally:
        worker.end()
    idle = small_job.Worker([], 0, 1 << 20, 0.2)
    idle.end()
    assert idle._process.poll() is not None


def test_the_command_of_an_agent_has_what_its_package_needs() -> None:
    words = ["py", "-m", "byteps.cli.doctor.agent"]
    assert remote._words("py", {"PYTHONPATH": "", "HOME": "/root"}) == words
    assert remote._words("py", {"PYTHONPATH": "/a b", "BYTEPS_PROGRAM_DIR": "/p"}) == [
        "env",
        "PYTHONPATH='/a b'",
        "BYTEPS_PROGRAM_DIR=/p",
        *words,
    ]


def test_answers_of_an_agent_come_in_order() -> None:
    other = remote.RemoteAgent("far", "sh -c 'read x; printf {}; echo; echo {\\\"a\\\":1}; read x'")
    try:
        assert other.ask("first") == {}
        assert other.answer() == {"a": 1}
        with pytest.raises(UnavailableError, match="far has not answered within 0 s"):
            other.answer(0.0)
    finally:
        other.close()
    assert other._process.poll() is not None


def test_other_hosts_reach_an_alias_of_ssh_at_its_address(tmp_path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\n[ $1 = -G ] && echo hostname 10.0.0.7; exit 0\n")
    ssh.chmod(0o755)
    for shell, address in ((str(ssh), "10.0.0.7"), ("sh -c true", "alias")):
        other = remote.RemoteAgent("me@alias", shell)
        other.close()
        assert (other.host, other.address) == ("me@alias", address)


def test_a_shell_that_greets_is_not_listened_to() -> None:
    other = remote.RemoteAgent("far", "sh -c 'read x; echo hello; echo; echo {}; echo x; read x'")
    try:
        assert other.ask("first") == {}
        with pytest.raises(UnavailableError, match="answered 'x', which is no answer"):
            other.answer()
    finally:
        other.close()


def test_an_agent_that_says_nothing_of_its_end() -> None:
    other = remote.RemoteAgent("far", "sh -c 'exit 3'")
    try:
        with pytest.raises(UnavailableError, match="exit code 3, it printed nothing"):
            other.answer()
    finally:
        other.close()


def test_borders_of_addresses_of_schedulers() -> None:
    assert scheduler_check.parse("a:65535") == ("a", 65535)
    for text in ("a:65536", "a:²", "[]:1"):
        with pytest.raises(InvalidArgumentError):
            scheduler_check.parse(text)


def test_other_errors_keep_their_words() -> None:
    assert wire.explain(OSError(113, "No route to host"), "a", 2) == "a, port 2: No route to host"
    assert wire.explain(OSError("odd"), "a", 2) == "a, port 2: odd"
