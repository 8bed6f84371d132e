"""The command `bps bench`."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from byteps.__version__ import __version__
from byteps.cli import run_options
from byteps.cli.arguments import Number, Parser
from byteps.cli.bench import report
from byteps.cli.bench.plan import RESULT_MARK, SIZES_DEFAULT, Plan, read_sizes
from byteps.cli.launched_job import launched
from byteps.common.environment import TORCH_AS_VARIABLE
from byteps.common.errors import BytepsError, InvalidArgumentError

_MODE = 0o666  # of a new file, before the umask

_HELP = """Measure an exchange: float32 tensors that all workers sum.

Without --hosts the workers run on this machine, without servers unless --servers names some.
With --hosts they run on these hosts, over ssh, with a server on each. bps run starts them, so a
job with the same options does what is measured. The workers measure byteps.torch, beside Gloo, if
torch is installed, else byteps.numpy.

Between machines, Gloo and the measurement of the links take free ports of their own, also with
--ports. Behind a firewall say --no-gloo; the column 'least' then stays empty.

Each repeat measures everything one after the other, in another order each time, so that a slow
moment of the machine hits all of it. A time is the median of the repeats, of the slowest worker.
'in place' is allreduce_, 'new tensor' is allreduce; 'least' is the least time that this
hardware allows: what memcpy takes, and between machines what plain sockets take.

Examples:
  bps bench -np 4
  bps bench -np 2 --servers 2 --sizes 1M,64M --json bench.json
  bps bench --hosts a:2,b:2
"""


def _parser() -> Parser:
    parser = Parser("bps bench", "", _HELP)
    run_options.add_to(parser)
    parser.option("--sizes", default=SIZES_DEFAULT, shown="4K,1M,...", text="Bytes of the tensors.")
    parser.option(
        "--repeats",
        kind=Number(int, 1, 1000),
        default=7,
        shown="N",
        text="How often everything is measured.",
    )
    parser.flag(
        "--gloo",
        default=True,
        text="Measure Gloo, too, if torch is installed: so it is without this option.",
    )
    parser.flag("--no-gloo", dest="gloo", action="store_false", text="Leave Gloo out.")
    parser.option(
        "--json",
        dest="json_file",
        kind=Path,
        shown="FILE",
        text="Also write all results there.",
    )
    return parser


def main(words: Sequence[str]) -> int:
    """Measure an exchange; return the exit code."""
    said = _parser().read(words)
    wanted = read_sizes(said.sizes)
    if said.num_proc is None and said.hosts is None and said.hostfile is None:
        raise InvalidArgumentError("say how many workers exchange: -np N, or --hosts.")
    chosen = run_options.of(said)
    machines = chosen.machines()
    plan = Plan(wanted, said.repeats, said.gloo, *zip(*machines, strict=True))
    _check_writable(said.json_file)
    flags = {
        "-np": chosen.num_proc,
        "--hosts": chosen.hosts,
        "--hostfile": chosen.hostfile,
        "--servers": chosen.servers,
        "--server-hosts": chosen.server_hosts,
        "--ssh": shlex.join(chosen.ssh),
        "--ports": chosen.ports,
    }
    given = [(flag, str(value)) for flag, value in flags.items() if value is not None]
    told = [word for pair in given for word in pair]
    code, results = _measured(told, plan)
    _say("\n".join(report.describe_end(results[1:])))
    if said.json_file is not None:
        _write(said.json_file, {"version": __version__, "exit_code": code, "results": results,
                           "workers": plan.workers, "servers": plan.servers})  # fmt: skip
    return code


def _measured(flags: list[str], plan: Plan) -> tuple[int, list[dict[str, Any]]]:
    """Run the job and show what it tells; return its exit code and its results."""
    worker = [sys.executable, "-m", "byteps.cli.bench.worker", plan.text()]
    # What stands in for Gloo is not Gloo.
    environment = {k: v for k, v in os.environ.items() if k != TORCH_AS_VARIABLE}
    results: list[dict[str, Any]] = []
    with launched([*flags, *worker], environment, stdout=subprocess.PIPE) as job:
        assert job.stdout is not None
        for line in job.stdout:
            _, mark, told = line.decode(errors="replace").partition(RESULT_MARK)
            if not mark:
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()
                continue
            result = json.loads(told)
            kind = result.pop("kind")
            if kind == "progress":
                print(f"bps bench: {result['text']}", file=sys.stderr, flush=True)
                continue
            results.append(result)
            if kind == "begin":
                _say("\n".join(report.describe_begin(result, sum(plan.servers))))
            else:
                _say(report.describe_size(result))
        code = job.wait()
    return code, results


def _say(text: str) -> None:
    if text:
        print(text, flush=True)


def _check_writable(file: Path | None) -> None:
    """Refuse a file before the measurement and not after it."""
    if file is None or _is_special(file):
        return
    try:
        _draft_of(file).unlink()
    except OSError as error:
        raise InvalidArgumentError(f"--json {file} cannot be written: {error.strerror}.") from None


def _is_special(file: Path) -> bool:
    """Return whether this is a terminal or a pipe, as /dev/stdout may be."""
    return file.is_char_device() or file.is_fifo()


def _draft_of(file: Path) -> Path:
    """Make a new file beside this one, which nobody else can have put there."""
    descriptor, name = tempfile.mkstemp(prefix=f"{file.name}.", suffix=".draft", dir=file.parent)
    os.close(descriptor)
    return Path(name)


def _write(file: Path, results: dict[str, Any]) -> None:
    """Replace the file as a whole: no reader sees half of it."""
    text = json.dumps(results, indent=1) + "\n"
    draft = None
    try:
        if _is_special(file):
            file.write_text(text, encoding="utf-8")
            return
        draft = _draft_of(file)
        draft.write_text(text, encoding="utf-8")
        draft.chmod(_MODE & ~_umask())
        draft.replace(file)
    except OSError as error:
        if draft is not None:
            draft.unlink(missing_ok=True)
        raise BytepsError(f"--json {file} cannot be written: {error.strerror}.") from None


def _umask() -> int:
    umask = os.umask(0o077)
    os.umask(umask)
    return umask
