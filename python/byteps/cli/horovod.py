"""The flags of horovodrun on the command line of `bps run`: one table."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from byteps.common.errors import InvalidArgumentError


@dataclass(frozen=True)
class Flag:
    """What becomes of a flag. The first that is not empty counts."""

    takes_value: bool = True
    variable: str = ""  # that gets the value, or `value`
    value: str = ""
    refused: str = ""  # why such a job cannot be
    ignored: str = ""  # why it has no effect


_ELASTIC = "no worker can join a running job; --min-np lets a job go on after losses"
_OWN_NETWORK = "the network code is BytePS' own"
_ONE_BY_ONE = "each gradient travels by itself, so there is nothing to fuse and no cycle"
_TUNED = "there is nothing to tune by trial"
_TIMELINE = "the timeline has no cycles"
_STALL = "stalls are reported in any case"

_NO_VALUE = dict.fromkeys(
    ("--mpi", "--gloo", "--jsrun", "--tcp", "--mpi-threads-disable"), _OWN_NETWORK
)
_NO_VALUE |= dict.fromkeys(("--disable-cache",), _ONE_BY_ONE)
_NO_VALUE |= dict.fromkeys(("--autotune", "--no-autotune"), _TUNED)
_NO_VALUE |= dict.fromkeys(
    (
        "--hierarchical-allreduce",
        "--no-hierarchical-allreduce",
        "--hierarchical-allgather",
        "--no-hierarchical-allgather",
        "--torus-allreduce",
        "--no-torus-allreduce",
    ),
    "servers, or memory that ranks share, take the place of rings",
)
_NO_VALUE |= {
    "--timeline-mark-cycles": _TIMELINE,
    "--no-timeline-mark-cycles": _TIMELINE,
    "--stall-check": _STALL,
    "--prefix-output-with-timestamp": "the library's own lines have the time",
}
_VALUE = dict.fromkeys(
    ("--fusion-threshold-mb", "--cycle-time-ms", "--cache-capacity"), _ONE_BY_ONE
)
_VALUE |= dict.fromkeys(
    (
        "--autotune-log-file",
        "--autotune-warmup-samples",
        "--autotune-steps-per-sample",
        "--autotune-bayes-opt-max-samples",
        "--autotune-gaussian-process-noise",
    ),
    _TUNED,
)
_VALUE |= dict.fromkeys(("--mpi-args", "--binding-args", "--num-nccl-streams"), _OWN_NETWORK)
_VALUE["--thread-affinity"] = "--numa binds workers to cores (bps docs tuning)"
_REFUSED = dict.fromkeys(
    (
        "--max-np",
        "--host-discovery-script",
        "--slots-per-host",
        "--reset-limit",
        "--blacklist-cooldown-range",
        "--elastic-timeout",
    ),
    _ELASTIC,
)
_REFUSED |= {"--config-file": "write its settings as flags or variables (bps docs migrating)"}

FLAGS = {
    "--start-timeout": Flag(variable="BYTEPS_START_TIMEOUT"),
    "--network-interface": Flag(variable="DMLC_INTERFACE"),
    "--network-interfaces": Flag(variable="BYTEPS_INTERFACES"),
    "--no-stall-check": Flag(False, variable="BYTEPS_STALL_CHECK_TIME", value="0"),
    "--stall-check-warning-time-seconds": Flag(variable="BYTEPS_STALL_CHECK_TIME"),
    "--stall-check-shutdown-time-seconds": Flag(variable="BYTEPS_OPERATION_TIMEOUT"),
    "--gloo-timeout-seconds": Flag(variable="BYTEPS_OPERATION_TIMEOUT"),
    "--timeline-filename": Flag(variable="BYTEPS_TIMELINE"),
    "--log-level": Flag(variable="BYTEPS_LOG_LEVEL"),
    "--verbose": Flag(takes_value=False, variable="BYTEPS_LOG_LEVEL", value="info"),
    "--log-without-timestamp": Flag(False, variable="BYTEPS_LOG_HIDE_TIME", value="1"),
    "--log-hide-timestamp": Flag(False, variable="BYTEPS_LOG_HIDE_TIME", value="1"),
    "-cb": Flag(False, refused="use bps --check-build"),
    "--check-build": Flag(False, refused="use bps --check-build"),
    **{name: Flag(False, ignored=why) for name, why in _NO_VALUE.items()},
    **{name: Flag(ignored=why) for name, why in _VALUE.items()},
    **{name: Flag(refused=why) for name, why in _REFUSED.items()},
}


@dataclass
class Translated:
    """A command line without the flags of horovodrun."""

    arguments: list[str]
    variables: dict[str, str]
    notices: list[str]


def translate(arguments: Sequence[str], with_value: Collection[str]) -> Translated:
    """Take horovodrun's flags out of the arguments of `bps run`, up to the command.

    `with_value`: the options of `bps run` that the next word belongs to.
    """
    result = Translated([], {}, [])
    rest = iter(arguments)
    for word in rest:
        name, equals, value = word.partition("=")
        flag = FLAGS.get(name)
        if flag is not None:
            given = value if equals else next(rest, None) if flag.takes_value else ""
            _take(flag, name, given, result)
            continue
        result.arguments.append(word)
        if word == "--" or not word.startswith("-"):
            break  # the command begins
        if word in with_value:
            result.arguments += itertools.islice(rest, 1)
    result.arguments += rest
    return result


def _take(flag: Flag, name: str, value: str | None, result: Translated) -> None:
    if value is None:
        raise InvalidArgumentError(f"{name} needs a value.")
    if flag.refused:
        raise InvalidArgumentError(f"{name} of horovodrun cannot be here: {flag.refused}.")
    if flag.variable:
        result.variables[flag.variable] = flag.value or value
    else:
        result.notices.append(f"{name} of horovodrun has no effect: {flag.ignored}")
