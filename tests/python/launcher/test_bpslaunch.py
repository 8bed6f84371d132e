"""`bpslaunch`: the environment contract of the original."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid

import pytest
from processes import TOKEN_VARIABLE, carriers, command_line, finish, launch, wait_for_line
from processes import wait_until_gone as still_there

from byteps.cli.bpslaunch import (
    is_distributed,
    local_size,
    loss_policy,
    missing_variables,
    worker_specs,
)
from byteps.common.errors import BytepsError

JOB = {
    "DMLC_NUM_WORKER": "2",
    "DMLC_NUM_SERVER": "1",
    "DMLC_PS_ROOT_URI": "127.0.0.1",
    "DMLC_PS_ROOT_PORT": "1234",
}


@pytest.fixture
def environment(tmp_path):
    for name in ("bps-server", "bps-scheduler"):
        (tmp_path / name).write_text('#!/bin/sh\necho "program of $DMLC_ROLE"\n')
        (tmp_path / name).chmod(0o755)
    token = uuid.uuid4().hex
    kept = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("DMLC_", "BYTEPS_")) and k != "NVIDIA_VISIBLE_DEVICES"
    }
    yield {**kept, "BYTEPS_PROGRAM_DIR": str(tmp_path), TOKEN_VARIABLE: token}
    assert still_there(carriers(token)) == {}


def bpslaunch(environment, *command: str):
    return finish(launch(command_line("byteps.cli.bpslaunch", *command), environment))


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, 1),
        ({"NVIDIA_VISIBLE_DEVICES": "0,1,2"}, 3),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, 1),
        ({"NVIDIA_VISIBLE_DEVICES": "void"}, 1),
        ({"BYTEPS_LOCAL_SIZE": "4"}, 4),
        ({"BYTEPS_LOCAL_SIZES": "3,1", "DMLC_WORKER_ID": "1"}, 1),
        ({"BYTEPS_LOCAL_SIZES": "3,1", "DMLC_WORKER_ID": "0", "BYTEPS_LOCAL_SIZE": "3"}, 3),
        ({"BYTEPS_LOCAL_SIZE": "2", "NVIDIA_VISIBLE_DEVICES": "0,1,2"}, 2),
    ],
)
def test_number_of_workers_on_the_machine(variables, expected) -> None:
    assert local_size(variables) == expected


@pytest.mark.parametrize(
    ("sizes", "more", "text"),
    [
        ("2,x", {}, "BYTEPS_LOCAL_SIZES is '2,x'"),
        ("2,1", {"BYTEPS_LOCAL_SIZE": "2"}, "BYTEPS_LOCAL_SIZE is 2.* gives machine 1 1 workers"),
        ("2", {}, "DMLC_WORKER_ID is .1., .* has machines 0 to 0"),
    ],
)
def test_numbers_of_machines_that_cannot_be_are_refused(sizes, more, text) -> None:
    with pytest.raises(BytepsError, match=text):
        local_size({"BYTEPS_LOCAL_SIZES": sizes, "DMLC_WORKER_ID": "1", **more})


def test_a_local_size_that_is_no_number_is_refused() -> None:
    for bad in ("two", "0", "-1", "²", "٣", "1025", "9" * 5000):
        with pytest.raises(BytepsError, match="BYTEPS_LOCAL_SIZE"):
            local_size({"BYTEPS_LOCAL_SIZE": bad})


@pytest.mark.parametrize("devices", [",", " , ,"])
def test_a_list_of_devices_that_names_none_is_refused(devices) -> None:
    with pytest.raises(BytepsError, match=r"NVIDIA_VISIBLE_DEVICES is .* names no device"):
        local_size({"NVIDIA_VISIBLE_DEVICES": devices})


def test_what_counts_as_distributed() -> None:
    assert is_distributed({"DMLC_NUM_WORKER": "2"})
    assert not is_distributed({"DMLC_NUM_WORKER": "1"})


@pytest.mark.parametrize(
    ("value", "expected"),
    [*((yes, True) for yes in ("1", "True", "yes", " on ")),
     *((no, False) for no in ("", "0", "False", "no", "off"))],
)  # fmt: skip
def test_the_force_flag_is_read_as_the_library_reads_it(value, expected) -> None:
    alone = {"DMLC_NUM_WORKER": "1", "BYTEPS_FORCE_DISTRIBUTED": value}
    assert is_distributed(alone) is expected


def test_a_force_flag_that_is_neither_on_nor_off_is_refused() -> None:
    with pytest.raises(BytepsError, match="BYTEPS_FORCE_DISTRIBUTED is 'maybe'"):
        is_distributed({"BYTEPS_FORCE_DISTRIBUTED": "maybe"})


def test_workers_of_a_machine_of_a_larger_job_are_told_what_torch_asks_for() -> None:
    def told(more: dict[str, str]) -> list[tuple[str | None, ...]]:
        specs = worker_specs(["x"], {**JOB, "BYTEPS_NUMA_ON": "0", **more})
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
        return [tuple(spec.environment.get(name) for name in names) for spec in specs]

    second = {"DMLC_NUM_WORKER": "2", "DMLC_WORKER_ID": "1", "RANK": "7"}
    assert told({**second, "BYTEPS_LOCAL_SIZE": "2"}) == [
        ("2", "4", "0", "2", "1"),
        ("3", "4", "1", "2", "1"),
    ]
    assert told({**second, "BYTEPS_LOCAL_SIZES": "3,1"}) == [("3", "4", "0", "1", "1")]
    own = {**second, "BYTEPS_LOCAL_SIZE": "1", "BYTEPS_GLOBAL_RANK": "0"}
    assert told(own) == [("7", None, None, None, None)]
    wrong = {**second, "DMLC_WORKER_ID": "2", "BYTEPS_LOCAL_SIZE": "1"}
    assert told(wrong)[0][1] is None


def test_missing_variables_by_role() -> None:
    assert missing_variables("server", {}) == list(JOB)
    assert missing_variables("worker", JOB) == ["DMLC_WORKER_ID"]
    assert missing_variables("worker", {"DMLC_NUM_WORKER": "1"}) == ["DMLC_WORKER_ID"]
    assert missing_variables("scheduler", JOB) == []


def test_missing_variables_are_named_and_the_exit_code_says_so(environment) -> None:
    code, out, err = bpslaunch({**environment, "DMLC_ROLE": "worker"}, "true")
    assert code == 1
    assert out == "BytePS launching worker\n"
    for name in (*JOB, "DMLC_WORKER_ID"):
        assert f"The env {name} is missing" in err.splitlines()


def test_an_unknown_role(environment) -> None:
    code, _, err = bpslaunch({**environment, **JOB, "DMLC_ROLE": "boss"}, "true")
    assert code == 1
    assert "boss" in err


def test_workers_get_local_ranks_and_keep_their_quoting(environment) -> None:
    worker = {**environment, **JOB, "DMLC_ROLE": "worker", "DMLC_WORKER_ID": "1"}
    worker["NVIDIA_VISIBLE_DEVICES"] = "0,1"
    script = 'echo "rank $BYTEPS_LOCAL_RANK of $BYTEPS_LOCAL_SIZE: $0|$1"'
    code, out, err = bpslaunch(worker, "sh", "-c", script, "two words", "$HOME *")
    assert code == 0, err
    lines = out.splitlines()
    for rank in (0, 1):
        assert f"rank {rank} of 2: two words|$HOME *" in lines
        assert f"BytePS launcher: joined local rank  {rank}" in lines


def worker_of(environment):
    return {**environment, **JOB, "DMLC_ROLE": "worker", "DMLC_WORKER_ID": "0"}


def test_a_single_argument_may_be_a_line_for_the_shell(environment) -> None:
    line = 'cd / && echo "in $PWD: $BYTEPS_LOCAL_RANK"; exit 3'
    code, out, _ = bpslaunch(worker_of(environment), line)
    assert code == 3
    assert "in /: 0" in out.splitlines()


def test_a_program_with_a_blank_in_its_name_is_no_line_for_the_shell(environment, tmp_path) -> None:
    program = tmp_path / "a program"
    program.write_text("#!/bin/sh\necho started\n")
    program.chmod(0o755)
    code, out, err = bpslaunch(worker_of(environment), str(program))
    assert code == 0, err
    assert "started" in out.splitlines()


@pytest.mark.parametrize("through", ["./", ""])
def test_a_script_that_names_no_interpreter_is_one_of_the_shell(
    environment, tmp_path, monkeypatch, through
) -> None:
    (tmp_path / "bare").write_text('echo "$BYTEPS_LOCAL_RANK: $1"; exit 3\n')
    (tmp_path / "bare").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    environment["PATH"] = f"{tmp_path}:{environment['PATH']}"
    code, out, err = bpslaunch(worker_of(environment), f"{through}bare", "two  words")
    assert code == 3, err
    assert "0: two  words" in out.splitlines()


def test_a_program_that_no_machine_can_run_is_not_given_to_the_shell(environment, tmp_path) -> None:
    (tmp_path / "foreign").write_bytes(b"\x7fELF\0\0\0\0echo started\n")
    (tmp_path / "foreign").chmod(0o755)
    code, out, err = bpslaunch(worker_of(environment), str(tmp_path / "foreign"))
    assert code == 126
    assert "started" not in out
    assert "foreign: Exec format error; ending the job" in err


def test_the_debugger_starts_every_role(environment, tmp_path) -> None:
    (tmp_path / "gdb").write_text('#!/bin/sh\necho "gdb $*"\n')
    (tmp_path / "gdb").chmod(0o755)
    environment["PATH"] = f"{tmp_path}:{environment['PATH']}"
    environment["BYTEPS_ENABLE_GDB"] = "1"
    options = "gdb -ex run -ex bt -batch --args"
    for role in ("server", "scheduler"):
        code, out, err = bpslaunch({**environment, **JOB, "DMLC_ROLE": role})
        assert code == 0, err
        assert f"{options} {tmp_path}/bps-{role}" in out.splitlines()
    for command, words in [
        (["python3", "t.py"], "python3 t.py"),
        (["/usr/bin/python3", "t.py"], "/usr/bin/python3 t.py"),
        (["t.py"], "python t.py"),
        (["cd / && python t.py"], "sh -c cd / && python t.py"),
    ]:
        code, out, err = bpslaunch(worker_of(environment), *command)
        assert code == 0, err
        assert f"{options} {words}" in out.splitlines()


def test_a_debugger_that_is_not_there_is_explained(environment, tmp_path) -> None:
    environment |= {"PATH": str(tmp_path), "BYTEPS_ENABLE_GDB": "1"}
    code, _, err = bpslaunch({**environment, **JOB, "DMLC_ROLE": "server"})
    assert (code, err) == (1, "bpslaunch: gdb cannot be started: No such file or directory.\n")


def test_a_failing_local_rank_ends_the_others(environment) -> None:
    worker = {**environment, **JOB, "DMLC_ROLE": "worker", "DMLC_WORKER_ID": "0"}
    worker["BYTEPS_LOCAL_SIZE"] = "2"
    script = "[ $BYTEPS_LOCAL_RANK = 1 ] && exit 5; sleep 1000"
    code, _, err = bpslaunch(worker, "sh", "-c", script)
    assert code == 5
    assert "local rank 1 ended with exit code 5" in err


def test_the_last_line_has_the_exception_and_the_output_is_unchanged(environment) -> None:
    worker = {**environment, **JOB, "DMLC_ROLE": "worker", "DMLC_WORKER_ID": "0"}
    program = (
        "import sys; sys.stderr.write('50% '); sys.stderr.flush(); print('a line')\n"
        "raise RuntimeError('no data in shard 7')"
    )
    code, out, err = bpslaunch(worker, sys.executable, "-c", program)
    assert code == 1
    assert out == "BytePS launching worker\na line\n"
    assert err.startswith("50% Traceback (most recent call last):\n")
    end = "local rank 0 ended with exit code 1 (RuntimeError: no data in shard 7); ending the job"
    assert err.splitlines()[-1] == f"[bps] {end}"


def test_on_a_terminal_the_workers_keep_it(environment) -> None:
    worker = {**environment, **JOB, "DMLC_ROLE": "worker", "DMLC_WORKER_ID": "0"}
    main, terminal = os.openpty()
    try:
        command = command_line("byteps.cli.bpslaunch", "sh", "-c", "test -t 2 && exit 5")
        process = subprocess.Popen(
            command, env=worker, stdout=subprocess.PIPE, stderr=terminal, text=True
        )
        os.close(terminal)
        code, _, _ = finish(process)
    finally:
        os.close(main)
    assert code == 5


@pytest.mark.parametrize("role", ["server", "scheduler"])
def test_services_become_their_program(environment, role) -> None:
    code, out, _ = bpslaunch({**environment, **JOB, "DMLC_ROLE": role})
    assert code == 0
    assert out == f"BytePS launching {role}\nprogram of {role}\n"


def test_one_machine_without_force_needs_no_server(environment) -> None:
    alone = {**environment, **JOB, "DMLC_NUM_WORKER": "1", "DMLC_ROLE": "server"}
    code, out, _ = bpslaunch(alone)
    assert code == 0
    assert "program of" not in out
    code, out, _ = bpslaunch({**alone, "BYTEPS_FORCE_DISTRIBUTED": "1"})
    assert "program of server" in out


@pytest.mark.parametrize("shares", [True, False])
def test_ranks_of_one_machine_share_memory_or_get_a_server(environment, shares) -> None:
    worker = {**environment, "DMLC_NUM_WORKER": "1", "DMLC_WORKER_ID": "0", "DMLC_ROLE": "worker"}
    worker["BYTEPS_LOCAL_SIZE"] = "2"
    if not shares:
        worker["BYTEPS_LOCAL_REDUCE"] = "0"
    script = "echo $BYTEPS_LOCAL_RANK/$BYTEPS_LOCAL_SIZE force=$BYTEPS_FORCE_DISTRIBUTED"
    code, out, err = bpslaunch(worker, "sh", "-c", script)
    assert code == 0, err
    assert ("program of server" in out) != shares
    for rank in (0, 1):
        assert f"{rank}/2 force={0 if shares else 1}" in out
    joined = sorted(line for line in out.splitlines() if "joined" in line)
    assert joined == [f"BytePS launcher: joined local rank  {rank}" for rank in (0, 1)]


@pytest.mark.parametrize("other", [{}, {"DMLC_INTERFACE": "lo", "DMLC_LOG_STACK_TRACE": "1"}])
def test_without_a_role_it_is_bps_run(environment, other) -> None:
    code, out, err = bpslaunch({**environment, **other}, "-np", "2", "echo", "hello")
    assert code == 0, err
    assert "[worker 1] hello" in out


def test_a_job_without_a_role_is_no_job_of_this_machine(environment) -> None:
    for variables in (JOB, {"DMLC_WORKER_ID": "0"}):
        for role in ({}, {"DMLC_ROLE": ""}):
            code, out, err = bpslaunch({**environment, **variables, **role}, "python", "train.py")
            assert (code, out) == (1, "")
            assert "The env DMLC_ROLE is missing" in err.splitlines()
            assert f"bpslaunch: {', '.join(sorted(variables))} say" in err
            assert "-np 2" in err


@pytest.mark.parametrize("variables", [{}, JOB])
def test_the_help_says_what_it_does_with_and_without_a_role(environment, variables) -> None:
    for option in ("-h", "--help"):
        code, out, err = bpslaunch({**environment, **variables}, option)
        assert code == 0, err
        assert "DMLC_ROLE is\nworker, server or scheduler" in out
        assert "Usage: bps run" in out


@pytest.mark.parametrize(
    ("variables", "needed"),
    [
        ({"DMLC_NUM_WORKER": "1"}, 0),
        ({"DMLC_NUM_WORKER": "1", "BYTEPS_MIN_WORKERS": "3"}, 3),
        ({"DMLC_NUM_WORKER": "2", "BYTEPS_MIN_WORKERS": "3"}, 1),  # the scheduler counts the rest
        ({"DMLC_NUM_WORKER": "2", "BYTEPS_MIN_WORKERS": "0"}, 0),
    ],
)
def test_how_many_workers_of_the_machine_must_live(variables, needed) -> None:
    assert loss_policy(variables).min_workers == needed


def test_a_number_of_workers_that_is_none_is_refused() -> None:
    with pytest.raises(BytepsError, match="BYTEPS_MIN_WORKERS"):
        loss_policy({"BYTEPS_MIN_WORKERS": "most"})
    with pytest.raises(BytepsError, match="BYTEPS_MIN_WORKERS"):
        loss_policy({"BYTEPS_MIN_WORKERS": "²"})


def test_a_lost_local_rank_does_not_end_the_others_where_the_job_allows_it(
    environment, tmp_path
) -> None:
    worker = {**environment, **JOB, "DMLC_ROLE": "worker", "DMLC_WORKER_ID": "0"}
    worker |= {"BYTEPS_LOCAL_SIZE": "2", "BYTEPS_MIN_WORKERS": "3"}
    script = "[ $BYTEPS_LOCAL_RANK = 1 ] && kill -9 $$; read line < $GO_ON; echo done"
    go_on = tmp_path / "go_on"
    os.mkfifo(go_on)
    command = command_line("byteps.cli.bpslaunch", "sh", "-c", script)
    process = launch(command, {**worker, "GO_ON": str(go_on)})
    lost = "local rank 1 was killed by signal 9 (SIGKILL); going on with 1 worker"
    wait_for_line(process, lost, of=process.stderr)
    go_on.write_text("go on\n")
    code, out, err = finish(process)
    assert code == 0, err
    assert "done" in out
