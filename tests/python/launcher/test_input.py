"""The launcher's input, and the forms of its output."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest
import test_launcher
from processes import LIMIT_S, finish
from test_launcher import bps_run

environment = test_launcher.environment

DEBUGGED = """
import os
found = 41
if os.environ["BYTEPS_LOCAL_RANK"] == "0":
    breakpoint()
print("went on")
"""


@pytest.fixture
def program(tmp_path) -> str:
    path = tmp_path / "debugged.py"
    path.write_text(DEBUGGED)
    return str(path)


def test_a_debugger_of_rank_0_reads_a_pipe(environment, program) -> None:
    job = bps_run(environment, "-np", "2", sys.executable, program, stdin=subprocess.PIPE)
    out, err = job.communicate("p found + 1\nc\n", timeout=LIMIT_S)
    assert job.returncode == 0, err
    assert "[worker 0] (Pdb) 42\n" in out
    for line in ("[worker 0] (Pdb) went on", "[worker 1] went on"):
        assert line in out.splitlines()


def read_until(terminal: int, text: bytes) -> bytes:
    seen = b""
    while text not in seen:
        ready, _, _ = select.select([terminal], [], [], LIMIT_S)
        assert ready, seen
        seen += os.read(terminal, 1 << 16)
    return seen


@pytest.mark.parametrize("form", ["lines", "raw"])
def test_a_debugger_of_rank_0_shows_its_question_on_a_terminal(environment, program, form) -> None:
    ours, its = os.openpty()
    command = [sys.executable, "-m", "byteps.cli", "run", "-np", "2", "--output", form]
    job = subprocess.Popen(
        [*command, sys.executable, program],
        env={**environment, "PYTHONPATH": str(test_launcher.SOURCE), "NO_COLOR": "1"},
        stdin=its,
        stdout=its,
        stderr=its,
    )
    os.close(its)
    seen = read_until(ours, b"(Pdb) ")
    os.write(ours, b"p found + 1\n")
    seen += read_until(ours, b"42\r\n")
    os.write(ours, b"c\n")
    assert job.wait(LIMIT_S) == 0, seen
    os.close(ours)
    assert (b"[worker 0] (Pdb) " in seen) == (form == "lines")


def test_other_ranks_have_no_input(environment) -> None:
    script = "echo rank $BYTEPS_LOCAL_RANK has: $(cat)"
    job = bps_run(environment, "-np", "2", "sh", "-c", script, stdin=subprocess.PIPE)
    out, err = job.communicate("words", timeout=LIMIT_S)
    assert job.returncode == 0, err
    assert sorted(out.splitlines()) == [
        "[worker 0] rank 0 has: words",
        "[worker 1] rank 1 has:",
    ]


def test_raw_output_is_what_the_processes_write(environment) -> None:
    script = "printf '1%%\\r2%%\\r'"
    job = bps_run(environment, "-np", "1", "--output", "raw", "sh", "-c", script)
    out, err = job.communicate(timeout=LIMIT_S)
    assert job.returncode == 0, err
    assert out == "1%\n2%\n"  # text mode of this test makes line feeds of carriage returns


def test_a_file_for_each_process_has_every_byte(environment, tmp_path) -> None:
    folder = tmp_path / "not" / "there yet"
    script = 'printf "a\\rb\\nrank $BYTEPS_LOCAL_RANK"; [ $BYTEPS_LOCAL_RANK = 0 ] || echo err >&2'
    arguments = ("-np", "2", "--servers", "1", "--output-dir", str(folder), "sh", "-c", script)
    code, out, err = finish(bps_run(environment, *arguments))
    assert code == 0, err
    assert "[worker 1] rank 1" in out
    assert (folder / "worker-0.log").read_bytes() == b"a\rb\nrank 0"
    assert b"err\n" in (folder / "worker-1.log").read_bytes()
    names = ["scheduler.log", "server-0.log", "worker-0.log", "worker-1.log"]
    assert sorted(path.name for path in folder.iterdir()) == names


def test_a_folder_that_cannot_be_is_refused(environment) -> None:
    arguments = ("-np", "1", "--output-dir", f"{Path(__file__)}/x", "true")
    code, _, err = finish(bps_run(environment, *arguments))
    assert code == 1
    assert "the folder cannot be made" in err


def test_raw_output_has_no_files(environment, tmp_path) -> None:
    arguments = ("-np", "1", "--output", "raw", "--output-dir", str(tmp_path), "true")
    code, _, err = finish(bps_run(environment, *arguments))
    assert code == 1
    assert "exclude each other" in err
