"""The flags and variables of Horovod."""

from __future__ import annotations

import os

import pytest

from byteps.cli import horovod
from byteps.cli.commands.run import _parser
from byteps.cli.horovod import FLAGS, Translated
from byteps.common import environment
from byteps.common.errors import InvalidArgumentError


def translate(words: list[str]) -> Translated:
    return horovod.translate(words, _parser().with_value)


def test_flags_with_a_meaning_become_variables() -> None:
    line = "-np 2 --start-timeout 60 --log-level=DEBUG --verbose -H a:1 python x.py --verbose"
    found = translate(line.split())
    assert found.arguments == ["-np", "2", "-H", "a:1", "python", "x.py", "--verbose"]
    assert found.variables == {"BYTEPS_START_TIMEOUT": "60", "BYTEPS_LOG_LEVEL": "info"}
    assert found.notices == []


def test_flags_without_a_meaning_are_named() -> None:
    found = translate(["--gloo", "--fusion-threshold-mb", "32", "-np", "2", "python", "--mpi"])
    assert found.arguments == ["-np", "2", "python", "--mpi"]
    assert [notice.split()[0] for notice in found.notices] == ["--gloo", "--fusion-threshold-mb"]


def test_a_job_that_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="--max-np of horovodrun cannot be here"):
        translate(["--max-np", "4", "-np", "2", "x"])
    with pytest.raises(InvalidArgumentError, match="--start-timeout needs a value"):
        translate(["--start-timeout"])


def test_our_own_options_keep_their_values() -> None:
    line = ["--ssh", "--mpi", "-p", "22", "--", "--gloo"]
    assert translate(line).arguments == line


@pytest.mark.parametrize(
    ("flag", "variables"),
    [
        ("--network-interface eth0", {"DMLC_INTERFACE": "eth0"}),
        ("--network-interfaces a,b", {"BYTEPS_INTERFACES": "a,b"}),
        ("--no-stall-check", {"BYTEPS_STALL_CHECK_TIME": "0"}),
        ("--stall-check-warning-time-seconds 9", {"BYTEPS_STALL_CHECK_TIME": "9"}),
        ("--stall-check-shutdown-time-seconds 9", {"BYTEPS_OPERATION_TIMEOUT": "9"}),
        ("--gloo-timeout-seconds=9", {"BYTEPS_OPERATION_TIMEOUT": "9"}),
        ("--timeline-filename t", {"BYTEPS_TIMELINE": "t"}),
        ("--verbose", {"BYTEPS_LOG_LEVEL": "info"}),
        ("--log-without-timestamp", {"BYTEPS_LOG_HIDE_TIME": "1"}),
        ("--log-hide-timestamp", {"BYTEPS_LOG_HIDE_TIME": "1"}),
    ],
)
def test_what_each_flag_with_a_meaning_sets(flag, variables) -> None:
    found = translate([*flag.split(), "-np", "2", "x", "--verbose"])
    assert found.variables == variables
    assert found.arguments == ["-np", "2", "x", "--verbose"]


# As horovodrun's own help has them.
SWITCHES = [
    "--verbose",
    "--no-stall-check",
    "--log-without-timestamp",
    "--log-hide-timestamp",
    "-cb",
    "--check-build",
    "--mpi",
    "--gloo",
    "--jsrun",
    "--tcp",
    "--mpi-threads-disable",
    "--disable-cache",
    "--autotune",
    "--no-autotune",
    "--hierarchical-allreduce",
    "--no-hierarchical-allreduce",
    "--hierarchical-allgather",
    "--no-hierarchical-allgather",
    "--torus-allreduce",
    "--no-torus-allreduce",
    "--timeline-mark-cycles",
    "--no-timeline-mark-cycles",
    "--stall-check",
    "--prefix-output-with-timestamp",
]


def test_which_flags_have_no_value() -> None:
    assert sorted(name for name, flag in FLAGS.items() if not flag.takes_value) == sorted(SWITCHES)


def test_a_flag_that_is_refused_says_why_before_anything_is_set() -> None:
    refused = [name for name, flag in FLAGS.items() if flag.refused]
    assert len(refused) == 9
    for name in refused:
        with pytest.raises(InvalidArgumentError, match=f"{name} of horovodrun cannot be here: "):
            translate(["--verbose", name, "4", "x"])


def test_options_of_ours_without_a_value_take_none() -> None:
    for option in ("-h", "--help", "--print-config", "--servers=2", "-n2", "-np=2"):
        found = translate([option, "--mpi", "-np", "2", "x"])
        assert found.arguments == [option, "-np", "2", "x"]
        assert len(found.notices) == 1
    assert translate(["--servers", "--mpi", "x"]).arguments == ["--servers", "--mpi", "x"]
    assert translate(["-np"]).arguments == ["-np"]
    line = ["-n2", "program", "--verbose"]
    assert translate(line).arguments == line, "the last word is the program's"


def test_variables_with_a_meaning_are_taken(monkeypatch) -> None:
    for name in ("BYTEPS_LOG_LEVEL", "BYTEPS_START_TIMEOUT", "BYTEPS_OPERATION_TIMEOUT"):
        monkeypatch.setenv(name, "")  # so that pytest takes back what is set below
    monkeypatch.setenv("HOROVOD_LOG_LEVEL", "DEBUG")
    monkeypatch.setenv("HOROVOD_START_TIMEOUT", "60")
    monkeypatch.setenv("BYTEPS_START_TIMEOUT", "7")
    monkeypatch.setenv("HOROVOD_CYCLE_TIME", "1")
    environment.take_horovods()
    assert os.environ["BYTEPS_LOG_LEVEL"] == "DEBUG"
    assert os.environ["BYTEPS_START_TIMEOUT"] == "7"
    assert environment.of_horovod() == ["HOROVOD_CYCLE_TIME"]
