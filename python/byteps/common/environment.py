"""What the package reads from the environment beside the options of the native library."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from byteps.common.errors import InvalidArgumentError


def program_dir() -> Path:
    """Return the folder of the server programs; BYTEPS_PROGRAM_DIR overrides the package's."""
    override = os.environ.get("BYTEPS_PROGRAM_DIR")
    return Path(override) if override else Path(__file__).resolve().parent.parent / "bin"


def role(default: str) -> str:
    """Return this process' role in the job."""
    return os.environ.get("DMLC_ROLE") or default


def switch(name: str, environment: Mapping[str, str] = os.environ, default: bool = False) -> bool:
    """Return whether a variable that is on or off is on, read as the native library reads one."""
    text = environment.get(name, "").strip()
    if not text:
        return default
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise InvalidArgumentError(
        f"{name} is {text!r}; it must be 0 or 1 (or true, false, yes, no, on, off)."
    )


def shows_itself() -> bool:
    """Return whether a process of a job shows its own user what it does, on a local socket."""
    return switch("BYTEPS_STATUS_SOCKET", default=True)


TORCH_AS_VARIABLE = "BYTEPS_TORCH_AS"
STAND_IN_FOR = ("gloo",)


def torch_as() -> str:
    """Return which backend of torch a program names when it gets ours; empty: only ours."""
    name = os.environ.get(TORCH_AS_VARIABLE, "").strip().lower()
    if name and name not in STAND_IN_FOR:
        raise InvalidArgumentError(
            f"{TORCH_AS_VARIABLE} is {name!r}; byteps can stand in for {', '.join(STAND_IN_FOR)}."
        )
    return name


def async_training() -> bool:
    """Return whether asynchronous training was asked for."""
    return switch("BYTEPS_ENABLE_ASYNC")


# Variables of Horovod that have the meaning of one of this package. horovodrun's flags have the
# same meanings (byteps.cli.horovod).
_OF_HOROVOD = {
    "HOROVOD_GLOO_IFACE": "DMLC_INTERFACE",
    "HOROVOD_GLOO_TIMEOUT_SECONDS": "BYTEPS_OPERATION_TIMEOUT",
    "HOROVOD_LOG_HIDE_TIME": "BYTEPS_LOG_HIDE_TIME",
    "HOROVOD_LOG_LEVEL": "BYTEPS_LOG_LEVEL",
    "HOROVOD_STALL_CHECK_TIME_SECONDS": "BYTEPS_STALL_CHECK_TIME",
    "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "BYTEPS_OPERATION_TIMEOUT",
    "HOROVOD_START_TIMEOUT": "BYTEPS_START_TIMEOUT",
}


def take_horovods() -> None:
    """Set this package's variables from Horovod's, unless they are set."""
    for theirs, ours in _OF_HOROVOD.items():
        if os.environ.get(theirs) and not os.environ.get(ours):
            os.environ[ours] = os.environ[theirs]


def mxnet_engine() -> str:
    """Return which engine MXNet was told to use; "" if none."""
    return os.environ.get("MXNET_ENGINE_TYPE", "")


class TraceWish(NamedTuple):
    """Which steps the original's trace has, and in which folder."""

    folder: Path
    first: int
    last: int


def timeline() -> Path | None:
    """Return the file in which a timeline was asked for; Horovod's variable counts, too."""
    text = os.environ.get("BYTEPS_TIMELINE") or os.environ.get("HOROVOD_TIMELINE") or ""
    return Path(text) if text and text != "DYNAMIC" else None


def trace() -> TraceWish | None:
    """Return what BYTEPS_TRACE_ON and its companions ask for."""
    if not switch("BYTEPS_TRACE_ON"):
        return None
    try:
        first = int(os.environ.get("BYTEPS_TRACE_START_STEP") or 10)
        last = int(os.environ.get("BYTEPS_TRACE_END_STEP") or 20)
    except ValueError:
        first = last = 0
    if not 1 <= first < last:
        raise InvalidArgumentError(
            "BYTEPS_TRACE_START_STEP and BYTEPS_TRACE_END_STEP must be numbers; the first is at "
            "least 1, and the second is larger."
        )
    return TraceWish(Path(os.environ.get("BYTEPS_TRACE_DIR") or "./trace"), first, last)


_HOROVOD_UNDERSTOOD = {"HOROVOD_TIMELINE", "HOROVOD_TIMELINE_MARK_CYCLES"}


def of_horovod() -> list[str]:
    """Return the variables of Horovod that are set and that mean nothing here."""
    named = (name for name in os.environ if name.startswith("HOROVOD_"))
    return sorted(name for name in named if name not in {*_OF_HOROVOD, *_HOROVOD_UNDERSTOOD})


def set_job_size(num_workers: int, num_servers: int, global_rank: int) -> None:
    """Describe the job that this process will join next, as `resume` is documented to do."""
    os.environ["DMLC_NUM_WORKER"] = str(num_workers)
    os.environ["DMLC_NUM_SERVER"] = str(num_servers)
    os.environ["BYTEPS_GLOBAL_RANK"] = str(global_rank)
