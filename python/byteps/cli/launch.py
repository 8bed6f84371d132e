"""The command `bpslaunch`: starts one role of a job as the environment says.

The contract is the original's: DMLC_ROLE, DMLC_NUM_WORKER, DMLC_NUM_SERVER, DMLC_PS_ROOT_URI,
DMLC_PS_ROOT_PORT and, for workers, DMLC_WORKER_ID. Without a role it is `bps run`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from byteps.cli.children import ProcessSpec
from byteps.cli.local_job import MIN_WORKERS_VARIABLE, local_job
from byteps.cli.losses import RESTARTS_DEFAULT, LossPolicy
from byteps.cli.supervisor import Supervisor
from byteps.common.errors import BytepsError
from byteps.common.programs import exec_program

ROLES = ("worker", "server", "scheduler")
_JOB_VARIABLES = ("DMLC_NUM_WORKER", "DMLC_NUM_SERVER", "DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT")
_GRACE_S = 3.0


def is_distributed(environment: Mapping[str, str]) -> bool:
    """Return whether the job has servers: more than one worker machine, or the force flag."""
    forced = environment.get("BYTEPS_FORCE_DISTRIBUTED", "0").strip().lower()
    return environment.get("DMLC_NUM_WORKER", "1").strip() != "1" or forced not in (
        "",
        "0",
        "false",
    )


def missing_variables(role: str, environment: Mapping[str, str]) -> list[str]:
    """Return the variables that the role needs and that are not set."""
    needed = list(_JOB_VARIABLES)
    if role == "worker":
        alone = environment.get("DMLC_NUM_WORKER", "").strip() == "1"
        if alone and not is_distributed(environment):
            needed = ["DMLC_NUM_WORKER"]
        needed.append("DMLC_WORKER_ID")
    return [name for name in needed if not environment.get(name)]


def local_size(environment: Mapping[str, str]) -> int:
    """Return how many workers run on this machine.

    BYTEPS_LOCAL_SIZE says it; otherwise there is one for each device in NVIDIA_VISIBLE_DEVICES.
    """
    explicit = environment.get("BYTEPS_LOCAL_SIZE")
    if explicit:
        if not explicit.strip().isdigit() or int(explicit) < 1:
            raise BytepsError(f"BYTEPS_LOCAL_SIZE is {explicit!r}; it must be a number from 1.")
        return int(explicit)
    devices = environment.get("NVIDIA_VISIBLE_DEVICES", "").strip()
    if devices in ("", "all", "none", "void"):  # container images set these words
        return 1
    return len([device for device in devices.split(",") if device.strip()])


def min_workers(environment: Mapping[str, str]) -> int:
    """Return down to how many workers the job goes on when some die; 0: it needs all."""
    text = environment.get(MIN_WORKERS_VARIABLE, "").strip() or "0"
    if not text.isdigit():
        raise BytepsError(f"{MIN_WORKERS_VARIABLE} is {text!r}; it must be a number from 0.")
    return int(text)


def loss_policy(environment: Mapping[str, str]) -> LossPolicy:
    """Return what the workers of this machine survive.

    Where the job has more of them the scheduler counts; here only the last one matters.
    """
    needed = min_workers(environment)
    return LossPolicy(RESTARTS_DEFAULT, min(1, needed) if is_distributed(environment) else needed)


def worker_specs(command: Sequence[str], environment: Mapping[str, str]) -> list[ProcessSpec]:
    """Return the workers of this machine."""
    size = local_size(environment)
    if size > 1 and not is_distributed(environment):
        # Ranks of one machine without servers of their own: one is started here for them.
        return local_job(size, 1, command, environment, min_workers(environment))
    specs = []
    for rank in range(size):
        local = {"BYTEPS_LOCAL_RANK": str(rank), "BYTEPS_LOCAL_SIZE": str(size)}
        extra = {"PYTHONUNBUFFERED": "1", **local}
        arguments = _debugged(command) if environment.get("BYTEPS_ENABLE_GDB") == "1" else command
        specs.append(ProcessSpec(f"local rank {rank}", arguments, {**environment, **extra}))
    return specs


def _debugged(command: Sequence[str]) -> list[str]:
    """Return the command under gdb, which prints a back trace if it crashes."""
    interpreter = [] if command[0].startswith("python") else ["python"]
    return ["gdb", "-ex", "run", "-ex", "bt", "-batch", "--args", *interpreter, *command]


def _run_workers(command: Sequence[str]) -> int:
    if not command:
        raise BytepsError("No command given: bpslaunch COMMAND [ARGUMENT...]")
    specs, policy = worker_specs(command, os.environ), loss_policy(os.environ)
    outcome = Supervisor(specs, _GRACE_S, prefixed=False, policy=policy).run()
    for label in outcome.finished:
        if label.startswith("local rank"):
            print(f"BytePS launcher: joined {label.replace('rank ', 'rank  ')}")
    return outcome.exit_code


def _launch(role: str, command: Sequence[str]) -> int:
    if role not in ROLES:
        raise BytepsError(f"DMLC_ROLE is {role!r}; it must be one of {', '.join(ROLES)}.")
    print(f"BytePS launching {role}", flush=True)
    missing = missing_variables(role, os.environ)
    for name in missing:
        print(f"The env {name} is missing", file=sys.stderr)
    if missing:
        return 1
    if role == "worker":
        return _run_workers(command)
    if is_distributed(os.environ):
        exec_program(role)
    print(f"BytePS launcher: one worker machine needs no {role}; nothing to do.")
    return 0


def main() -> NoReturn:
    """Run the command."""
    arguments = sys.argv[1:]
    role = os.environ.get("DMLC_ROLE")
    if not role:
        from byteps.cli.main import main as bps

        bps(["run", *arguments])
        sys.exit(0)
    try:
        sys.exit(_launch(role.strip().lower(), arguments))
    except BytepsError as error:
        print(f"bpslaunch: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
