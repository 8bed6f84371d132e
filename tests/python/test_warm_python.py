"""The Python that tests start ranks with behaves as one that was started for the rank alone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import LIMIT_S, finish, wait_for_line, wait_until_gone
from warm_python import LENGTH_BYTES, await_server, place_of

SCRIPT = Path(__file__).with_name("warm_python.py")
Start = Callable[[str], "subprocess.Popen[str]"]


def served_by(owner: int) -> tuple[str, subprocess.Popen[bytes]]:
    name = uuid.uuid4().hex
    server = subprocess.Popen([sys.executable, str(SCRIPT), "serve", name, str(owner), "json"])
    await_server(name, LIMIT_S)
    return name, server


@pytest.fixture(scope="module")
def words() -> Iterator[list[str]]:
    owner = subprocess.Popen(["sleep", "infinity"])
    name, server = served_by(owner.pid)
    yield [sys.executable, "-SE", str(SCRIPT), "run", name]
    owner.kill()
    owner.wait()
    assert server.wait(LIMIT_S) == 0


@pytest.fixture
def start(words: list[str], tmp_path: Path) -> Start:
    def start(text: str) -> subprocess.Popen[str]:
        program = tmp_path / "program.py"
        program.write_text(f"import os, signal, sys\n{text}\n")
        return subprocess.Popen(
            [*words, str(program), "first", "second"],
            env={"LC_ALL": "C.UTF-8", "ONLY": "this"},
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def test_a_program_has_its_arguments_files_environment_and_folder(start, tmp_path) -> None:
    process = start(
        "print(sys.argv[1:], sorted(os.environ), os.getcwd(), __name__, __file__, sys.path[0])\n"
        "print('json' in sys.modules, input(), file=sys.stderr)"
    )
    out, err = process.communicate("a line\n", timeout=LIMIT_S)
    program = f"{tmp_path}/program.py"
    assert out == (
        f"['first', 'second'] ['LC_ALL', 'ONLY'] {tmp_path} __main__ {program} {tmp_path}\n"
    )
    assert err == "True a line\n"
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("sys.exit(3)", 3),
        ("raise SystemExit('a text')", 1),
        ("[][0]", 1),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os.kill(os.getpid(), signal.SIGABRT)", -signal.SIGABRT),
    ],
)
def test_it_ends_as_the_program_does(start, text, code) -> None:
    ended, _, err = finish(start(text))
    assert ended == code, err
    assert ("IndexError" in err) == ("[][0]" in text)


def test_what_runs_at_the_end_of_python_runs(start) -> None:
    code, out, _ = finish(start("import atexit; atexit.register(print, 'at the end')"))
    assert (code, out) == (0, "at the end\n")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, -signal.SIGINT)]
)
def test_signals_reach_the_program(start, number, code) -> None:
    # Not `signal.pause`: it would miss a signal that comes just before.
    process = start("import time\nprint('waits', flush=True)\nwhile True: time.sleep(0.05)")
    wait_for_line(process, "waits")
    process.send_signal(number)
    assert finish(process)[0] == code


def test_a_program_is_killed_with_what_stands_for_it(start) -> None:
    process = start("print(f'{os.getpid()} waits', flush=True)\nsignal.pause()")
    program = int(wait_for_line(process, "waits").split()[0])
    process.kill()
    assert wait_until_gone({program: "the program"}) == {}
    finish(process)


@pytest.mark.parametrize("has_asked", [False, True])
def test_a_program_that_is_killed_before_it_begins_takes_nobody_with_it(
    words, start, has_asked
) -> None:
    with socket.socket(socket.AF_UNIX) as small, Path("/dev/null").open() as null:
        small.connect(place_of(words[-1]))
        if has_asked:
            length = (1 << 20).to_bytes(LENGTH_BYTES, "little")
            socket.send_fds(small, [length], [null.fileno()] * 3)
            small.sendall(b"half of its words")
    assert finish(start("print('well')"))[:2] == (0, "well\n")


def test_programs_end_with_the_server_and_its_owner(words, tmp_path) -> None:
    owner = subprocess.Popen(["sleep", "infinity"])
    name, server = served_by(owner.pid)
    program = tmp_path / "program.py"
    program.write_text("import signal\nprint('waits', flush=True)\nsignal.pause()\n")
    process = subprocess.Popen(
        [*words[:-1], name, str(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for_line(process, "waits")
    owner.kill()
    owner.wait()
    assert server.wait(LIMIT_S) == 0
    code, _, err = finish(process)
    assert code != 0
    assert "the server of this test has ended" in err


def test_a_second_server_of_the_name_leaves_it_to_the_first(words, start) -> None:
    command = [sys.executable, str(SCRIPT), "serve", words[-1], str(os.getpid()), "no_such_module"]
    assert subprocess.run(command, timeout=LIMIT_S, check=False).returncode == 0
    assert finish(start("print('well')"))[:2] == (0, "well\n")


def test_a_server_that_is_not_there_is_not_waited_for_longer_than_said() -> None:
    with pytest.raises(TimeoutError, match="nobody serves 'no such'"):
        await_server("no such", 0.2)


def test_one_server_serves_several_at_once(start) -> None:
    processes = [start("print('waits', flush=True)\nsignal.pause()") for _ in range(3)]
    for process in processes:
        wait_for_line(process, "waits")
    for process in processes:
        os.kill(process.pid, signal.SIGTERM)
        assert finish(process)[0] == -signal.SIGTERM
