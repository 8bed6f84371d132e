"""Commands of bps and their mistakes, each in this process."""

from __future__ import annotations

import json

import pytest

from byteps.cli.children import ProcessSpec, why_not_started
from byteps.cli.main import main
from byteps.cli.outcome import Outcome
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


def test_the_end_of_a_job_says_which_workers_are_missing() -> None:
    specs = [ProcessSpec(f"worker {n}", ["x"], {}, rank=n) for n in range(3)]
    specs.append(ProcessSpec("server 0", ["x"], {}, "server"))
    lost = "ended with 2 of 3 workers; lost: worker 1"
    assert Outcome(failed=["worker 1"]).losses(specs) == lost
    assert Outcome(failed=["server 0"]).losses(specs) == ""
    assert Outcome(7, failed=["worker 1"]).losses(specs) == ""  # that end has a line of its own


