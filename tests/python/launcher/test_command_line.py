"""The command lines of bps: help, mistakes, and what a command imports."""

from __future__ import annotations

import subprocess
import sys

import pytest
from processes import LIMIT_S, SOURCE, clean_environment, command_line, finish, launch

import byteps
from byteps.cli.arguments import Choice, Number, Parser
from byteps.cli.commands.run import _parser
from byteps.cli.main import _COMMANDS, main

COMMANDS = sorted(name for name, command in _COMMANDS.items() if command.module)
# Each of these takes longer to import than a job on one machine takes to start, or belongs to
# another command or to jobs on several hosts.
NOT_FOR_RUN = (
    "asyncio",
    "byteps._core",
    "byteps.cli.agent",
    "byteps.cli.bench",
    "byteps.cli.doctor",
    "byteps.cli.function_job",
    "byteps.cli.hosts",
    "byteps.cli.remote_job",
    "byteps.cli.top",
    "byteps.common.session",
    "byteps.common.timeline",
    "click",
    "email",
    "http",
    "importlib.metadata",
    "numpy",
    "pydantic",
    "rich",
    "typer",
    "urllib.request",
)


def ended(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(words))
    return int(end.value.code or 0)


def modules_after(program: str) -> set[str]:
    """Return what a new Python has imported at the end of a program, and not for its start."""
    script = (
        "import atexit, sys\n"
        "before = set(sys.modules)\n"
        "atexit.register(lambda: print(*sorted(set(sys.modules) - before), file=sys.stderr))\n"
    )
    command = [sys.executable, "-c", script + program]
    code, _, err = finish(launch(command, clean_environment()))
    assert code == 0, err
    return set(err.splitlines()[-1].split())


def test_a_job_on_one_machine_imports_only_what_it_needs() -> None:
    found = modules_after("from byteps.cli.main import main; main(['run', '-np', '2', 'true'])")
    assert "byteps.cli.supervisor" in found
    assert [name for name in NOT_FOR_RUN if name in found] == []


def test_the_help_of_bps_imports_no_command() -> None:
    found = modules_after("from byteps.cli.main import main; main(['--help'])")
    assert [name for name in found if name.startswith("byteps.cli.commands")] == []
    assert "byteps.cli.supervisor" not in found


def test_the_package_imports_no_launcher() -> None:
    found = modules_after("import byteps; byteps.__version__")
    assert [name for name in found if name.startswith("byteps.cli")] == []


def test_what_starts_a_job_is_found_in_the_package() -> None:
    assert byteps.run.__module__ == "byteps.cli.function_job"
    assert issubclass(byteps.FunctionError, RuntimeError)
    assert {"run", "FunctionError", "__version__"} <= set(dir(byteps))
    name = "rum"
    with pytest.raises(AttributeError, match="module 'byteps' has no attribute 'rum'"):
        getattr(byteps, name)


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_is_plain_text_of_a_readable_width(command, columns, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for option in ("-h", "--help"):
        assert ended(*command.split(), option) == 0
        text = capsys.readouterr().out
        assert text.startswith(f"Usage: {' '.join(['bps', *command.split()])} [OPTIONS]")
        assert max(map(len, text.splitlines())) < min(columns, 100)
        assert "-h, --help" in text
        assert "`" not in text
        assert "*" not in text


def test_help_names_ranges_defaults_and_variables(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    ended("run", "--help")
    text = " ".join(capsys.readouterr().out.split())
    assert "[at least 0; default: 0; variable: BYTEPS_MIN_WORKERS]" in text
    assert "Port of ssh. [1 to 65535]" in text
    assert "-np, -n, --num-proc N Number of workers." in text


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_is_named_by_the_help_of_bps(command, capsys) -> None:
    assert ended() == 2
    assert f"\n  {command} " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("run", "bps run: the program of a worker is missing"),
        ("run -np 2 --", "the program of a worker is missing"),
        ("run -np 0 true", "-np/-n/--num-proc: 0 is out of range: at least 1"),
        ("run -np x true", "-np/-n/--num-proc: 'x' is no whole number"),
        ("run -np", "-np/-n/--num-proc: expected one argument"),
        ("run --nope true", "unrecognized arguments: --nope"),
        ("run --num 2 true", "unrecognized arguments: --num"),
        ("run --output blue -np 1 true", "--output: 'blue' is not lines or raw"),
        ("run --as nccl -np 1 true", "--as: 'nccl' is not gloo"),
        ("run --grace -1 -np 1 true", "--grace: -1 is out of range: at least 0"),
        ("run --grace nan -np 1 true", "--grace: nan is out of range: at least 0"),
        ("run -p 65536 -np 1 true", "65536 is out of range: 1 to 65535"),
        ("top --every 0", "--every: 0 is out of range: at least 0.1"),
        ("stack x", "'x' is no whole number"),
        ("timeline merged", "FILE"),
        ("bench --repeats 0", "--repeats: 0 is out of range: 1 to 1000"),
        ("doctor --seconds 31", "31 is out of range: 0.2 to 30"),
        ("walk", "there is no command 'walk'; there are run, top, "),
        ("--nope", "unrecognized arguments: --nope"),
    ],
)
def test_wrong_words_end_with_2_and_name_the_help(line, text, capsys) -> None:
    assert ended(*line.split()) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert text in said.err
    assert "--help" in said.err
    assert said.err.startswith("Usage: bps ")


@pytest.mark.parametrize("number", ["-np 3", "-n 3", "-n3", "-np=3", "--num-proc=3"])
def test_what_follows_the_program_is_its_own(number) -> None:
    number = number.split()
    words = ["python", "-np", "x", "--help", "--", "-hostfile"]
    said, program = _parser().read_before_program([*number, *words])
    assert (said.num_proc, program) == (3, words)
    said, program = _parser().read_before_program([*number, "--", "--odd", "--"])
    assert (said.num_proc, program) == (3, ["--odd", "--"])


def test_a_value_may_begin_with_a_dash() -> None:
    said, program = _parser().read_before_program(["--ssh", "-x", "-H", "--np", "-"])
    assert (said.ssh, said.hosts, program) == ("-x", "--np", ["-"])


def test_a_variable_stands_in_for_its_option(monkeypatch, capsys) -> None:
    monkeypatch.setenv("BYTEPS_MIN_WORKERS", "2")
    monkeypatch.setenv("BYTEPS_TORCH_AS", "Gloo")
    said = _parser().read([])
    assert (said.min_np, said.torch_as) == (2, "gloo")
    assert _parser().read(["--min-np", "1"]).min_np == 1
    monkeypatch.setenv("BYTEPS_MIN_WORKERS", "")
    assert _parser().read([]).min_np == 0
    monkeypatch.setenv("BYTEPS_MIN_WORKERS", "x")
    assert ended("run", "-np", "1", "true") == 2
    assert "the variable BYTEPS_MIN_WORKERS: 'x' is no whole number" in capsys.readouterr().err


def test_names_have_no_short_forms() -> None:
    parser = Parser("bps x", "", "Text.")
    parser.option("--length", kind=Number(int, 1), default=7, shown="N", text="Length.")
    parser.option("--colour", kind=Choice("red", "blue"), shown="C", text="Colour.")
    assert parser.read(["--colour", "RED"]).colour == "red"
    with pytest.raises(SystemExit):
        parser.read(["--len", "2"])


def test_bench_measures_gloo_unless_told(monkeypatch) -> None:
    from byteps.cli.bench.command import _parser as bench

    assert [bench().read(words).gloo for words in ([], ["--gloo"], ["--no-gloo"])] == [
        True, True, False
    ]  # fmt: skip


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, BrokenPipeError])
def test_an_end_from_outside_has_no_traceback(interruption) -> None:
    """Ctrl-C, and a reader that goes as `head` does."""
    script = (
        "import byteps.cli.main as bps\n"
        f"def end(*_): raise {interruption.__name__}\n"
        "bps._main_of = end\n"
        "bps.main(['docs'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=clean_environment() | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130 if interruption is KeyboardInterrupt else 1, "")


def test_the_version_and_the_build(capsys) -> None:
    assert ended("--version") == 0
    assert capsys.readouterr().out == f"bps {byteps.__version__}\n"
    command = command_line("byteps.cli", "--version")
    assert finish(launch(command, clean_environment()))[:2] == (0, f"bps {byteps.__version__}\n")
