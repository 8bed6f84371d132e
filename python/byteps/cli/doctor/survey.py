"""Asks the agents of all hosts, and names what limits a job on them."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from byteps.cli.doctor import long_paths, machine, rdma, software
from byteps.cli.doctor.remote import START_S, RemoteAgent
from byteps.common.errors import UnavailableError

_MARGIN_S = 90.0
_PORTS_NEEDED = 3  # for the doctor's own connections, a scheduler and a server


@dataclass
class Link:
    """One direction between two hosts. What could not be measured is None."""

    source: str
    target: str
    round_trip_us: float | None = None
    socket_mbit: float | None = None  # plain bytes over one connection
    push_pull_mbit: float | None = None  # tensors, while their sums come back
    problem: str = ""
    rdma_mbit: float | None = None  # as push_pull_mbit, if both hosts have a card for RDMA


@dataclass
class Survey:
    """All that was found."""

    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    sum_mbit: dict[str, float] = field(default_factory=dict)  # by host, for one shard
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)  # hosts that do not answer, or not any more
    bottleneck: str = ""

    def plain(self) -> dict[str, Any]:
        """Return it as values for JSON."""
        return asdict(self)


def examine(
    agents: Sequence[RemoteAgent], seconds: float, ports: range, say: Callable[[str], None]
) -> Survey:
    """Ask everything of everybody; `say` hears what is going on.

    `ports`: where a firewall lets the hosts listen for each other; empty: anywhere.
    """
    survey = Survey()
    token = secrets.token_hex(16)
    for agent in agents:
        agent.tell("facts")
    for agent in agents:
        _hear(agent, survey)
    for agent in _there(agents, survey):
        _describe(agent, token, ports[0] if ports else 0, survey)
    _compare_versions(survey)
    for source in agents:
        for target in agents:
            if source is not target and _are_there(survey, source, target):
                survey.links += _reach(source, target, survey)
    for link in _ring(survey.links, [agent.host for agent in _there(agents, survey)]):
        if not link.problem:
            say(f"measuring the link from {link.source} to {link.target}")
            _measure(link, {agent.host: agent for agent in agents}, seconds, ports, survey)
    for agent in _there(agents, survey):
        say(f"measuring the server of {agent.host}")
        answer = _ask(survey, agent, "sum_rate", _MARGIN_S + 4 * seconds, seconds=seconds)
        rate = _value(survey, f"{agent.host}: its server", answer, "mbit")
        if rate:
            survey.sum_mbit[agent.host] = rate
    if 0 < len(ports) < _PORTS_NEEDED:
        survey.notes.append(
            f"no tensors were sent between hosts, which needs {_PORTS_NEEDED} ports: "
            "--ports FIRST-LAST, as of bps run"
        )
    survey.bottleneck = bottleneck(survey)
    if survey.left_out:
        survey.problems.append(
            f"{len(survey.left_out)} of {len(agents)} hosts could not be examined: "
            f"{', '.join(survey.left_out)}"
        )
    return survey


def _there(agents: Sequence[RemoteAgent], survey: Survey) -> list[RemoteAgent]:
    """Return the agents that answer."""
    return [agent for agent in agents if _are_there(survey, agent)]


def _are_there(survey: Survey, *agents: RemoteAgent) -> bool:
    return not any(agent.host in survey.left_out for agent in agents)


def _leave_out(survey: Survey, agent: RemoteAgent, why: UnavailableError) -> None:
    """Go on without a host. Its reason is a problem, once."""
    survey.problems.append(str(why))
    survey.left_out.append(agent.host)


def _hear(agent: RemoteAgent, survey: Survey) -> None:
    """Take what a host says of itself."""
    try:
        answer = agent.answer()
        if "error" in answer:
            raise UnavailableError(f"{agent.host} cannot tell what it has: {answer['error']}")
        survey.hosts[agent.host] = answer
    except UnavailableError as error:
        _leave_out(survey, agent, error)


def _describe(agent: RemoteAgent, token: str, port: int, survey: Survey) -> None:
    """Note what hurts on a host, and let it listen for the others."""
    facts = survey.hosts[agent.host]
    survey.problems += _host_problems(agent.host, facts)
    survey.notes += [f"{agent.host}: {text}" for text in machine.notes(facts["machine"])]
    answer = _ask(survey, agent, "listen", token=token, on=port)
    agent.port = _value(survey, agent.host, answer, "port")


def _ask(
    survey: Survey, agent: RemoteAgent, do: str, limit_s: float = START_S, **order: Any
) -> dict[str, Any]:
    """Ask a host; return an empty answer if it does not answer, or did not before."""
    if not _are_there(survey, agent):
        return {}
    try:
        return agent.ask(do, limit_s, **order)
    except UnavailableError as error:
        _leave_out(survey, agent, error)
        return {}


def cards(survey: Survey, host: str) -> list[str]:
    """Return the ports of cards for RDMA that a job on a host can use, with their rates."""
    return rdma.card_rates(survey.hosts[host].get("rdma", {}))


def bottleneck(survey: Survey) -> str:
    """Return what limits a job with a worker and a server on each of these hosts, by name."""
    broken = [link for link in survey.links if link.problem]
    if broken:
        return f"{broken[0].source} cannot reach {broken[0].target}: no job can run on these hosts"
    links = [link for link in survey.links if link.socket_mbit is not None]
    slowest = min(links, key=lambda link: link.socket_mbit or 0.0, default=None)
    weakest = min(survey.sum_mbit, key=lambda host: survey.sum_mbit[host], default=None)
    if weakest is not None and (
        slowest is None or survey.sum_mbit[weakest] < (slowest.socket_mbit or 0.0)
    ):
        rate = survey.sum_mbit[weakest]
        text = f"the server of {weakest}: one shard takes in {rate:.0f} Mbit/s"
        if slowest is None or slowest.socket_mbit is None:
            return text
        shards = math.ceil(slowest.socket_mbit / rate)
        return (
            f"{text}, and the slowest link carries {slowest.socket_mbit:.0f}; "
            f"BYTEPS_SERVER_SHARDS={shards} gives it {shards} threads"
        )
    if slowest is None:
        return "unknown: nothing could be measured"
    return (
        f"the link from {slowest.source} to {slowest.target}: it carries "
        f"{slowest.socket_mbit:.0f} Mbit/s"
    )


def _ring(links: Sequence[Link], hosts: Sequence[str]) -> list[Link]:
    """Return the links of each host to the next one and back: bandwidth of all would take long."""
    pairs = {(hosts[i], hosts[(i + 1) % len(hosts)]) for i in range(len(hosts))}
    return [
        link
        for link in links
        if (link.source, link.target) in pairs or (link.target, link.source) in pairs
    ]


def _reach(source: RemoteAgent, target: RemoteAgent, survey: Survey) -> list[Link]:
    """Return the link to a host; none if nobody answers at this end of it."""
    link = Link(source.host, target.host)
    answer = _ask(survey, source, "reach", host=target.address, port=target.port)
    if not answer:
        return []
    link.round_trip_us = answer.get("round_trip_us")
    link.problem = answer.get("error", "")
    if link.problem:
        survey.problems.append(f"from {source.host} to {target.host}: {link.problem}")
    elif link.round_trip_us is not None:
        facts = survey.hosts[source.host]["machine"]
        text = long_paths.warning(target.host, link.round_trip_us, facts)
        survey.problems += [f"{source.host}: {text}"] if text else []
    return [link]


def _measure(
    link: Link, agents: dict[str, RemoteAgent], seconds: float, ports: range, survey: Survey
) -> None:
    source, target = agents[link.source], agents[link.target]
    limit_s = _MARGIN_S + 4 * seconds
    name = f"{link.source} to {link.target}"
    where = {"host": target.address, "port": target.port}
    answer = _ask(survey, source, "stream", limit_s, seconds=seconds, **where)
    link.socket_mbit = _value(survey, name, answer, "mbit") or None
    if link.socket_mbit is None or 0 < len(ports) < _PORTS_NEEDED:
        return
    services = {"here": target.address, "on": list(ports[1:_PORTS_NEEDED])}
    link.push_pull_mbit = _exchange(link, agents, {**services, "transport": "tcp"}, seconds, survey)
    if all(cards(survey, host) for host in (link.source, link.target)):
        over_rdma = {**services, "transport": "rdma"}
        link.rdma_mbit = _exchange(link, agents, over_rdma, seconds, survey)


def _exchange(
    link: Link,
    agents: dict[str, RemoteAgent],
    services: dict[str, Any],
    seconds: float,
    survey: Survey,
) -> float | None:
    """Return the rate of tensors in a job over a link, or None; note why there is none."""
    source, target = agents[link.source], agents[link.target]
    over = " over RDMA" if services["transport"] == "rdma" else ""
    name = f"{link.source} to {link.target}{over}"
    settings = _value(survey, name, _ask(survey, target, "serve", **services), "settings")
    if not settings:
        return None
    order = {"settings": settings, "expected_mbit": link.socket_mbit, "seconds": seconds}
    answer = _ask(survey, source, "push_pull", _MARGIN_S + 4 * seconds, **order)
    mbit = _value(survey, f"tensors from {name}", answer, "mbit") or None
    _ask(survey, target, "end_job")
    return mbit


def _value(survey: Survey, what: str, answer: dict[str, Any], key: str) -> Any:
    """Return a value of an answer, or 0; note the error of an answer that has one."""
    if "error" in answer:
        survey.problems.append(f"{what}: {answer['error']}")
    return answer.get(key, 0)


def _host_problems(host: str, facts: dict[str, Any]) -> list[str]:
    texts = machine.warnings(facts["machine"]) + software.warnings(facts["software"])
    return [f"{host}: {text}" for text in texts]


def _compare_versions(survey: Survey) -> None:
    versions = {host: facts["software"]["version"] for host, facts in survey.hosts.items()}
    if len(set(versions.values())) > 1:
        said = ", ".join(f"{host} {version}" for host, version in sorted(versions.items()))
        survey.problems.append(f"the hosts have different versions: {said}; install one on all")
