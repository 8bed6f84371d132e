"""What a job shows of itself: stall reports, the status port, `bps top`."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import job_runs
import pytest
import torch_jobs
from job_runs import COLD_PYTHON, job, warm_python
from processes import (
    LIMIT_S,
    TOKEN_VARIABLE,
    carriers,
    finish,
    free_ports,
    wait_for_line,
    wait_until,
)
from rank_programs import rank_program
from shapes import FULL

from byteps.__version__ import __version__
from byteps.cli.live_page import LivePage
from byteps.cli.user_jobs import UserJob, chosen_job, user_jobs
from byteps.common.errors import BytepsError

T = TypeVar("T")

environment = job_runs.environment
LATE_US = 500_000  # recorded.py, recording.py
# By which clocks may be taken for another time: a busy machine lets a rank hear late of an end.
NOISE_US = LATE_US // 2
pytestmark = torch_jobs.needs_torch


def wait_for(ask: Callable[[], T], is_right: Callable[[T], bool]) -> T:
    """Ask again and again; return the first right answer."""
    answers: list[T] = []

    def has_come() -> bool:
        answers[:] = [ask()]
        return is_right(answers[0])

    wait_until(has_come)
    return answers[0]


def local_job(environment, name: str, workers: int, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "byteps.cli", "run", "-np", str(workers)]
    return subprocess.Popen(
        [*command, *warm_python(), rank_program(name), *arguments],
        env=environment,
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def page(port: str, path: str = "/") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=LIMIT_S) as answer:
        return answer.read().decode()


def state(port: str) -> dict:
    try:
        return json.loads(page(port, "/status.json"))
    except OSError:
        return {"members": [], "waits": [], "said": [], "late_rank": -1, "epoch": 0}


@pytest.mark.parametrize("servers", [0, *[1] * FULL])
def test_a_stall_is_reported_with_the_tensor_the_rank_and_the_stage(
    environment, tmp_path, servers
) -> None:
    environment = environment | {"BYTEPS_STALL_CHECK_TIME": "3"}
    go_on = tmp_path / "go_on"
    go_on.touch()
    if servers:
        process = job(environment, "stalling", 3, servers, arguments=("2", str(go_on)))
    else:
        process = local_job(environment, "stalling", 3, "2", str(go_on))
    # On a busy machine earlier operations, too, and fewer ranks may be waited for.
    both = "ranks 0 and 1 have begun and each waits for the sum; rank 2 has not begun"
    said = wait_for_line(process, both, of=process.stderr)
    go_on.unlink()
    code, out, err = finish(process)
    assert code == 0, said + out + err
    stall = said.splitlines()[-1]
    assert "stalled for" in stall
    assert "'byteps.the.planted.one'" in stall
    where = rf"worker 2 \(process \d+ on {re.escape(os.uname().nodename)}\)"
    assert re.search(rf"{where} has nothing open for \d+ s: it is in its own program", stall)
    assert "which 'bps stack' on its machine shows" in stall


def top(environment, *arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "byteps.cli", "top", *arguments]
    return finish(
        subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    )


def cold_job(environment, go_on: Path, *options: str) -> subprocess.Popen[str]:
    """Start a job whose processes carry the token of the test, which forked ones do not."""
    command = [sys.executable, "-m", "byteps.cli", "run", "-np", "2", *options]
    return subprocess.Popen(
        [*command, *COLD_PYTHON, rank_program("straggling"), "1", str(go_on)],
        env=environment,
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def jobs_of(environment) -> list[UserJob]:
    """Return the jobs of this test: other tests may have some, too."""
    mine = carriers(environment[TOKEN_VARIABLE])
    return [one for one in user_jobs() if one.process in mine]


@pytest.mark.parametrize("servers", [0, *[1] * FULL])
def test_every_job_shows_its_state_to_its_own_user(environment, tmp_path, servers) -> None:
    go_on = tmp_path / "go_on"
    go_on.touch()
    process = cold_job(environment, go_on, *(["--servers", "1"] if servers else []))
    wait_for_line(process, "the job runs")
    # Rank 1 may be ready before rank 0, which shows the state of a job without servers.
    mine = wait_for(lambda: jobs_of(environment), lambda found: any(one.state for one in found))
    assert len(mine) == 1, mine
    code, out, err = top(environment, "--job", str(mine[0].process))
    assert code == 0, err
    assert f"2 of 2 workers, {servers} of {servers} servers" in out
    live = LivePage(mine[0])
    serving = threading.Thread(target=live.serve)
    serving.start()
    try:
        with urllib.request.urlopen(live.address, timeout=LIMIT_S) as answer:
            assert b"status.json" in answer.read()
        beside = live.address.removesuffix("live") + "status.json"
        with urllib.request.urlopen(beside, timeout=LIMIT_S) as answer:
            assert json.loads(answer.read())["workers_expected"] == 2
        for other in ("/status.json", "/x/status.json", "/"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen("/".join(live.address.split("/")[:3]) + other)
    finally:
        live.close()
        serving.join()
    go_on.unlink()
    code, out, err = finish(process)
    assert code == 0, out + err
    assert mine[0].socket_name not in [one.socket_name for one in user_jobs()]


def test_a_job_may_have_no_local_socket(environment, tmp_path) -> None:
    go_on = tmp_path / "go_on"
    go_on.touch()
    told = environment | {"BYTEPS_STATUS_SOCKET": "0"}
    process = cold_job(told, go_on)
    wait_for_line(process, "the job runs")
    mine = jobs_of(environment)
    go_on.unlink()
    code, out, err = finish(process)
    assert mine == []
    assert code == 0, out + err


def test_which_job_top_shows() -> None:
    seen = {"members": [], "workers_expected": 2, "servers_expected": 0, "up_s": 3, "state": "runs"}
    one, other = (UserJob(f"@{n}", n, f"job{n}", seen) for n in (71, 72))
    assert chosen_job("", [one]) is one
    assert chosen_job("job72", [one, other]) is other
    assert chosen_job("71", [one, other]) is one
    longer = UserJob("@73", 73, "job71", seen)
    assert chosen_job("job7", [UserJob("@7", 7, "job7", seen), longer]).process == 7
    assert chosen_job("73", [longer, UserJob("@9", 9, "730", seen)]) is longer
    still = UserJob("@74", 74, "", {})
    assert chosen_job("job", [one, still]) is one
    for wanted in ("", "74"):
        with pytest.raises(BytepsError, match=r"process 74 .* does not answer: it stands still"):
            chosen_job(wanted, [still])
    with pytest.raises(BytepsError, match="74  does not answer"):
        chosen_job("", [one, still])
    with pytest.raises(BytepsError, match="2 jobs run here; choose one with --job NAME") as told:
        chosen_job("", [one, other])
    assert "job71" in str(told.value)
    with pytest.raises(BytepsError, match="no job of this user fits 'x'"):
        chosen_job("x", [one])
    with pytest.raises(BytepsError, match="no job of this user shows its state"):
        chosen_job("", [])


def listens(process: int) -> tuple[socket.socket, str]:
    """Return a socket that looks like that of a job in this process, and never answers."""
    silent = socket.socket(socket.AF_UNIX)
    name = f"byteps-status-{os.geteuid()}-{process}-99"
    silent.bind("\0" + name)
    silent.listen(1)
    return silent, name


def test_what_does_not_answer_is_named_unless_it_has_ended(tmp_path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    own, name = listens(os.getpid())
    inherited, other = listens(ended.pid)  # as a forked child keeps it
    lines = Path("/proc/net/unix").read_text().splitlines()
    table = tmp_path / "unix"
    table.write_text("\n".join(one for one in lines if one is lines[0] or name in one))
    assert [(job.process, job.state) for job in user_jobs(table)] == [(os.getpid(), {})]
    table.write_text("\n".join(one for one in lines if one is lines[0] or other in one))
    assert user_jobs(table) == []
    own.close()
    inherited.close()
    with pytest.raises(BytepsError, match="cannot be read"):
        user_jobs(tmp_path / "none")


def test_the_live_page_has_room_for_few_and_not_for_long(monkeypatch) -> None:
    monkeypatch.setattr("byteps.cli.live_page._ASK_LIMIT_S", 1.0)
    before = threading.active_count()
    live = LivePage(UserJob("@none", 1, "gone", {}))
    serving = threading.Thread(target=live.serve)
    serving.start()
    port = int(live.address.split(":")[2].split("/")[0])
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
    try:
        assert all(one.recv(1) == b"" for one in silent), "each is closed, at once or at the limit"
        wait_until(lambda: threading.active_count() <= before + 1)
        with pytest.raises(urllib.error.HTTPError, match="502"):
            urllib.request.urlopen(live.address)
    finally:
        live.close()
        serving.join()
        for one in silent:
            one.close()


def test_top_asks_no_proxy(environment) -> None:
    port = free_ports(1)[0]
    told = environment | {"http_proxy": "http://no.such.proxy:1", "HTTP_PROXY": "", "no_proxy": ""}
    code, _, err = top(told, str(port))
    assert code == 1
    assert "refused" in err, err


def test_top_takes_an_address_or_a_job(environment) -> None:
    code, _, err = top(environment, "9100", "--live")
    assert code == 1
    assert "http://9100/live" in err


def names_the_straggler(seen: dict, servers: int) -> bool:
    """Return whether rank 1 is the late one, rank 0 waits for it, and the servers have worked."""
    members = {(one["role"], one["index"]): one for one in seen["members"]}
    late = members.get(("worker", 1), {}).get("late") or {}
    works = all(members.get(("server", n), {}).get("cpu_us") for n in range(servers))
    waits = members.get(("worker", 0), {}).get("waited_us", 0) > 0
    return seen["late_rank"] == 1 and late.get("tensor") == "byteps.gradient" and waits and works


@pytest.mark.parametrize("servers", [1, *[0] * FULL])
def test_the_status_port_names_the_straggler(environment, tmp_path, servers) -> None:
    port = str(free_ports(1)[0])
    go_on = tmp_path / "go_on"
    go_on.touch()
    told, arguments = environment | {"BYTEPS_STATUS_PORT": port}, ("1", str(go_on))
    if servers:
        process = job(told, "straggling", 3, servers, arguments=arguments)
    else:
        process = local_job(told, "straggling", 3, *arguments)
    wait_for_line(process, "the job runs")
    # On a busy machine another rank, or rank 1 with another tensor, is the latest for a moment.
    seen = wait_for(lambda: state(port), lambda found: names_the_straggler(found, servers))
    worker = next(one for one in seen["members"] if one["role"] == "worker" and one["index"] == 1)
    assert worker["process"] > 1
    assert worker["host"] == os.uname().nodename
    late = r"late: rank 1 by \d+ ms on average"
    text = wait_for(lambda: page(port), lambda found: bool(re.search(late, found)))
    assert text.startswith(f"BytePS {__version__}, job ")
    assert f"3 of 3 workers, {servers} of {servers} servers" in text
    there = r'byteps_members\{role="worker",state="in",byteps_job=".+"\} 3'
    metrics = wait_for(lambda: page(port, "/metrics"), lambda found: bool(re.search(there, found)))
    assert f'byteps_build_info{{version="{__version__}",' in metrics
    assert re.search(r'byteps_waited_seconds_total\{rank="0",.*\} [0-9.e-]*[1-9]', metrics)
    for what in ("received_bytes", "sent_bytes", "cpu_seconds"):
        told = re.findall(rf"^byteps_server_{what}_total\{{.*\}} (.*)$", metrics, re.M)
        assert len(told) == servers, metrics
        assert all(float(value) > 0 for value in told), metrics
    for line in metrics.splitlines():
        assert re.fullmatch(r'# .*|[a-z_]+(\{([a-z_]+="[^"]*",?)+\})? [0-9.e+-]+', line), line
    head = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", method="HEAD")
    with urllib.request.urlopen(head, timeout=LIMIT_S) as answer:  # as `curl -I` does
        assert answer.status == 200
        assert answer.read() == b""
    with socket.create_connection(("127.0.0.1", int(port))) as plain:  # as `nc` does
        plain.settimeout(LIMIT_S)
        assert plain.recv(6) == b"BytePS"
    shown = wait_for(lambda: top(environment, port), lambda told: "late: rank 1" in told[1])
    code, out, err = shown
    assert code == 0, out + err
    go_on.unlink()
    code, out, err = finish(process)
    assert code == 0, out + err
    with pytest.raises(urllib.error.URLError, match="refused"):
        page(port)


def test_top_without_a_job_says_what_to_set(environment) -> None:
    port = str(free_ports(1)[0])
    ended = subprocess.run(
        [sys.executable, "-m", "byteps.cli", "top", port],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.returncode == 1
    assert f"BYTEPS_STATUS_PORT={port}" in ended.stderr


def test_the_dead_and_the_stopped_are_named(environment, tmp_path) -> None:
    port = str(free_ports(1)[0])
    go_on = tmp_path / "go_on"
    go_on.touch()
    settings = {"BYTEPS_STATUS_PORT": port, "BYTEPS_HEARTBEAT_TIMEOUT_MS": "240000"}
    process = job(
        environment | settings, "straggling", 3, 1, "--min-np", "2", arguments=("0", str(go_on))
    )
    wait_for_line(process, "the job runs")
    wait_until(lambda: len(state(port)["members"]) == 4)
    dead = next(one for one in state(port)["members"] if one["index"] == 2)
    subprocess.run(["kill", "-9", str(dead["process"])], check=True)
    wait_until(lambda: any("worker 2" in one["text"] for one in state(port)["said"]))
    # Two are needed, so losing one more would end the job: the job waits for it for minutes.
    stopped = next(one for one in state(port)["members"] if one["index"] == 1)
    subprocess.run(["kill", "-STOP", str(stopped["process"])], check=True)
    wait_until(lambda: any(one["state"] == "silent" for one in state(port)["members"]))
    assert re.search(r"worker +1 +silent", page(port))
    subprocess.run(["kill", "-CONT", str(stopped["process"])], check=True)
    wait_until(lambda: not any(one["state"] == "silent" for one in state(port)["members"]))
    go_on.unlink()
    code, out, err = finish(process)
    assert code == 0, out + err


def test_a_status_port_that_is_taken_ends_the_start(environment) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, out, err = finish(job(environment | {"BYTEPS_STATUS_PORT": port}, "small", 2, 1))
    assert code != 0, out + err
    assert "choose another BYTEPS_STATUS_PORT" in err


def test_nothing_of_the_secret_is_shown(environment, tmp_path) -> None:
    port = str(free_ports(1)[0])
    go_on = tmp_path / "go_on"
    go_on.touch()
    shown = environment | {"BYTEPS_STATUS_PORT": port}
    arguments = ("0", str(go_on))
    process = job(shown, "straggling", 2, 1, arguments=arguments, python=COLD_PYTHON)
    wait_for_line(process, "the job runs")
    wait_until(lambda: state(port)["epoch"] > 0)
    member = state(port)["members"][0]["process"]
    variables = Path(f"/proc/{member}/environ").read_text().split("\0")
    (secret,) = (one for one in variables if one.startswith("BYTEPS_JOB_SECRET="))
    for path in ("/", "/status.json", "/metrics", "/live"):
        assert secret.partition("=")[2] not in page(port, path)
    go_on.unlink()
    code, out, err = finish(process)
    assert code == 0, out + err


@pytest.mark.parametrize("servers", [0, *[1] * FULL])
def test_timelines_of_ranks_are_merged(environment, tmp_path, servers) -> None:
    file = tmp_path / "timeline.json"
    if servers:
        process = job(environment, "recording", 2, servers, arguments=(str(file),))
    else:
        process = local_job(environment, "recording", 2, str(file))
    code, out, err = finish(process)
    assert code == 0, out + err
    merged = tmp_path / "merged.json"
    command = [sys.executable, "-m", "byteps.cli", "timeline", str(merged), str(file)]
    ended = subprocess.run(
        [*command, str(tmp_path / "timeline.rank1.json")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    events = json.loads(merged.read_text())
    waits = [e["dur"] for e in events if e.get("name") == "NEGOTIATE_ALLREDUCE"]
    assert len(waits) == 3
    assert min(waits) >= LATE_US - NOISE_US  # rank 1 came late, and its clock is the same
    waited = [e for e in events if e["pid"] == 0 and e["ph"] == "X"]
    assert {e["args"]["waited_for_others_us"] for e in waited if e["tid"] == 2} == {0}


def merged_files(environment, folder: Path) -> list[dict]:
    merged = folder / "merged" / "all.json"
    merged.parent.mkdir()
    command = [sys.executable, "-m", "byteps.cli", "timeline", str(merged)]
    files = sorted(str(file) for file in folder.glob("*.json"))
    ended = subprocess.run(
        [*command, *files],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(merged.read_text())


@pytest.mark.parametrize("together", ["0", "1"])
def test_a_timeline_has_the_servers_with_queueing_and_service_apart(
    environment, tmp_path, together
) -> None:
    """Each rank a member of the job by itself; or the ranks of the machine one member."""
    wishes = {"BYTEPS_TIMELINE": str(tmp_path / "t.json"), "BYTEPS_LOCAL_REDUCE": together}
    code, out, err = finish(job(environment | wishes, "recorded", 2, 2))
    assert code == 0, out + err
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "t.json", "t.rank1.json", "t.server0.json", "t.server1.json",
    ]  # fmt: skip
    events = merged_files(environment, tmp_path)
    title = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    spans = [e for e in events if e["ph"] == "X"]
    of_servers = [e for e in spans if title[e["pid"]].startswith("server ")]
    assert {title[e["pid"]] for e in of_servers} == {"server 0", "server 1"}
    ranks = {title[e["pid"]] for e in spans if title[e["pid"]].startswith("pieces of ")}
    assert ranks == ({"pieces of rank 0"} if together == "1" else
                     {"pieces of rank 0", "pieces of rank 1"})  # fmt: skip
    rounds: dict[tuple[int, int], dict[str, dict]] = {}
    for event in of_servers:
        if event["name"].endswith(" step"):
            about = event["args"]
            rounds.setdefault((about["piece"], about["round"]), {})[event["cat"]] = event
    assert len(rounds) >= 4 * 2  # steps, and a piece on each server at least
    pushes = {(e["args"]["piece"], e["args"]["round"], e["pid"]): e for e in spans
              if e["name"] == "PUSH step"}  # fmt: skip
    if together == "0":
        waits = [one["WAIT"] for one in rounds.values()]
        assert sum(e["args"]["last"] == 1 for e in waits) > len(waits) / 2
        median = sorted(e["dur"] for e in waits)[len(waits) // 2]
        assert median >= LATE_US - NOISE_US
    for (piece, number), stages in rounds.items():
        mine = [e for (p, r, _), e in pushes.items() if (p, r) == (piece, number)]
        assert mine
        for push in mine:  # by one clock: a sum follows its pushes, and precedes its answers
            assert push["ts"] <= stages["SUM"]["ts"] + NOISE_US
            assert push["ts"] + push["dur"] + NOISE_US >= stages["SUM"]["ts"] + stages["SUM"]["dur"]
    whole = [e for e in spans if e["pid"] == 0 and e["name"] == "step" and "pieces" in e["args"]]
    assert len(whole) == (4 if together == "1" else 8)
    for event in whole:
        assert {"queue_us", "push_us", "pull_us"} <= event["args"].keys()
    where = tmp_path / "t.json"
    assert json.loads(where.read_text())[-1]["ph"] in ("E", "X")


def test_a_trace_has_the_stages_of_pieces(environment, tmp_path) -> None:
    wishes = {"BYTEPS_TRACE_ON": "1", "BYTEPS_TRACE_DIR": str(tmp_path), "BYTEPS_LOCAL_REDUCE": "0",
              "BYTEPS_TRACE_START_STEP": "2", "BYTEPS_TRACE_END_STEP": "3"}  # fmt: skip
    code, out, err = finish(job(environment | wishes, "recorded", 2, 1))
    assert code == 0, out + err
    for rank in ("0", "1"):
        events = json.loads((tmp_path / rank / "comm.json").read_text())["traceEvents"]
        assert sum(e["tid"] == "total" for e in events) == 2
        pieces = {e["tid"] for e in events} - {"total"}
        assert len(pieces) >= 2
        for row in pieces:
            names = [e["name"] for e in events if e["tid"] == row]
            assert [names.count(f"Comm.step.{one}") for one in ("QUEUE", "PUSH", "PULL")] == [2] * 3
