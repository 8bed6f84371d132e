"""`bps run --hosts` over a real sshd."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import job_runs
import pytest
import ssh_server
import test_remote_input
import torch_jobs
from processes import LIMIT_S, TOKEN_VARIABLE, carriers, finish, free_ports, wait_for_line
from rank_programs import rank_program

from byteps.__version__ import __version__

environment = job_runs.environment
pytestmark = [torch_jobs.needs_torch, pytest.mark.engine("sshd")]

PROGRAM = rank_program("meeting")
TWO = "127.0.0.2:2,127.0.0.3:2"


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[ssh_server.SshServer]:
    running = ssh_server.SshServer(tmp_path_factory.mktemp("ssh"))
    yield running
    running.stop()


def consecutive_ports(count: int) -> range:
    """Return so many ports that nobody uses now, nor gets before the test uses them."""
    while True:
        ports = sorted(free_ports(count))
        if ports[-1] - ports[0] == count - 1:
            return range(ports[0], ports[-1] + 1)


def start(environment, server, *arguments: str, **options) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "byteps.cli", "run", "--ssh", server.ssh, *arguments]
    return subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **{"cwd": "/", **options},
    )


def test_a_job_on_two_hosts(environment, server) -> None:
    code, out, err = finish(start(environment, server, "--hosts", TWO, sys.executable, PROGRAM))
    assert code == 0, out + err
    for rank in range(4):
        host = f"127.0.0.{2 + rank // 2}"
        line = (
            f"[{host} worker {rank}] all right {rank}/4, {rank % 2}/2 on {rank // 2}/2, 2 servers"
        )
        assert line in out.splitlines(), out + err


def test_hosts_with_different_numbers_of_workers(environment, server) -> None:
    hosts = "127.0.0.2:2,127.0.0.3:2"
    arguments = ["--hosts", hosts, "-np", "3", sys.executable, PROGRAM]
    code, out, err = finish(start(environment, server, *arguments))
    assert code == 0, out + err
    for line in (
        "[127.0.0.2 worker 0] all right 0/3, 0/2 on 0/2, 2 servers",
        "[127.0.0.2 worker 1] all right 1/3, 1/2 on 0/2, 2 servers",
        "[127.0.0.3 worker 2] all right 2/3, 0/1 on 1/2, 2 servers",
    ):
        assert line in out.splitlines(), out + err


def test_servers_on_a_third_host_and_this_machine_as_a_host(environment, server, tmp_path) -> None:
    (tmp_path / "hosts").write_text("localhost slots=1\nalias slots=1\n")
    where = ["--hostfile", str(tmp_path / "hosts"), "--server-hosts", "127.0.0.4"]
    arguments = [*where, "--servers", "2", sys.executable, PROGRAM]
    code, out, err = finish(start(environment, server, *arguments))
    assert code == 0, out + err
    assert "[localhost worker 0] all right 0/2, 0/1 on 0/2, 2 servers" in out
    assert "[alias worker 1] all right 1/2, 0/1 on 1/2, 2 servers" in out


def test_environment_directory_and_arguments_are_carried_over(
    environment, server, tmp_path
) -> None:
    environment = {**environment, "TWO WORDS": "1", "MINE": "it's \n two lines"}
    script = 'echo "$0 $(pwd) $MINE" | tr "\\n" "|"; echo $BYTEPS_JOB_SECRET >&2'
    arguments = ["--hosts", TWO, "sh", "-c", script, "a  b"]
    code, out, err = finish(start(environment, server, *arguments, cwd=tmp_path))
    assert code == 0, out + err
    assert out.count(f"a  b {tmp_path} it's | two lines|") == 4
    secrets = {line.rpartition(" ")[2] for line in err.splitlines() if " worker " in line}
    assert len(secrets) == 1, err


def test_the_ports_are_those_that_the_user_names(environment, server) -> None:
    first, *_ = consecutive_ports(5)
    script = "import byteps.numpy as bps, os; bps.init(); print('torch', os.environ['MASTER_PORT'])"
    arguments = ["--ports", f"{first}-{first + 4}", sys.executable, "-c", script]
    loud = {**environment, "BYTEPS_LOG_LEVEL": "info"}
    code, out, err = finish(start(loud, server, "--hosts", TWO, *arguments))
    assert code == 0, out + err
    scheduler = re.findall(r"scheduler\] .* listening on \S+:(\d+)$", out, re.M)
    servers = re.findall(r"server \d\] .* announcing \S+:(\d+) ", out, re.M)
    torch = set(re.findall(r"torch (\d+)", out))
    chosen = [*map(int, scheduler), *map(int, torch), *map(int, servers)]
    assert len(set(chosen)) == 4, out + err
    assert all(first <= port < first + 5 for port in chosen), out + err


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ({"folder": "/no/such"}, "the working directory of bps run, /no/such, is not on this host"),
        ({"version": "0.0.0"}, "and 0.0.0 where bps run is. Install the same version on all hosts"),
    ],
)
def test_an_agent_says_what_its_host_lacks(environment, task, words) -> None:
    task = {"version": __version__, "folder": "/", **task}
    agent = subprocess.run(
        [sys.executable, "-m", "byteps.cli.agent"],
        env=environment,
        input=json.dumps(task) + "\n",
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert agent.returncode == 1
    assert words in agent.stderr


def test_rank_0_has_the_input(environment, server) -> None:
    script = "echo $BYTEPS_LOCAL_RANK $DMLC_WORKER_ID: $(cat)"
    job = start(environment, server, "--hosts", TWO, "sh", "-c", script, stdin=subprocess.PIPE)
    out, err = job.communicate("words\nand more", timeout=LIMIT_S)
    assert job.returncode == 0, out + err
    assert "[127.0.0.2 worker 0] 0 0: words and more" in out
    assert "[127.0.0.3 worker 2] 0 1:" in out


def test_a_slow_rank_0_gets_all_of_a_long_input(environment, server, tmp_path) -> None:
    (tmp_path / "input").write_bytes(test_remote_input.DATA)
    reader = [sys.executable, "-c", test_remote_input.READER]
    with (tmp_path / "input").open("rb") as file:
        code, out, err = finish(start(environment, server, "--hosts", TWO, *reader, stdin=file))
    assert code == 0, out + err
    assert test_remote_input.expected(test_remote_input.DATA) in out, out + err


def test_the_first_failure_ends_all_hosts_with_its_code_and_its_words(environment, server) -> None:
    script = 'import sys, time\nimport os\nif os.environ["DMLC_WORKER_ID"] == "1":\n'
    script += '    raise ValueError("no such file: x")\ntime.sleep(3600)'
    job = start(environment, server, "--hosts", TWO, sys.executable, "-c", script)
    code, out, err = finish(job)
    assert code == 1, out + err
    assert re.fullmatch(
        r"\[bps\] 127\.0\.0\.3 worker [23] ended with exit code 1 "
        r"\(ValueError: no such file: x\); ending the job",
        err.splitlines()[-1],
    )


def test_the_last_line_names_the_cause_and_not_who_heard_of_it(environment, server) -> None:
    script = "import byteps.numpy as bps, numpy as np\nbps.init()\nfor i in range(10**6):\n"
    script += '    if bps.rank() == 3 and i == 50: raise RuntimeError("no disk")\n'
    script += '    bps.push_pull(np.ones(4), name="x")'
    code, out, err = finish(
        start(environment, server, "--hosts", TWO, sys.executable, "-c", script)
    )
    assert code == 1, out + err
    last = "127.0.0.3 worker 3 ended with exit code 1 (RuntimeError: no disk); ending the job"
    assert err.splitlines()[-1] == f"[bps] {last}"


def test_an_exit_code_comes_through(environment, server) -> None:
    arguments = ["--hosts", TWO, sys.executable, PROGRAM, "3", "7"]
    code, out, err = finish(start(environment, server, *arguments))
    assert code == 7, out + err
    assert "127.0.0.3 worker 3 ended with exit code 7; ending the job" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_all_hosts(environment, server, number) -> None:
    script = (
        f"trap 'echo caught; exit 0' {number.name[3:]}; echo ready; while :; do sleep 0.1; done"
    )
    arguments = ["--grace", "60", "--hosts", "127.0.0.2:1,127.0.0.3:1", "sh", "-c", script]
    job = start(environment, server, *arguments)
    wait_for_line(job, "ready")
    wait_for_line(job, "ready")
    job.send_signal(number)
    out, err = job.communicate(timeout=LIMIT_S)
    assert job.returncode == 128 + number, out + err
    assert out.count("caught") == 2


def staying(environment, server) -> subprocess.Popen[str]:
    arguments = ["--hosts", TWO, sys.executable, PROGRAM, "0", "stay"]
    job = start(environment, server, *arguments)
    wait_for_line(job, "all right 3/4")
    return job


def test_a_killed_launcher_leaves_nothing(environment, server) -> None:
    job = staying(environment, server)
    job.kill()
    job.communicate(timeout=LIMIT_S)  # the fixture sees that nothing is left


def ssh_processes(launcher: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "comm").read_text() == "ssh\n":
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                found += [int(entry.name)] if int(parent) == launcher else []
        except OSError:
            continue
    return sorted(found)


def test_a_killed_ssh_ends_the_job_everywhere(environment, server) -> None:
    job = staying(environment, server)
    # The last one leads to workers. Without the servers of a host the job goes on.
    os.kill(ssh_processes(job.pid)[-1], signal.SIGKILL)
    out, err = job.communicate(timeout=LIMIT_S)
    assert job.returncode == 128 + signal.SIGKILL, out + err
    assert "host 127.0.0.3 was killed by signal 9 (SIGKILL); ending the job" in err


def test_a_killed_agent_leaves_nothing_on_its_host(environment, server) -> None:
    job = staying(environment, server)
    token = environment[TOKEN_VARIABLE]
    worker = f"{sys.executable}\0{PROGRAM}"
    found = [process for process, words in carriers(token).items() if words.startswith(worker)]
    assert len(found) == 4
    agent = int(Path(f"/proc/{found[0]}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(agent, signal.SIGKILL)
    out, err = job.communicate(timeout=LIMIT_S)
    assert job.returncode != 0, out + err


def test_a_host_that_does_not_answer_is_named(environment, server) -> None:
    arguments = ["--ssh-port", "1", "--hosts", "127.0.0.2:1,127.0.0.3:1", "true"]
    code, out, err = finish(start(environment, server, *arguments))
    assert code == 255, out + err
    assert "host 127.0.0." in err
    assert "ssh could not connect, or lost its connection (it must work without a" in err
    assert re.search(r"as in: ssh -o BatchMode=yes 127\.0\.0\.[23] true\); ending the job", err)


def test_raw_output_over_ssh(environment, server) -> None:
    arguments = ["--output", "raw", "--hosts", "127.0.0.2:1,127.0.0.3:1", "echo", "plain"]
    code, out, err = finish(start(environment, server, *arguments))
    assert code == 0, err
    assert out == "plain\nplain\n"


def test_files_of_output_lie_on_each_host(environment, server, tmp_path) -> None:
    arguments = ["--output-dir", str(tmp_path), "--hosts", "127.0.0.2:1,127.0.0.3:1", "echo", "x"]
    code, out, err = finish(start(environment, server, *arguments))
    assert code == 0, out + err
    assert (tmp_path / "127.0.0.2-worker-0.log").read_text() == "x\n"
    assert (tmp_path / "127.0.0.3-worker-1.log").read_text() == "x\n"


@pytest.mark.parametrize("lost", [1, 2])
def test_the_others_go_on_without_a_worker_of_another_host(environment, server, lost) -> None:
    """Rank 2 of host 127.0.0.3 ends, and then, if two are lost, the host's last worker.

    The others stop after the same sum, because all ranks have its result, and one of them may hear
    of a loss before another one does.
    """
    script = (
        "import os, sys, time, numpy as np, byteps.numpy as bps\n"
        "bps.init()\n"
        "bps.push_pull(np.ones(4, np.float32), name='all', average=False)\n"
        f"if bps.rank() >= {4 - lost}: os._exit(5)\n"
        "ones = np.ones(4, np.float32)\n"
        f"while bps.push_pull(ones, name='more', average=False)[0] > {4 - lost}: pass\n"
        f"while len(bps.members()) > {4 - lost}: time.sleep(0.01)\n"
        "print('members', bps.members())\n"
        "bps.push_pull(ones, name='end')  # nobody leaves before all have looked\n"
    )
    arguments = ["--hosts", TWO, "--min-np", "2", sys.executable, "-c", script]
    code, out, err = finish(start(environment, server, *arguments))
    assert code == 0, out + err
    assert out.count("members [0, 1") == 4 - lost, out + err
    lines = err.splitlines()
    if lost == 1:
        ended = (
            "[bps on 127.0.0.3] 127.0.0.3 worker 3 ended with exit code 5; going on with 1 worker"
        )
        assert ended in lines, err
    else:
        assert lines[-1] == "[bps] ended with 2 of 4 workers; lost: host 127.0.0.3", err


def test_processes_that_were_never_asked_are_gone(environment, server) -> None:
    """A worker that ignores SIGTERM is killed after the grace time, on its own host."""
    script = "trap '' TERM INT; echo ready; while :; do sleep 0.1; done"
    arguments = ["--grace", "0.5", "--hosts", "127.0.0.2:1,127.0.0.3:1", "sh", "-c", script]
    job = start(environment, server, *arguments)
    wait_for_line(job, "ready")
    wait_for_line(job, "ready")
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=LIMIT_S)
    assert job.returncode == 128 + signal.SIGTERM
