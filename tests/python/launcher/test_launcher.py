"""`bps run` with shell commands as workers, and shell scripts as servers."""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from functools import partial
from pathlib import Path

import pytest
from processes import (
    LIMIT_S,
    SOURCE,
    TOKEN_VARIABLE,
    carriers,
    command_line,
    finish,
    launch,
    wait_for_line,
    wait_until,
)
from processes import wait_until_gone as still_there

SHORT_SERVICE = "#!/bin/sh\nexit 0\n"
LASTING_SERVICE = """#!/bin/sh
echo "role $DMLC_ROLE ready"
while :; do sleep 1000 & wait; done
"""


def write_services(folder, text: str) -> None:
    for name in ("bps-server", "bps-scheduler"):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


@pytest.fixture
def environment(tmp_path):
    """The environment of a launcher whose servers are shell scripts; nothing of it may be left."""
    write_services(tmp_path, SHORT_SERVICE)
    token = uuid.uuid4().hex
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DMLC_", "BYTEPS_"))}
    yield {**kept, "BYTEPS_PROGRAM_DIR": str(tmp_path), TOKEN_VARIABLE: token}
    assert still_there(carriers(token)) == {}


@pytest.fixture
def lasting(environment, tmp_path):
    """The same with servers that end only when told to."""
    write_services(tmp_path, LASTING_SERVICE)
    return environment


def bps_run(environment, *arguments: str, **options) -> subprocess.Popen[str]:
    command = command_line("byteps.cli", "run", "--grace", "0.5", *arguments)
    return launch(command, environment, **options)


def test_every_line_carries_its_process_and_the_end_is_quiet(environment) -> None:
    script = 'echo "out $BYTEPS_LOCAL_RANK"; echo "err $BYTEPS_LOCAL_RANK" >&2; printf last'
    code, out, err = finish(bps_run(environment, "-np", "2", "sh", "-c", script))
    assert code == 0, err
    lines = out.splitlines()
    for rank in (0, 1):
        assert f"[worker {rank}] out {rank}" in lines
        assert f"[worker {rank}] last" in lines
        assert f"[worker {rank}] err {rank}" in err.splitlines()


def test_workers_that_share_memory_have_no_services(environment) -> None:
    script = "echo $DMLC_ROLE $DMLC_NUM_SERVER $BYTEPS_FORCE_DISTRIBUTED id=$BYTEPS_JOB_ID"
    code, out, err = finish(bps_run(environment, "-np", "2", "sh", "-c", script))
    assert code == 0, err
    lines = sorted(out.splitlines())
    assert [line.partition(" id=")[0] for line in lines] == [
        "[worker 0] worker 0 0",
        "[worker 1] worker 0 0",
    ]
    first, second = (line.partition(" id=")[2] for line in lines)
    assert first == second != ""


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        (("--servers", "1"), {}),
        (("--min-np", "1"), {}),
        ((), {"BYTEPS_LOCAL_REDUCE": "0"}),
    ],
)
def test_whoever_asks_for_servers_gets_them(environment, options, variables) -> None:
    script = "echo servers=$DMLC_NUM_SERVER force=$BYTEPS_FORCE_DISTRIBUTED"
    environment = {**environment, **variables}
    code, out, err = finish(bps_run(environment, "-np", "2", *options, "sh", "-c", script))
    assert code == 0, err
    assert "[worker 1] servers=1 force=1" in out


def test_the_environment_of_each_role(environment) -> None:
    names = (
        "DMLC_ROLE DMLC_NUM_WORKER DMLC_NUM_SERVER DMLC_WORKER_ID BYTEPS_LOCAL_SIZE "
        "BYTEPS_FORCE_DISTRIBUTED DMLC_PS_ROOT_URI"
    )
    script = f"for n in {names}; do eval echo $n=\\$$n; done; echo id=$BYTEPS_JOB_ID."
    environment |= {"DMLC_INTERFACE": "none", "BYTEPS_GLOBAL_RANK": "7"}
    environment |= {"BYTEPS_ADDRESS_CIDR": "10.0.0.0/8"}
    script += "; echo left=$DMLC_INTERFACE$BYTEPS_GLOBAL_RANK$BYTEPS_ADDRESS_CIDR."
    code, out, err = finish(bps_run(environment, "-np", "2", "--servers", "3", "sh", "-c", script))
    assert code == 0, err
    lines = [line.removeprefix("[worker 1] ") for line in out.splitlines() if "worker 1" in line]
    assert lines[:7] == [
        "DMLC_ROLE=worker",
        "DMLC_NUM_WORKER=1",
        "DMLC_NUM_SERVER=3",
        "DMLC_WORKER_ID=0",
        "BYTEPS_LOCAL_SIZE=2",
        "BYTEPS_FORCE_DISTRIBUTED=1",
        "DMLC_PS_ROOT_URI=127.0.0.1",
    ]
    assert len(lines[7]) > len("id=.")
    assert lines[8] == "left=."


def test_arguments_of_the_command_are_not_the_launchers(environment) -> None:
    process = bps_run(environment, "-np", "1", "echo", "--servers", "two words", "-h")
    code, out, _ = finish(process)
    assert code == 0
    assert "[worker 0] --servers two words -h" in out.splitlines()


def test_the_first_failure_ends_the_job_with_its_exit_code(lasting) -> None:
    script = "[ $BYTEPS_LOCAL_RANK = 1 ] && exit 7; sleep 1000"
    code, _, err = finish(bps_run(lasting, "-np", "3", "sh", "-c", script))
    assert code == 7
    assert "worker 1 ended with exit code 7; ending the job" in err


def test_a_chosen_exit_code_comes_before_that_of_an_exception(lasting) -> None:
    worker = "[ $BYTEPS_LOCAL_RANK = 1 ] && sleep 0.1 && exit 7; exit 1"
    script = (
        "import os, sys\n"
        "from byteps.cli import first_cause\n"
        "from byteps.cli.local_job import local_job\n"
        "from byteps.cli.supervisor import Supervisor\n"
        f"first_cause._WINDOW_S = {LIMIT_S}\n"  # it ends when all have ended
        f"job = local_job(3, 0, ['sh', '-c', '{worker}'], os.environ)\n"
        "sys.exit(Supervisor(job, grace_s=60, prefixed=True).run().exit_code)"
    )
    code, _, err = finish(launch([*command_line("byteps.cli")[:1], "-c", script], lasting))
    assert code == 7
    assert "worker 1 ended with exit code 7; ending the job" in err


def test_a_worker_killed_by_a_signal_is_named(lasting) -> None:
    script = "[ $BYTEPS_LOCAL_RANK = 1 ] && kill -9 $$; sleep 1000"
    code, _, err = finish(bps_run(lasting, "-np", "2", "sh", "-c", script))
    assert code == 128 + 9
    assert "worker 1 was killed by signal 9 (SIGKILL); ending the job" in err


def test_a_server_that_dies_ends_the_job(lasting, tmp_path) -> None:
    (tmp_path / "bps-server").write_text("#!/bin/sh\nkill -6 $$\n")
    code, _, err = finish(bps_run(lasting, "-np", "2", "--servers", "1", "sleep", "1000"))
    assert code == 128 + 6
    assert "server 0 was killed by signal 6 (SIGABRT)" in err


def test_workers_that_ignore_sigterm_are_killed(lasting) -> None:
    script = "trap '' TERM; [ $BYTEPS_LOCAL_RANK = 1 ] && exit 3; while :; do sleep 1000; done"
    code, _, err = finish(bps_run(lasting, "-np", "2", "sh", "-c", script))
    assert code == 3, err


def test_a_command_that_does_not_exist(lasting) -> None:
    code, _, err = finish(bps_run(lasting, "-np", "2", "/no/such/program"))
    assert code == 127
    assert "worker 0 cannot be started: /no/such/program" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_signals_reach_the_workers(lasting, number) -> None:
    name = signal.Signals(number).name.removeprefix("SIG")
    script = (
        f"trap 'echo got {name}; exit 0' {name}; echo ready; while :; do sleep 1000 & wait; done"
    )
    # A busy machine needs longer than a moment to run the trap.
    command = command_line("byteps.cli", "run", "--grace", "1000", "-np", "1", "sh", "-c", script)
    # Whoever runs the tests under nohup has hangups ignored, and programs inherit that.
    process = launch(command, lasting, preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    wait_for_line(process, "[worker 0] ready")
    process.send_signal(number)
    code, out, err = finish(process)
    assert code == 128 + number
    assert f"[worker 0] got {name}" in out
    assert f"got SIG{name}; ending the job" in err


def test_descendants_end_with_the_job_even_in_sessions_of_their_own(environment) -> None:
    script = "setsid sleep 1000 & setsid sh -c 'sleep 1000; true' & echo started; exit 0"
    code, _, err = finish(bps_run(environment, "-np", "2", "sh", "-c", script))
    assert code == 0, err  # the fixture looks for what is left


def test_nothing_is_left_when_the_launcher_is_killed(lasting) -> None:
    script = "setsid sleep 1000 & sleep 1000 & echo ready; wait"
    process = bps_run(lasting, "-np", "2", "--servers", "2", "sh", "-c", script)
    for _ in range(2):
        wait_for_line(process, "] ready")  # of a worker: the services have other words
    running = carriers(lasting[TOKEN_VARIABLE])
    assert len(running) >= 8
    process.kill()
    process.wait()
    assert still_there(running) == {}
    finish(process)  # nobody holds the pipes open


def test_workers_that_never_read_signals_end_when_asked_twice(lasting) -> None:
    script = "trap '' INT TERM; echo ready; while :; do sleep 1000; done"
    command = command_line("byteps.cli", "run", "--grace", "1000", "-np", "1", "sh", "-c", script)
    process = launch(command, lasting)
    wait_for_line(process, "[worker 0] ready")
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert "got SIGINT" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    code, _, _ = finish(process)
    assert code == 128 + signal.SIGINT


@pytest.mark.parametrize("grace", ["inf", "3000000"])
def test_a_grace_time_without_end_leaves_the_workers_all_of_it(lasting, tmp_path, grace) -> None:
    os.mkfifo(tmp_path / "more")
    script = (
        f"trap 'echo ending; cat {tmp_path}/more; exit 0' TERM; "
        "echo ready; while :; do sleep 1000 & wait; done"
    )
    command = command_line("byteps.cli", "run", "--grace", grace, "-np", "1", "sh", "-c", script)
    process = launch(command, lasting)
    wait_for_line(process, "[worker 0] ready")
    process.send_signal(signal.SIGTERM)
    wait_for_line(process, "[worker 0] ending")
    (tmp_path / "more").write_text("saved\n")
    code, out, err = finish(process)
    assert (code, err) == (128 + signal.SIGTERM, "[bps] got SIGTERM; ending the job\n")
    assert "[worker 0] saved" in out


def test_an_ignored_hangup_stays_ignored(environment, tmp_path) -> None:
    script = "echo ready; read line < $FIFO; echo done"
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    process = bps_run(
        {**environment, "FIFO": str(fifo)},
        *("-np", "1", "sh", "-c", script),
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    wait_for_line(process, "ready")
    process.send_signal(signal.SIGHUP)
    fifo.write_text("go\n")
    code, out, err = finish(process)
    assert (code, err) == (0, "")
    assert "[worker 0] done" in out


def test_a_closed_output_ends_the_job(lasting) -> None:
    process = bps_run(lasting, "-np", "1", "sh", "-c", "while :; do echo line; done")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(LIMIT_S) == 128 + signal.SIGPIPE
    assert process.stderr is not None
    process.stderr.close()


def test_an_output_that_fails_leaves_the_grace_time(lasting, tmp_path) -> None:
    write_services(tmp_path, LASTING_SERVICE.replace("echo", "true"))  # the worker speaks first
    saved = tmp_path / "saved"
    script = (
        f"trap 'sleep 0.2; echo more; echo done > {saved}; exit 0' TERM; "
        "echo line; while :; do sleep 1000 & wait; done"
    )
    command = command_line("byteps.cli", "run", "--grace", "1000", "-np", "1", "sh", "-c", script)
    with Path("/dev/full").open("w") as full:
        job = subprocess.run(
            command,
            env={**lasting, "PYTHONPATH": str(SOURCE)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=LIMIT_S,
        )
    assert job.returncode == 128 + signal.SIGPIPE
    assert "bps cannot write to its output: No space left on device; ending the job" in job.stderr
    assert saved.exists()


# More than a pipe takes that nobody reads, so that the launcher has to keep the rest.
MUCH = "head -c 500000 /dev/zero | tr '\\0' x | fold -w 1000; echo; echo last"


def test_a_reader_that_has_paused_does_not_stop_the_launcher(lasting, tmp_path) -> None:
    os.mkfifo(tmp_path / "written")
    script = f"{MUCH}; echo > {tmp_path}/written; sleep 1000"
    process = bps_run(lasting, "-np", "1", "sh", "-c", script)
    (tmp_path / "written").read_text()
    process.send_signal(signal.SIGTERM)
    assert process.wait(LIMIT_S) == 128 + signal.SIGTERM
    _, out, err = finish(process)
    assert "[worker 0] xxx" in out
    assert "got SIGTERM; ending the job" in err


@pytest.mark.parametrize("interrupted", [False, True])
def test_after_the_job_the_last_lines_wait_for_the_reader(
    environment, tmp_path, interrupted
) -> None:
    os.mkfifo(tmp_path / "worker")
    script = f"{MUCH}; echo $$ > {tmp_path}/worker"
    process = bps_run(environment, "-np", "1", "sh", "-c", script)
    worker = Path("/proc", (tmp_path / "worker").read_text().strip())
    wait_until(lambda: not worker.exists())  # reaped: the launcher has only its output left
    if interrupted:
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == 0
    code, out, err = finish(process)
    assert code == 0, err
    assert ("[worker 0] last" in out.splitlines()) is not interrupted


@pytest.mark.parametrize("name", ["USR1", "USR2"])
def test_signals_of_the_user_reach_the_workers_and_end_nothing(environment, tmp_path, name) -> None:
    # A process of the worker, in its process group, that the signal would end.
    script = (
        f"sleep 1000 & trap 'kill $!; wait $!; echo got {name}, other $?; exit 0' {name}; "
        "echo ready; wait; wait"
    )
    process = bps_run(environment, "-np", "2", "sh", "-c", script)
    for _ in range(2):
        wait_for_line(process, "ready")
    process.send_signal(signal.Signals[f"SIG{name}"])
    code, out, err = finish(process)
    assert code == 0, err
    other = 128 + signal.SIGTERM
    lines = [f"[worker {rank}] got {name}, other {other}" for rank in (0, 1)]
    assert sorted(out.splitlines()) == lines


def is_stopped(process: int) -> bool:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_workers_that_a_signal_has_stopped_are_none_to_go_on_with(lasting) -> None:
    process = bps_run(lasting, "-np", "3", "--min-np", "1", "sh", "-c", "echo pid $$; sleep 1000")
    workers = []
    assert process.stdout is not None
    for line in process.stdout:
        if "] pid " in line:
            workers.append(int(line.split()[-1]))
        if len(workers) == 3:
            break
    for worker in workers[1:]:
        os.kill(worker, signal.SIGSTOP)
        wait_until(partial(is_stopped, worker))
    os.kill(workers[0], signal.SIGKILL)
    code, _, err = finish(process)
    assert code == 128 + signal.SIGKILL
    assert "(SIGKILL); none left; ending the job" in err


def test_servers_that_outlast_the_workers_are_ended(lasting) -> None:
    script = (
        "import os\n"
        "from byteps.cli.local_job import local_job\n"
        "from byteps.cli.supervisor import Supervisor\n"
        "job = local_job(1, 1, ['true'], os.environ)\n"
        "print(Supervisor(job, grace_s=60, prefixed=True, drain_s=0.1).run().exit_code)"
    )
    command = [*command_line("byteps.cli")[:1], "-c", script]
    code, out, err = finish(launch(command, lasting))
    assert code == 0, err
    assert out.splitlines()[-1] == "0"
    assert "the workers are done, but not scheduler, server 0" in err


def test_all_that_a_launcher_has_to_say_at_the_start_is_said(environment) -> None:
    """Where workers are bound to cores and get a number of threads, both have a sentence."""
    script = (
        "import os\n"
        "from byteps.cli.local_job import local_job\n"
        "from byteps.cli.supervisor import Supervisor\n"
        "supervisor = Supervisor(local_job(1, 0, ['true'], os.environ), 60, prefixed=True)\n"
        "supervisor.on_started(lambda: supervisor.say('first'))\n"
        "supervisor.on_started(lambda: supervisor.say('second'))\n"
        "supervisor.run()"
    )
    command = [*command_line("byteps.cli")[:1], "-c", script]
    code, _, err = finish(launch(command, environment))
    assert code == 0, err
    assert err.splitlines() == ["[bps] first", "[bps] second"]


def test_a_signal_after_the_workers_ends_the_servers(lasting) -> None:
    command = command_line("byteps.cli", "run", "--grace", "1000", "-np", "1", "echo", "done")
    process = launch(command, lasting)
    wait_for_line(process, "[worker 0] done")
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 128 + signal.SIGINT, err


def test_long_lines_of_many_processes_stay_whole(environment) -> None:
    script = (
        "import os\n"
        "mark = os.environ['BYTEPS_LOCAL_RANK']\n"
        "for _ in range(20):\n"
        "    for _ in range(100):\n"
        "        os.write(1, mark.encode() * 997)\n"
        "    os.write(1, b'\\n')\n"
    )
    command = command_line("byteps.cli", "run", "-np", "3", "python3", "-c", script)
    code, out, _ = finish(launch(command, environment))
    assert code == 0
    lines = [line for line in out.splitlines() if line.startswith("[worker")]
    assert len(lines) == 60
    for line in lines:
        label, _, text = line.partition("] ")
        assert text == label[-1] * 99700


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1), (0, 1, 2)])
@pytest.mark.parametrize("through", ["run", "bpslaunch"])
def test_a_launcher_whose_standard_descriptors_are_closed(
    environment, tmp_path, closed, through
) -> None:
    script = f"read line; echo out && echo err >&2 && echo $BYTEPS_LOCAL_RANK >> {tmp_path}/said"
    if through == "run":
        command = command_line("byteps.cli", "run", "-np", "2", "sh", "-c", script)
    else:
        environment |= {"DMLC_ROLE": "worker", "DMLC_NUM_WORKER": "1", "DMLC_WORKER_ID": "0"}
        environment |= {"BYTEPS_LOCAL_SIZE": "2"}
        command = command_line("byteps.cli.bpslaunch", "sh", "-c", script)
    names = [" <", " >", " 2>"]
    line = 'exec "$@" </dev/null' + "".join(f"{names[number]}&-" for number in closed)
    code, out, err = finish(launch(["sh", "-c", line, "sh", *command], environment))
    assert (code, "Traceback" in err) == (0, False)
    assert sorted((tmp_path / "said").read_text().split()) == ["0", "1"]
    if 1 not in closed:
        assert len([line for line in out.splitlines() if line.endswith("out")]) == 2
    if 2 not in closed:
        assert len([line for line in err.splitlines() if line.endswith("err")]) == 2


def test_help_has_examples(environment) -> None:
    code, out, _ = finish(launch(command_line("byteps.cli", "run", "--help"), environment))
    assert code == 0
    assert "bps run -np 2 python train.py" in out
    code, out, _ = finish(launch(command_line("byteps.cli", "--help"), environment))
    assert "scheduler" in out


def test_a_missing_server_program_is_explained(environment) -> None:
    environment["BYTEPS_PROGRAM_DIR"] = "/no/such/folder"
    code, _, err = finish(bps_run(environment, "-np", "1", "true"))
    assert code == 1
    assert "/no/such/folder" in err


def test_server_and_scheduler_commands_become_the_programs(environment, tmp_path) -> None:
    for name in ("server", "scheduler"):
        script = '#!/bin/sh\necho "$DMLC_ROLE $*"\n'
        (tmp_path / f"bps-{name}").write_text(script)
        process = launch(command_line("byteps.cli", name, "--help", "-x"), environment)
        assert finish(process)[:2] == (0, f"{name} --help -x\n")


def test_importing_the_server_module_runs_the_role(environment, tmp_path) -> None:
    for role, program in (("scheduler", "bps-scheduler"), ("server", "bps-server"), ("", None)):
        (tmp_path / (program or "bps-server")).write_text('#!/bin/sh\necho "I am $DMLC_ROLE"\n')
        command = [*command_line("byteps.server")[:1], "-c", "import byteps.server"]
        code, out, _ = finish(launch(command, {**environment, "DMLC_ROLE": role}))
        assert (code, out) == (0, f"I am {role or 'server'}\n")


def test_the_launcher_imports_no_framework(environment) -> None:
    script = (
        "import sys, byteps.cli.main, byteps.cli.bpslaunch\n"
        "print([m for m in ('torch', 'numpy', 'tensorflow') if m in sys.modules])"
    )
    command = [*command_line("byteps.cli")[:1], "-c", script]
    assert finish(launch(command, environment))[1] == "[]\n"
