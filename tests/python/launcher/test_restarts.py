"""`bps run` when processes die: shell scripts as workers, servers and scheduler.

The services die as often as the environment says and then live until the file `done` is there.
"""

from __future__ import annotations

import re
import signal
import uuid
from pathlib import Path

import pytest
from processes import TOKEN_VARIABLE, carriers, command_line, finish, launch, wait_for_line
from processes import wait_until_gone as still_there

# DIE_SERVER_1="2 KILL": the first two starts of server 1 end by this signal; "2 7": with this code.
SERVICE = r"""#!/bin/sh
name=$(echo "$DMLC_ROLE${DMLC_RANK:+_$DMLC_RANK}")
echo start >> "$FLAGS/$name"
starts=$(wc -l < "$FLAGS/$name")
echo "start $starts of $name: $DMLC_PS_ROOT_PORT $BYTEPS_JOB_ID min=$BYTEPS_MIN_WORKERS"
options=$(env | grep -E "^(DMLC|BYTEPS)_" | grep -v EXIT_NOTICES | sort | cksum)
echo "options $options"
eval "set -- \$DIE_$name"
if [ "$starts" -le "${1:-0}" ]; then
  if [ -n "$AFTER_NOTICE" ]; then read -r notice <&"$BYTEPS_EXIT_NOTICES"; echo "heard $notice"; fi
  case "$2" in [0-9]*) exit "$2" ;; *) kill -s "$2" $$ ;; esac
fi
touch "$FLAGS/$name.$starts"
if [ -n "$LISTEN" ] && [ -n "$BYTEPS_EXIT_NOTICES" ]; then
  while read -r line <&"$BYTEPS_EXIT_NOTICES"; do
    echo "heard $line"; touch "$FLAGS/heard.$starts"
  done &
fi
until [ -e "$FLAGS/done" ]; do sleep 0.02; done
"""
# A worker: `wait_for FILE` and then the rest of the script.
WORKER = 'wait_for() { until [ -e "$FLAGS/$1" ]; do sleep 0.02; done; }; me=$BYTEPS_LOCAL_RANK; '


@pytest.fixture
def environment(tmp_path):
    flags = tmp_path / "flags"
    flags.mkdir()
    for name in ("bps-server", "bps-scheduler"):
        (tmp_path / name).write_text(SERVICE)
        (tmp_path / name).chmod(0o755)
    token = uuid.uuid4().hex
    plain = {"PATH": "/usr/local/bin:/usr/bin:/bin", "FLAGS": str(flags), "OMP_NUM_THREADS": "1"}
    yield {**plain, "BYTEPS_PROGRAM_DIR": str(tmp_path), TOKEN_VARIABLE: token}
    assert still_there(carriers(token)) == {}


def run(environment, script: str, *options: str, workers: int = 2, servers: int = 2):
    counts = ["-np", str(workers), "--servers", str(servers), "--grace", "0.5"]
    command = command_line("byteps.cli", "run", *counts, *options, "sh", "-c", WORKER + script)
    return launch(command, environment)


def messages(err: str) -> list[str]:
    return [line.removeprefix("[bps] ") for line in err.splitlines() if line.startswith("[bps]")]


def go_on_after(process, environment, text: str, flag: str = "done") -> str:
    """Wait until the launcher has said something, and write a flag; return what it has said."""
    said = wait_for_line(process, text, of=process.stderr)
    Path(environment["FLAGS"], flag).touch()
    return said


def test_a_dead_server_is_started_again_in_its_place(environment) -> None:
    environment["DIE_server_1"] = "2 KILL"
    code, out, err = finish(run(environment, 'wait_for server_1.3; touch "$FLAGS/done"'))
    assert code == 0, err
    assert messages(err) == [
        f"server 1 was killed by signal 9 (SIGKILL); restarting it ({n} of 3)" for n in (1, 2)
    ]
    starts = [line.partition(": ") for line in out.splitlines() if "of server_1" in line]
    assert [start for start, _, _ in starts] == [
        f"[server 1] start {n} of server_1" for n in (1, 2, 3)
    ]
    assert len({job for _, _, job in starts}) == 1


def test_a_server_that_exits_with_an_error_is_started_again_too(environment) -> None:
    environment["DIE_server_0"] = "1 7"
    code, _, err = finish(run(environment, 'wait_for server_0.2; touch "$FLAGS/done"'))
    assert code == 0, err
    assert messages(err) == ["server 0 ended with exit code 7; restarting it (1 of 3)"]


def test_a_dead_scheduler_is_started_again_on_its_port(environment) -> None:
    environment["DIE_scheduler"] = "1 SEGV"
    code, out, err = finish(run(environment, 'wait_for scheduler.2; touch "$FLAGS/done"'))
    assert code == 0, err
    assert messages(err) == ["scheduler was killed by signal 11 (SIGSEGV); restarting it (1 of 3)"]
    jobs = {line.partition(": ")[2] for line in out.splitlines() if " of scheduler: " in line}
    assert len(jobs) == 1, out
    told = [line for line in out.splitlines() if "[scheduler] options" in line]
    assert len(told) == 2, out
    assert len(set(told)) == 1, "it finds out by itself that its job runs"


def test_every_scheduler_hears_of_all_ends(environment) -> None:
    """The first one dies after a notice; the next hears the same one, and the ones that follow."""
    environment |= {"DIE_scheduler": "1 KILL", "AFTER_NOTICE": "1", "LISTEN": "1"}
    script = '[ $me = 1 ] && { echo "me $$"; exit 0; }; wait_for heard.2; touch "$FLAGS/done"'
    code, out, err = finish(run(environment, script))
    assert code == 0, err
    first = next(line.split()[-1] for line in out.splitlines() if "[worker 1] me" in line)
    heard = [line for line in out.splitlines() if "heard" in line]
    assert heard[:2] == [f"[scheduler] heard exited {first} worker 1"] * 2, out


def test_without_restarts_the_job_goes_on_while_a_server_lives(environment) -> None:
    environment["DIE_server_1"] = "1 KILL"
    process = run(environment, "wait_for done", "--restart", "0")
    said = go_on_after(process, environment, "going on with 1 server")
    code, _, err = finish(process)
    assert code == 0, err
    assert messages(said + err) == [
        "server 1 was killed by signal 9 (SIGKILL); going on with 1 server",
        "ended with 1 of 2 servers; lost: server 1",
    ]


def test_when_the_restarts_are_used_up_the_last_server_ends_the_job(environment) -> None:
    environment["DIE_server_0"] = "9 KILL"
    code, _, err = finish(run(environment, "wait_for never", "--restart", "1", servers=1))
    assert code == 128 + signal.SIGKILL
    assert messages(err)[-1] == (
        "server 0 was killed by signal 9 (SIGKILL); 1 restart used up; ending the job"
    )


@pytest.mark.parametrize(("how", "code"), [("9 KILL", 137), ("9 1", 1)])
def test_a_scheduler_that_cannot_be_started_again_ends_the_job(environment, how, code) -> None:
    environment["DIE_scheduler"] = how
    options = ["--restart", "0"] if code == 137 else []
    ended, _, err = finish(run(environment, "wait_for never", *options))
    assert ended == code
    assert len(messages(err)) == 1
    assert messages(err)[0].startswith("scheduler ")
    assert messages(err)[0].endswith("; ending the job")


def test_the_job_goes_on_without_a_dead_worker(environment) -> None:
    script = '[ $me = 1 ] && { sleep 1000 & echo "child $!"; kill -9 $$; }; wait_for done'
    process = run(environment, script, "--min-np", "2", workers=3)
    said = go_on_after(process, environment, "going on with 2 workers")
    code, out, err = finish(process)
    assert code == 0, out + err
    assert messages(said + err) == [
        "worker 1 was killed by signal 9 (SIGKILL); going on with 2 workers",
        "ended with 2 of 3 workers; lost: worker 1",
    ]


def test_what_a_dead_worker_has_started_ends_with_it(environment) -> None:
    script = (
        '[ $me = 1 ] && { sleep 1000 & echo "$!" > "$FLAGS/child"; kill -9 $$; }; '
        'wait_for child; child=$(cat "$FLAGS/child"); '
        'while kill -0 "$child" 2>/dev/null; do sleep 0.02; done; touch "$FLAGS/done"'
    )
    code, _, err = finish(run(environment, script, "--min-np", "1"))
    assert code == 0, err


def test_with_too_few_workers_the_job_ends(environment) -> None:
    script = "[ $me = 0 ] && kill -9 $$; [ $me = 1 ] && { wait_for go; exit 6; }; wait_for never"
    process = run(environment, script, "--min-np", "2", workers=3)
    said = go_on_after(process, environment, "going on with 2 workers", "go")
    code, _, err = finish(process)
    assert code == 6
    assert messages(said + err) == [
        "worker 0 was killed by signal 9 (SIGKILL); going on with 2 workers",
        "worker 1 ended with exit code 6; 1 worker left, --min-np is 2; ending the job",
    ]


@pytest.mark.parametrize("before", ["", "wait_for done; sleep 0.5;"], ids=["first", "last"])
def test_a_worker_that_is_stopped_does_not_hold_the_job(environment, before) -> None:
    """Also not if it is stopped when all others have ended."""
    script = f'if [ $me = 1 ]; then {before} kill -s STOP $$; fi; touch "$FLAGS/done"'
    program = (
        "import os, sys\n"
        "from byteps.cli.local_job import local_job\n"
        "from byteps.cli.lost_processes import LossPolicy\n"
        "from byteps.cli.supervisor import Supervisor\n"
        "job = local_job(2, 1, ['sh', '-c', sys.argv[1]], os.environ, 1)\n"
        "policy = LossPolicy(0, 1)\n"
        "print(Supervisor(job, 0.2, prefixed=True, policy=policy, drain_s=0.2).run().exit_code)"
    )
    command = [*command_line("byteps.cli")[:1], "-c", program, WORKER + script]
    code, out, err = finish(launch(command, environment))
    assert (code, out.splitlines()[-1]) == (0, "0"), out + err
    (message,) = messages(err)
    # On a busy machine the others, too, need longer than the 0.2 s.
    expected = r"the workers are done, but not (scheduler, )?(server 0, )?worker 1; ending the job"
    assert re.fullmatch(expected, message)


def test_a_signal_ends_the_job_while_a_server_is_down(environment) -> None:
    environment["DIE_server_0"] = "99 KILL"
    process = run(environment, "wait_for never", "--restart", "99")
    wait_for_line(process, "start 4 of server_0")  # by now there is a wait before each start
    process.send_signal(signal.SIGTERM)
    code, _, err = finish(process)
    assert code == 128 + signal.SIGTERM
    assert "got SIGTERM; ending the job" in err


def test_a_server_that_comes_too_late_is_ended_without_a_word(environment) -> None:
    """The scheduler ends in order; a server that it never knew does not hear of it."""
    environment["DIE_server_0"] = "1 KILL"
    script = 'wait_for server_0.2; touch "$FLAGS/only_scheduler"'
    folder = environment["BYTEPS_PROGRAM_DIR"]
    Path(folder, "bps-scheduler").write_text(SERVICE.replace("FLAGS/done", "FLAGS/only_scheduler"))
    code, _, err = finish(run(environment, script, servers=1))
    assert code == 0, err
    assert messages(err) == ["server 0 was killed by signal 9 (SIGKILL); restarting it (1 of 3)"]


def test_the_number_of_workers_is_checked_and_told_to_all(environment) -> None:
    code, _, err = finish(run(environment, "true", "--min-np", "3"))
    assert code == 1
    assert "--min-np is 3, but there are only 2 workers" in err
    script = 'echo "min=$BYTEPS_MIN_WORKERS rank=$DMLC_RANK."; touch "$FLAGS/done"'
    code, out, _ = finish(run({**environment, "BYTEPS_MIN_WORKERS": "2"}, script))
    assert code == 0
    assert out.count("min=2") == 5, out  # two workers, two servers, the scheduler
    assert out.count("rank=.") == 2, out
    code, out, _ = finish(run({**environment, "BYTEPS_MIN_WORKERS": "2"}, script, "--min-np", "1"))
    assert out.count("min=1") == 5, out
