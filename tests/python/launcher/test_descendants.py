"""What a job has started and what has left it: session, process group, environment."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import command_line, finish, launch, wait_until


@pytest.fixture
def environment(tmp_path):
    for name in ("bps-server", "bps-scheduler"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 0\n")
        (tmp_path / name).chmod(0o755)
    for name in ("begun", "more"):
        os.mkfifo(tmp_path / name)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DMLC_", "BYTEPS_"))}
    return {**kept, "BYTEPS_PROGRAM_DIR": str(tmp_path), "FOLDER": str(tmp_path)}


def launcher(through: str) -> tuple[list[str], dict[str, str]]:
    """Return the words and the environment that start one worker."""
    if through == "run":
        return command_line("byteps.cli", "run", "-np", "1"), {}
    role = {"DMLC_ROLE": "worker", "DMLC_NUM_WORKER": "1", "DMLC_WORKER_ID": "0"}
    return command_line("byteps.cli.bpslaunch"), role


# Writes its id where nothing of the job is left but that it comes from it.
DAEMON = (
    'env -i setsid sh -c \'echo $$ > "$0/begun"; exec sleep 1000\' "$FOLDER" '
    "</dev/null >/dev/null 2>&1 &"
)


@contextlib.contextmanager
def ended_afterwards(process: int) -> Iterator[Path]:
    """Yield the process' folder; see to it that the process ends, if it is still the same."""
    descriptor = os.pidfd_open(process)
    try:
        yield Path("/proc", str(process))
    finally:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        os.close(descriptor)


@pytest.mark.parametrize("through", ["run", "bpslaunch"])
def test_a_daemon_that_has_dropped_its_environment_ends_with_the_job(
    environment, tmp_path, through
) -> None:
    words, role = launcher(through)
    script = f'{DAEMON} echo ready; read line < "$FOLDER/more"'
    process = launch([*words, "sh", "-c", script], {**environment, **role})
    daemon = int((tmp_path / "begun").read_text())
    with ended_afterwards(daemon) as folder:
        (tmp_path / "more").write_text("go\n")
        code, _, err = finish(process)
        assert code == 0, err
        assert not folder.exists()


def test_a_daemon_that_has_dropped_its_environment_ends_with_a_job_that_fails(
    environment, tmp_path
) -> None:
    words, _ = launcher("run")
    script = f'{DAEMON} read line < "$FOLDER/more"; exit 3'
    process = launch([*words, "sh", "-c", script], environment)
    with ended_afterwards(int((tmp_path / "begun").read_text())) as folder:
        (tmp_path / "more").write_text("go\n")
        assert finish(process)[0] == 3
        assert not folder.exists()


def test_a_process_that_the_launcher_had_before_its_job_is_none_of_the_job(
    environment, tmp_path
) -> None:
    words, _ = launcher("run")
    script = f'{DAEMON} exec "$@"'
    process = launch(["sh", "-c", script, "sh", *words, "true"], environment)
    with ended_afterwards(int((tmp_path / "begun").read_text())) as folder:
        code, _, err = finish(process)
        assert code == 0, err
        assert "sleep" in (folder / "cmdline").read_text()


@pytest.mark.parametrize("ignored", [False, True])
def test_adopted_processes_that_end_do_not_stay_in_the_process_table(
    environment, tmp_path, ignored
) -> None:
    words, _ = launcher("run")
    # Its parent does not wait for the first one, and the second shell ends before it does.
    script = (
        'sh -c "(read line < $FOLDER/begun) & echo orphan \\$!"; '
        'read line < "$FOLDER/more"; echo done'
    )
    process = launch(
        [*words, "sh", "-c", script],
        environment,
        preexec_fn=lambda: ignored and signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "orphan" in line
    (tmp_path / "begun").write_text("go\n")
    wait_until(lambda: not Path("/proc", line.split()[-1]).exists())
    (tmp_path / "more").write_text("go\n")
    code, out, err = finish(process)
    assert (code, out, err) == (0, "[worker 0] done\n", "")
