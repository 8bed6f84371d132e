"""`bps run` names the cause of an end, also when those who heard of it end first."""

from __future__ import annotations

import os

import test_launcher
from processes import LIMIT_S, command_line, finish, launch
from test_launcher import bps_run

environment = test_launcher.environment
lasting = test_launcher.lasting


def test_the_cause_counts_although_those_who_hear_of_it_end_first(lasting, tmp_path) -> None:
    # Each one's end is the end of a file for the next one; the cause comes after the short window.
    for name in ("scheduler", "server"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "bps-scheduler").write_text(f"#!/bin/sh\nexec 3>{tmp_path}/scheduler\nexit 1\n")
    heard = f"#!/bin/sh\nexec 3>{tmp_path}/server\ncat {tmp_path}/scheduler\nexit 1\n"
    (tmp_path / "bps-server").write_text(heard)
    worker = f"cat {tmp_path}/server; sleep 2; exit 17"
    worker = f"[ $BYTEPS_LOCAL_RANK = 0 ] && exec sleep 1000; {worker}"
    script = (
        "import os\n"
        "from byteps.cli import supervisor, first_cause\n"
        "from byteps.cli.local_job import local_job\n"
        "first_cause._WINDOW_S = 1.0\n"
        f"first_cause._WINDOW_OF_THOSE_WHO_HEARD_S = {LIMIT_S}\n"
        f"job = local_job(2, 1, ['sh', '-c', '{worker}'], os.environ)\n"
        "print(supervisor.Supervisor(job, grace_s=60, prefixed=True).run().exit_code)"
    )
    code, out, err = finish(launch([*command_line("byteps.cli")[:1], "-c", script], lasting))
    assert code == 0, err
    assert out.splitlines()[-1] == "17"
    assert "worker 1 ended with exit code 17; ending the job" in err


def test_the_last_line_names_who_raised_and_not_who_heard_of_it(lasting, tmp_path) -> None:
    # The end of the worker that heard is the end of a file for the cause, which comes later still.
    fifo = tmp_path / "worker"
    os.mkfifo(fifo)
    heard = "byteps.common.errors.PeerLostError: worker 1 (process 7 on vm) was lost"
    worker = (
        f'if [ $BYTEPS_LOCAL_RANK = 0 ]; then exec 3>{fifo}; echo "{heard}" >&2; exit 1; fi; '
        f'cat {fifo}; sleep 0.7; echo "ValueError: no data" >&2; exit 1'
    )
    script = (
        "import os, sys\n"
        "from byteps.cli import supervisor, first_cause\n"
        "from byteps.cli.local_job import local_job\n"
        f"first_cause._WINDOW_OF_THOSE_WHO_HEARD_S = {LIMIT_S}\n"
        f"job = local_job(2, 0, ['sh', '-c', {worker!r}], os.environ)\n"
        "sys.exit(supervisor.Supervisor(job, grace_s=60, prefixed=True).run().exit_code)"
    )
    code, _, err = finish(launch([*command_line("byteps.cli")[:1], "-c", script], lasting))
    assert code == 1
    last = "[bps] worker 1 ended with exit code 1 (ValueError: no data); ending the job"
    assert err.splitlines()[-1] == last


def test_a_program_without_the_word_python_is_explained(lasting, tmp_path) -> None:
    program = tmp_path / "train.py"
    program.write_text("print(1)")
    code, _, err = finish(bps_run(lasting, "-np", "2", str(program)))
    assert code == 126
    assert f"start it with: python {program}" in err


def test_the_last_line_holds_what_a_program_of_another_language_said_last(lasting) -> None:
    worker = 'echo "step $RANK"; [ $RANK = 0 ] && exec sleep 1000; echo "fit: no data" >&2; exit 1'
    code, _, err = finish(bps_run(lasting, "-np", "2", "sh", "-c", worker))
    assert code == 1
    last = "[bps] worker 1 ended with exit code 1 (its last line: fit: no data); ending the job"
    assert err.splitlines()[-1] == last
