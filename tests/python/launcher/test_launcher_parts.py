"""Parts of the launcher by themselves: what they decide before anything is started."""

from __future__ import annotations

import io
import json
import os
import pickle
from pathlib import Path

import pytest

from byteps.cli import bpslaunch, function_job, guard, local_job, top
from byteps.cli.commands import run
from byteps.cli.function_job import FunctionError, error_file, result_file
from byteps.cli.hosts import Host
from byteps.cli.last_error import LastError
from byteps.cli.output_files import OutputFiles
from byteps.cli.run_options import RAW, RunOptions, ssh_command
from byteps.common.errors import BytepsError, InvalidArgumentError

# byteps.run.


def leave_error(folder: Path, rank: int, heard: bool, age_s: int) -> None:
    told = {"rank": rank, "what": f"E{rank}", "heard": heard, "traceback": f"T{rank}"}
    path = folder / error_file(rank)
    path.write_text(json.dumps(told))
    os.utime(path, ns=(0, (1000 - age_s) * 10**9))


def test_the_first_that_raised_is_told_and_not_who_has_heard_of_it(tmp_path) -> None:
    leave_error(tmp_path, 0, heard=True, age_s=30)
    leave_error(tmp_path, 1, heard=False, age_s=10)
    leave_error(tmp_path, 2, heard=False, age_s=20)
    with pytest.raises(FunctionError, match="rank 2 of the function raised E2\n\nT2") as error:
        function_job._raise_if_failed(tmp_path, 3, 1)
    assert (error.value.rank, error.value.traceback) == (2, "T2")
    with pytest.raises(FunctionError, match="rank 0 of the function"):
        function_job._raise_if_failed(tmp_path, 1, 0)


def test_results_that_are_missing_are_named(tmp_path) -> None:
    for rank in (0, 2):
        (tmp_path / result_file(rank)).write_bytes(pickle.dumps(rank))
    with pytest.raises(FunctionError, match="exit code 0; no result came from ranks 1, 3"):
        function_job._raise_if_failed(tmp_path, 4, 0)
    function_job._raise_if_failed(tmp_path, 1, 0)
    with pytest.raises(FunctionError, match=r"exit code 3\. Its output") as error:
        function_job._raise_if_failed(tmp_path, 1, 3)
    assert error.value.rank is None


def test_a_job_of_no_worker_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="np is 0"):
        function_job.run(print, np=0)


# bps top.


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def pages(monkeypatch) -> list[str]:
    """Let the job show these pages, one after the other, and then end."""
    left: list[str] = []

    def state_of(address: str) -> str:
        if not left:
            raise BytepsError("gone")
        return left.pop(0)

    monkeypatch.setattr(top, "state_of", state_of)
    return left


def test_the_state_is_shown_in_its_place_until_the_job_ends(pages) -> None:
    pages += ["one\ntwo\n", "three\n"]
    shown = Terminal()
    assert top.top("1", 0.0, once=False, output=shown) == 0
    home, line, rest = "\x1b[H", "\x1b[K\n", "\x1b[J"
    assert shown.getvalue() == (
        f"{home}{rest}{home}one{line}two{line}{rest}{home}three{line}{rest}"
        "\nThe job does not answer any more: it has ended, or it stands still.\n"
    )


@pytest.mark.parametrize(("output", "once"), [(Terminal(), True), (io.StringIO(), False)])
def test_the_state_is_shown_once_where_that_is_asked_for_or_all_that_can_be(
    pages, output, once
) -> None:
    pages += ["one\n", "two\n"]
    assert top.top("1", 0.0, once=once, output=output) == 0
    assert output.getvalue() == "one\n"
    assert pages == ["two\n"]


def test_an_address_of_nobody_is_explained() -> None:
    for text in ("here", "host:", ""):
        with pytest.raises(BytepsError, match="is no address"):
            top.state_of(text)
    with pytest.raises(BytepsError, match=r"at 127\.0\.0\.1:1 .*BYTEPS_STATUS_PORT=1"):
        top.state_of("1")


# bpslaunch.


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["echo a; echo b"], ["sh", "-c", "echo a; echo b"]),
        (["echo", "a; b"], ["echo", "a; b"]),
        (["true"], ["true"]),
    ],
)
def test_what_is_a_line_for_the_shell(command, words) -> None:
    assert bpslaunch.worker_command(command, {}) == words


def test_the_debugger_starts_a_python_program() -> None:
    on = {"BYTEPS_ENABLE_GDB": "1"}
    gdb = ["gdb", "-ex", "run", "-ex", "bt", "-batch", "--args"]
    assert bpslaunch.worker_command(["x.py", "1"], on) == [*gdb, "python", "x.py", "1"]
    assert bpslaunch.worker_command(["/bin/python3", "x"], on) == [*gdb, "/bin/python3", "x"]
    assert bpslaunch.worker_command(["x.py"], {"BYTEPS_ENABLE_GDB": "0"}) == ["x.py"]


def test_how_many_ranks_a_machine_has_at_most() -> None:
    assert bpslaunch.local_size({"BYTEPS_LOCAL_SIZE": "1024"}) == 1024
    assert bpslaunch.local_size({"BYTEPS_LOCAL_SIZE": "1"}) == 1
    assert bpslaunch.local_size({"NVIDIA_VISIBLE_DEVICES": "0, ,2"}) == 2
    assert bpslaunch.local_size({"NVIDIA_VISIBLE_DEVICES": "none"}) == 1


def test_a_single_worker_needs_fewer_variables() -> None:
    needs = bpslaunch.missing_variables
    job = ["DMLC_NUM_WORKER", "DMLC_NUM_SERVER", "DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT"]
    assert needs("server", {}) == job
    assert needs("worker", {}) == [*job, "DMLC_WORKER_ID"]
    assert needs("worker", {"DMLC_NUM_WORKER": "1"}) == ["DMLC_WORKER_ID"]
    forced = {"DMLC_NUM_WORKER": "1", "BYTEPS_FORCE_DISTRIBUTED": "1"}
    assert needs("worker", forced) == [*job[1:], "DMLC_WORKER_ID"]
    assert needs("server", {"DMLC_NUM_WORKER": "1"}) == job[1:]


def test_the_workers_of_a_machine_in_a_larger_job() -> None:
    environment = {"DMLC_NUM_WORKER": "2", "BYTEPS_LOCAL_SIZE": "2", "BYTEPS_NUMA_ON": "0"}
    specs = bpslaunch.worker_specs(["python", "x.py"], environment)
    assert [spec.label for spec in specs] == ["local rank 0", "local rank 1"]
    assert [spec.environment["BYTEPS_LOCAL_RANK"] for spec in specs] == ["0", "1"]
    assert all(spec.environment["BYTEPS_LOCAL_SIZE"] == "2" for spec in specs)
    assert all(spec.environment["PYTHONUNBUFFERED"] == "1" for spec in specs)
    assert all(spec.rank is None for spec in specs)
    (alone,) = bpslaunch.worker_specs(["python"], {"DMLC_NUM_WORKER": "1"})
    assert alone.label == "local rank 0"


# The options of bps run.


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (RunOptions(), "say how many workers"),
        (RunOptions(hosts="a:1", hostfile="f"), "--hosts and --hostfile exclude each other"),
        (RunOptions(num_proc=2, output=RAW, output_dir="d"), "exclude each other: raw"),
        (RunOptions(num_proc=2, min_np=3), "--min-np is 3, but there are only 2 workers"),
        (RunOptions(hosts="far.invalid:2", min_np=3), "--min-np is 3, but there are only 2 work"),
    ],
)
def test_options_that_exclude_each_other(options, words) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        options.supervisor(["x"])


def test_as_many_workers_as_must_live_are_allowed(monkeypatch) -> None:
    monkeypatch.setattr(local_job, "find_program", lambda role: f"/programs/bps-{role}")
    for variable in ("BYTEPS_FORCE_DISTRIBUTED", "BYTEPS_LOCAL_REDUCE"):
        monkeypatch.delenv(variable, raising=False)

    def roles(options: RunOptions) -> list[str]:
        return [spec.role for spec in options.supervisor(["x"]).specs]

    assert roles(RunOptions(num_proc=2, min_np=2)).count("worker") == 2
    assert roles(RunOptions(num_proc=2)) == ["worker", "worker"]
    assert roles(RunOptions(num_proc=2, servers=1)) == ["scheduler", "server", "worker", "worker"]
    assert roles(RunOptions(hosts="localhost:2")) == ["worker", "worker"]


def test_where_servers_have_hosts_the_workers_are_on_this_one() -> None:
    options = RunOptions(num_proc=2, server_hosts="far.invalid")
    assert options._hosts() == [Host("localhost", 2)]
    assert RunOptions(num_proc=2)._hosts() == []
    assert RunOptions(num_proc=1, hosts="a:2,b:2")._hosts() == [Host("a", 1)]


def test_the_words_of_ssh() -> None:
    assert ssh_command("ssh -F 'a b'", None, None) == ["ssh", "-F", "a b"]
    assert ssh_command("ssh", 22, "k") == ["ssh", "-p", "22", "-i", "k"]
    assert ssh_command("ssh", None, "k") == ["ssh", "-i", "k"]
    with pytest.raises(InvalidArgumentError, match="--ssh is empty"):
        ssh_command(" ", None, None)


def test_the_flag_of_numa_is_the_variable(monkeypatch) -> None:
    monkeypatch.setenv("BYTEPS_NUMA_ON", "mine")
    run.set_numa(None)
    assert os.environ["BYTEPS_NUMA_ON"] == "mine"
    run.set_numa("on")
    assert os.environ["BYTEPS_NUMA_ON"] == "1"
    run.set_numa("off")
    assert os.environ["BYTEPS_NUMA_ON"] == "0"


@pytest.mark.parametrize(
    ("own", "terminal", "speaker", "other"),
    [({}, False, {}, {}), ({}, True, "line", "none"), ({"BYTEPS_WAITING": "lines"}, True, {}, {})],
)
def test_on_a_terminal_one_process_says_for_whom_it_waits(
    monkeypatch, own, terminal, speaker, other
) -> None:
    monkeypatch.setattr("os.isatty", lambda descriptor: terminal and descriptor == 2)
    for speaks, word in ((True, speaker), (False, other)):
        expected = {"BYTEPS_WAITING": word} if word else {}
        assert local_job.waiting_style(speaks, own) == expected


# The rest.


def test_a_launcher_in_a_launcher_keeps_the_marker_of_the_other() -> None:
    assert guard.marked_environment({"A": "1"}, "m") == {"A": "1", "BYTEPS_LAUNCH_ID": "m"}
    inner = guard.marked_environment({"BYTEPS_LAUNCH_ID": "m"}, "n")
    assert inner == {"BYTEPS_LAUNCH_ID": "m:n"}
    assert len(guard.new_marker()) == 32


def test_a_long_error_is_cut() -> None:
    error = LastError()
    error.note(b"ValueError: " + b"x" * 188)
    assert len(error.text) == 200
    assert error.text.endswith("x")
    error.note(b"ValueError: " + b"x" * 189)
    assert len(error.text) == 203
    assert error.text.endswith("x...")


def test_an_exception_of_cxx_that_nobody_catches_is_the_reason() -> None:
    error = LastError()
    error.note(b"terminate called after throwing an instance of 'byteps::Error'")
    error.note(b"  what():  ranks disagree about tensor 'w': rank 0 has float32[2]")
    assert error.text == "ranks disagree about tensor 'w': rank 0 has float32[2]"
    assert not error.is_heard
    error.note(b"  what():  worker 1 (process 7 on a) was lost: killed by SIGKILL")
    assert error.is_heard


def test_an_error_inside_a_program_of_a_framework_is_its_reason() -> None:
    error = LastError()
    error.note(b"byteps error 2: of nothing yet")
    assert error.text == ""
    error.note(b"tensorflow.python.framework.errors_impl.AbortedError: Graph execution error:")
    assert error.text.endswith("Graph execution error:")
    error.note(b"Detected at node PushPull defined at (most recent call last):")
    error.note(b"{{function_node f}} byteps error 2: ranks disagree about 'w'")
    assert error.text == "AbortedError: byteps error 2: ranks disagree about 'w'"
    assert not error.is_heard
    error.note(b"jax.errors.JaxRuntimeError: INTERNAL: byteps error 4: worker 1 was lost")
    assert "byteps error 4: worker 1 was lost" in error.text
    assert error.is_heard
    error.note(b"ValueError: another one")
    assert error.text == "ValueError: another one"


def test_each_process_has_one_file_that_goes_on(tmp_path) -> None:
    folder = tmp_path / "new" / "folder"
    files = OutputFiles(str(folder))
    first = files.of("worker 3")
    first.put(b"one\n")
    assert files.of("worker 3") is first
    assert files.of("a worker 3") is not first
    first.put(b"two\n")
    assert (folder / "worker-3.log").read_bytes() == b"one\ntwo\n"
    assert files.lost() == []
    first.error = OSError(28, "No space left on device")
    assert files.lost() == [f"{folder}/worker-3.log: No space left on device"]
    assert files.lost() == [], "it was told"
    (folder / "worker-4.log").mkdir()
    with pytest.raises(InvalidArgumentError, match=r"worker-4\.log cannot be written"):
        files.of("worker 4")
    for path in ("worker 3", "a worker 3"):
        os.close(files.of(path).descriptor)
    assert OutputFiles(str(folder)).of("worker 3").error is None
    assert (folder / "worker-3.log").read_bytes() == b"", "another job begins it anew"
