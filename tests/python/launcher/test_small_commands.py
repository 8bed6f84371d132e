"""Commands of bps and their mistakes, each in this process."""

from __future__ import annotations

import json
import os

import pytest
from processes import command_line, finish, launch

from byteps.cli import pages
from byteps.cli.children import ProcessSpec, why_not_started
from byteps.cli.main import main
from byteps.cli.outcome import Outcome
from byteps.common.job.cluster import weakness_of
from byteps.common.timeline.timeline import Timeline


def ended(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    return int(end.value.code or 0)


def test_a_timeline_that_cannot_be_read_is_named_and_left_out(tmp_path, capsys) -> None:
    good, cut, missing, merged = (tmp_path / name for name in ("good", "cut", "none", "merged"))
    Timeline(good).close()
    cut.write_text('[{"name": "x", "ph": "X", "pid":,')  # as a full disk leaves it
    assert ended("timeline", str(merged), str(good), str(cut), str(missing)) == 0
    assert json.loads(merged.read_text())
    said = capsys.readouterr()
    assert f"bps: {cut} is left out: " in said.err
    assert f"bps: {missing} is left out: " in said.err
    assert "of 1 files" in said.out
    assert ended("timeline", str(merged), str(cut)) == 1
    assert "no file could be read" in capsys.readouterr().err


def test_a_program_of_this_folder_needs_its_path(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fit").touch(mode=0o755)
    (tmp_path / "data").mkdir()
    error = FileNotFoundError(2, "No such file or directory")
    said = why_not_started(ProcessSpec("worker 0", ["fit"], {}), error)
    assert said.endswith("; a program of this folder is started with: ./fit")
    said = why_not_started(ProcessSpec("worker 0", ["data"], {}), error)
    assert said.endswith("No such file or directory")


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("sh -c x", "the quotes make one word of it; write it without them: sh -c x"),
        ("no/such/program -x", "No such file or directory"),
        ("", "No such file or directory"),
    ],
)
def test_a_command_in_quotes(program, text) -> None:
    error = FileNotFoundError(2, "No such file or directory")
    said = why_not_started(ProcessSpec("worker 0", [program], {}), error)
    assert said.endswith(text)


def test_the_end_of_a_job_says_which_processes_are_missing() -> None:
    specs = [ProcessSpec(f"worker {n}", ["x"], {}, rank=n) for n in range(3)]
    specs += [ProcessSpec(f"server {n}", ["x"], {}, "server") for n in range(2)]
    lost = "ended with 2 of 3 workers; lost: worker 1"
    assert Outcome(failed=["worker 1"]).losses(specs) == lost
    lost = "ended with 1 of 2 servers; lost: server 0"
    assert Outcome(failed=["server 0"]).losses(specs) == lost
    assert Outcome(7, failed=["worker 1"]).losses(specs) == ""  # that end has a line of its own


def test_a_short_secret_is_weak_and_none_is_not() -> None:
    assert "has 3 characters" in weakness_of("abc")
    assert weakness_of("x" * 15)
    assert weakness_of("x" * 16) == weakness_of("") == ""


def test_a_file_for_output_that_is_full_ends_no_job(tmp_path) -> None:
    (tmp_path / "worker-0.log").symlink_to("/dev/full")
    other = tmp_path / "worker-1.log"
    script = (
        "echo one; echo two; [ $BYTEPS_LOCAL_RANK = 1 ] && exec sleep 1000; "
        f"until grep -qs two {other}; do sleep 0.02; done; exit 5"
    )
    command = command_line(
        "byteps.cli", "run", "-np", "2", "--output-dir", str(tmp_path), "sh", "-c", script
    )
    code, out, err = finish(launch(command, dict(os.environ)))
    assert code == 5, err
    assert "[worker 0] one\n" in out
    assert other.read_text() == "one\ntwo\n"
    assert err.count("worker-0.log: No space left on device; the job goes on") == 1


def test_the_pages_are_printed_by_name(capsys, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(pages, "_FOLDER", tmp_path)
    assert ended("docs", "running") == 1
    assert "has no pages" in capsys.readouterr().err
    (tmp_path / "running.md").write_text("# Start a job\n\ntext\n")
    assert ended("docs") == 0
    assert capsys.readouterr().out == "running              Start a job\n"
    for name in ("running", "running.md", "docs/running.md"):
        assert ended("docs", name) == 0
        assert capsys.readouterr().out == "# Start a job\n\ntext\n"
    assert ended("docs", "walking") == 1
    assert "There is no page 'walking'. 'bps docs' lists the pages." in capsys.readouterr().err
