"""What the doctor has found, as text for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from byteps.cli.doctor import long_paths
from byteps.cli.doctor.software import FRAMEWORKS
from byteps.cli.doctor.survey import Link, Survey, cards

_LABEL_WIDTH = 14


def describe_software(found: Mapping[str, Any]) -> list[str]:
    """Return the lines about this build and what is installed."""
    features = found["features"]
    libraries = [
        f"{name} {'no' if place is None else place}" for name, place in found["libraries"].items()
    ]
    frameworks = {n: v for n, v in found["frameworks"].items() if v is not None}
    missing = [n for n in found["frameworks"] if n not in frameworks]
    devices = found["rdma_devices"]
    return [
        _line("byteps-cpp", f"{found['version']}, Python {found['python']}"),
        _line("adapters", ", ".join(found["adapters"])),
        _line("built in", ", ".join(n for n, there in features.items() if there)),
        _line("not built in", ", ".join(n for n, there in features.items() if not there)),
        _line("frameworks", ", ".join(f"{n} {v}" for n, v in frameworks.items()) or "none"),
        _line("not installed", ", ".join(missing) or "-"),
        _line("found here", "; ".join(libraries)),
        _line("devices", f"{found['gpus']} GPUs, RDMA: {', '.join(devices) or 'none'}"),
        _line("CUDA", _cuda(found["cuda"])),
        _line("NCCL", _nccl(found["nccl"])),
    ]


def _cuda(found: Mapping[str, Any]) -> str:
    """Return which GPUs the library reaches, or why none."""
    if not found["count"]:
        return f"tensors on a GPU go through host memory: {found['why_none']}"
    return f"driver {found['driver']}: {', '.join(found['names'])}"


def _nccl(found: Mapping[str, Any]) -> str:
    """Return which NCCL there is, or why none."""
    if not found["version"]:
        return f"none, and no job needs it: {found['why_none']}"
    return f"{found['text']} in {found['file']}"


def describe_machine(found: Mapping[str, Any]) -> list[str]:
    """Return the lines about this machine."""
    cores = f"{found['cores']} of {found['cores_of_machine']}"
    if found["cpu_limit"] is not None:
        cores += f", limited to {found['cpu_limit']:.1f}"
    addresses = [
        f"{entry['interface']} {' '.join(entry['addresses'])}" + _of_card(entry)
        for entry in found["addresses"]
    ]
    others = [n for n in found["congestion_controls"] if n != found["congestion_control"]]
    return [
        _line("machine", f"{found['host']}, {found['system']}"),
        _line("cores", cores),
        _line("NUMA nodes", _nodes(found)),
        _line(
            "limits",
            f"{_count(found['descriptors'])} descriptors, "
            f"{_bytes(found['locked_memory_bytes'])} locked memory, "
            f"{_bytes(found['shared_memory_bytes'])} free in /dev/shm",
        ),
        _line("addresses", "; ".join(addresses) or "the loopback alone"),
        _line("outwards", found["address_outwards"] or "no route"),
        _line("TCP", f"{found['congestion_control']} (also {', '.join(others) or 'nothing else'})"),
    ]


def describe_rdma(texts: Iterable[str]) -> list[str]:
    """Return the lines about RDMA."""
    return [_line("RDMA", text) for text in texts]


def describe_scheduler(found: Mapping[str, Any]) -> list[str]:
    """Return the lines about a scheduler."""
    lines = [_line("scheduler", f"{found['host']}, port {found['port']}")]
    if "round_trip_us" in found:
        lines.append(_line("connecting", f"{found['round_trip_us'] / 1000:.2f} ms"))
        lines.append(_line("from here", f"{found['address_here']} (a server announces it)"))
    if "problem" not in found:
        lines.append(_line("answer", "a scheduler of this version"))
    return lines


def describe_sums(found: Mapping[str, Any]) -> list[str]:
    """Return the line about the bits of sums."""
    return [_line("sums", found["text"])]


def describe_device_sums(text: str) -> list[str]:
    """Return the line about sums on the GPUs of this machine."""
    return [_line("sums on GPUs", f"with a rank for each GPU, {text}")]


def describe_survey(survey: Survey) -> list[str]:
    """Return the lines about several hosts."""
    with_rdma = any(link.rdma_mbit is not None for link in survey.links)
    titles = f"{'from':16} {'to':16} {'round trip':>12} {'socket':>14} {'push_pull':>14}"
    lines = ["", titles + (f" {'over RDMA':>14}" if with_rdma else "")]
    for link in survey.links:
        times = "-" if link.round_trip_us is None else f"{link.round_trip_us / 1000:.2f} ms"
        lines.append(
            f"{link.source:16} {link.target:16} {times:>12} {_rate(link.socket_mbit):>14} "
            f"{_rate(link.push_pull_mbit):>14}"
            + (f" {_rate(link.rdma_mbit):>14}" if with_rdma else "")
        )
    lines.append("")
    lines += [_long_path(link, survey) for link in survey.links if _is_long(link)]
    lines += [
        f"RDMA of {host}: {'; '.join(told)}"
        for host in survey.hosts
        if (told := cards(survey, host))
    ]
    for host, mbit in survey.sum_mbit.items():
        lines.append(f"server of {host}: one shard takes in {_rate(mbit)}")
    lines.append(f"bottleneck: {survey.bottleneck}")
    return lines


def describe_problems(problems: Iterable[str], notes: Iterable[str]) -> list[str]:
    """Return a line for each note and each problem."""
    return [*(f"note: {text}" for text in notes), *(f"problem: {text}" for text in problems)]


def check_build(found: Mapping[str, Any]) -> list[str]:
    """Return what `horovodrun --check-build` shows, in its form."""
    features = found["features"]
    names = {
        "Available Frameworks": {
            _TITLES[n]: n in found["adapters"] and found["frameworks"][n] is not None
            for n in FRAMEWORKS
        },
        "Available Controllers": {n: features[n] for n in ("MPI", "Gloo")} | {"BytePS": True},
        "Available Tensor Operations": {
            n: features[n] for n in ("NCCL", "DDL", "CCL", "MPI", "Gloo")
        }
        | {"BytePS": True},
    }
    lines = [f"BytePS v{found['version']}:"]
    for title, rows in names.items():
        lines += ["", f"{title}:"]
        lines += [f"    [{'X' if there else ' '}] {name}" for name, there in rows.items()]
    return lines


_TITLES = {
    "torch": "PyTorch",
    "tensorflow": "TensorFlow",
    "keras": "Keras",
    "mxnet": "MXNet",
    "jax": "JAX",
    "numpy": "numpy",
}


def _line(label: str, text: str) -> str:
    return f"{label:{_LABEL_WIDTH}}{text}"


def _of_card(entry: Mapping[str, Any]) -> str:
    told = [f"{entry['mbit']} Mbit/s"] if entry["mbit"] else []
    told += [f"NUMA node {entry['numa_node']}"] if entry["numa_node"] is not None else []
    return f" ({', '.join(told)})" if told else ""


def _nodes(found: Mapping[str, Any]) -> str:
    """Return the nodes with their cores, and what is bound to them."""
    nodes = found["numa_nodes"]
    if len(nodes) < 2:
        return "one, or not told; nothing is bound to cores"
    text = "; ".join(f"{number}: cores {cores}" for number, cores in nodes.items())
    if not found["numa_on"]:
        return f"{text}; BYTEPS_NUMA_ON=0, so nothing is bound to them"
    return f"{text}; workers, and lanes and shards near their network card, are bound to them"


def _is_long(link: Link) -> bool:
    return link.round_trip_us is not None and link.round_trip_us >= long_paths.LONG_US


def _long_path(link: Link, survey: Survey) -> str:
    assert link.round_trip_us is not None
    source = survey.hosts[link.source]["machine"]
    target = survey.hosts[link.target]["machine"]
    control = source["congestion_control"]
    if source["long_path_congestion"]:
        control = long_paths.CONGESTION
    most = long_paths.most_mbit(link.round_trip_us, source, target)
    return (
        f"long path from {link.source} to {link.target}: jobs use {control}; the limits of "
        f"net.ipv4.tcp_wmem and tcp_rmem let one connection carry {_rate(most)}, and about half "
        "of that if packets are lost"
    )


def _rate(mbit: float | None) -> str:
    return "-" if mbit is None else f"{mbit:.0f} Mbit/s"


def _count(number: int | None) -> str:
    return "unlimited" if number is None else str(number)


def _bytes(number: int | None) -> str:
    return "unlimited" if number is None else f"{number >> 20} MiB"
