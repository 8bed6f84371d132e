"""`bps bench`: what it measures and says, and how it ends when something is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import job_runs
import pytest
import torch_jobs
from processes import command_line, finish, wait_for_line

from byteps.cli.bench import report
from byteps.cli.bench.bound import Copy, least_seconds, link_loads
from byteps.cli.bench.link import Link, Ring
from byteps.cli.bench.plan import Plan, iterations_for, read_plan, read_sizes, size_text
from byteps.cli.run_options import RunOptions
from byteps.common.errors import InvalidArgumentError

environment = job_runs.environment
pytestmark = torch_jobs.needs_torch


def bench(environment, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command_line("byteps.cli", "bench", *arguments),
        env={**environment, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_workers_are_measured_beside_gloo(environment, tmp_path) -> None:
    file = tmp_path / "bench.json"
    arguments = ("-np", "2", "--sizes", "4K,1M", "--repeats", "2", "--json", str(file))
    process = bench(environment, *arguments, BYTEPS_TORCH_AS="gloo")
    code, out, err = finish(process)
    assert code == 0, out + err
    told = json.loads(file.read_text())
    begin, *sizes = told["results"]
    assert (told["exit_code"], told["workers"], told["servers"]) == (0, [2], [0])
    assert (begin["workers"], begin["machines"], begin["adapter"]) == (2, 1, "byteps.torch")
    assert begin["without_gloo"] == ""
    assert [one["bytes"] for one in sizes] == [4096, 1 << 20]
    for one in sizes:
        assert set(one["seconds"]) == {"in_place", "new_tensor", "gloo"}
        assert all(len(times) == 2 for times in one["all_seconds"].values())
        assert one["bound_s"] == one["copy_s"] > 0
        assert report.describe_size(one) in out.splitlines()
    assert "bps bench: measuring 1 MiB" in err
    assert "2 workers on this machine, no servers; byteps.torch, torch" in out


def test_servers_and_no_gloo(environment, tmp_path) -> None:
    file = tmp_path / "bench.json"
    options = ("--sizes", "64K", "--repeats", "1", "--no-gloo", "--json", str(file))
    process = bench(environment, "-np", "2", "--servers", "1", *options)
    code, out, err = finish(process)
    assert code == 0, out + err
    begin, size = json.loads(file.read_text())["results"]
    assert begin["without_gloo"] == "--no-gloo"
    assert set(size["seconds"]) == {"in_place", "new_tensor"}
    assert "2 workers on this machine, 1 server; " in out
    assert "Gloo is left out: --no-gloo" in out


def test_without_torch_it_measures_numpy(environment, tmp_path) -> None:
    # A finder that knows no torch, as in an environment without it.
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: None if name == 'torch' else "
        "find(name, *more)\n"
    )
    process = bench(environment, "-np", "2", "--sizes", "4K", "--repeats", "1",
                    PYTHONPATH=str(tmp_path))  # fmt: skip
    code, out, err = finish(process)
    assert code == 0, out + err
    assert "byteps.numpy, numpy " in out
    assert "Gloo is left out: torch is not installed (rank 0)" in out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("-np", "2", "--sizes", "4X"), "--sizes: '4X' is no size"),
        (("-np", "2", "--sizes", "6"), "--sizes: '6' is no size"),
        (("-np", "2", "--sizes", ","), "--sizes names no size"),
        ((), "say how many workers exchange"),
        (("-np", "2", "--json", "/no/such/folder/x"), "--json /no/such/folder/x cannot be written"),
    ],
)
def test_a_mistake_has_a_sentence(environment, arguments, text) -> None:
    code, _, err = finish(bench(environment, *arguments))
    assert code == 1
    assert text in err


def test_what_a_lost_worker_says_is_the_end(environment, tmp_path) -> None:
    file = tmp_path / "bench.json"
    process = bench(environment, "-np", "2", "--sizes", "1K", "--repeats", "1", "--json", str(file),
                    BYTEPS_NO_SUCH_OPTION="1", BYTEPS_PARTITION_BYTES="nonsense")  # fmt: skip
    code, _, err = finish(process)
    assert code == 1
    assert "BYTEPS_PARTITION_BYTES" in err
    assert json.loads(file.read_text())["exit_code"] == 1
    assert [one.name for one in tmp_path.iterdir()] == [file.name], "no draft is left"
    assert file.stat().st_mode & 0o044 == 0o044, "as the umask has it"


def test_ctrl_c_ends_all(environment, tmp_path) -> None:
    process = bench(environment, "-np", "2", "--sizes", "64M", "--repeats", "1000", "--no-gloo")
    wait_for_line(process, "measuring", of=process.stderr)
    os.kill(process.pid, signal.SIGINT)
    code, _, _ = finish(process)
    assert code in (130, -signal.SIGINT)


@pytest.mark.parametrize(
    ("workers", "servers", "loads"),
    [
        ([4], [0], 0.0),
        ([4], [2], 0.0),
        ([1, 1], [1, 1], 1.0),
        ([2, 2], [1, 0], 1.0),
        ([1] * 4, [1] * 4, 1.5),
        ([1] * 4 + [0] * 4, [0] * 4 + [1] * 4, 1.0),
        ([1] * 4 + [0] * 2, [1] * 6, 1.2),
        ([1] * 4 + [0], [1] * 5, 4 / 3),
        ([3], [0], 0.0),
        ([3, 0], [0, 1], 1.0),
        ([1] * 8 + [0] * 12, [0] * 8 + [1] * 12, 1.0),
    ],
)
def test_the_busiest_link_carries_what_the_decision_on_placement_says(
    workers, servers, loads
) -> None:
    assert link_loads(workers, servers) == pytest.approx(loads)


def test_the_least_time_is_that_of_memory_or_of_links() -> None:
    link = Link(bytes_per_s=1e9, round_trip_s=1e-3)
    assert least_seconds(10**9, 0.5, 1.5, link) == pytest.approx(1.501)
    assert least_seconds(10**9, 2.0, 1.5, link) == 2.0
    assert least_seconds(10**9, 0.5, 0.0, None) == 0.5
    copy = Copy(1 << 16)
    copy.make()


def test_a_ring_of_one_machine_measures_its_own_link(monkeypatch) -> None:
    monkeypatch.setenv("DMLC_NODE_HOST", "127.0.0.1")
    ring = Ring(0, True, lambda told: [told, None])
    try:
        link = ring.measure()
        assert isinstance(link, Link)
        assert link.bytes_per_s > 0
        assert link.round_trip_s > 0
    finally:
        ring.close()
    assert "refuses port" in str(ring.measure())


def test_sizes_and_plans() -> None:
    assert read_sizes("4, 4K,1MiB,2gb") == [4, 4096, 1 << 20, 2 << 30]
    assert [size_text(n) for n in (4, 4096, 3 << 20, 5000)] == ["4 B", "4 KiB", "3 MiB", "5000 B"]
    with pytest.raises(InvalidArgumentError):
        read_sizes("16G")
    plan = Plan([4], 3, True, [1, 2], [0, 1])
    assert read_plan(plan.text()) == plan
    assert [iterations_for(s) for s in (0.0, 0.01, 5.0)] == [500, 10, 1]


def test_which_machine_has_what(monkeypatch, tmp_path) -> None:
    for name in ("bps-server", "bps-scheduler"):  # nobody starts them here
        (tmp_path / name).touch(mode=0o700)
    monkeypatch.setenv("BYTEPS_PROGRAM_DIR", str(tmp_path))
    assert RunOptions(num_proc=3, servers=2).machines() == [(3, 2)]
    assert RunOptions(num_proc=3).machines() == [(3, 0)]
    both = RunOptions(hosts="localhost:2", server_hosts="127.0.0.1", servers=3).machines()
    assert sorted(both) == [(0, 3), (2, 0)]
