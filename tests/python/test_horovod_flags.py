"""The flags and variables of Horovod."""

from __future__ import annotations

import os

import pytest

from byteps.cli.horovod import translate
from byteps.common import environment
from byteps.common.errors import InvalidArgumentError


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
