"""The command `bps bench`."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from byteps.__version__ import __version__
from byteps.cli import run_options as options
from byteps.cli.bench import report
from byteps.cli.bench.plan import RESULT_MARK, SIZES_DEFAULT, Plan, read_sizes
from byteps.cli.launched_job import launched
from byteps.common.environment import TORCH_AS_VARIABLE
from byteps.common.errors import BytepsError, InvalidArgumentError

_MODE = 0o666  # of a new file, before the umask

HELP = """Measure an exchange: float32 tensors that all workers sum.

Without `--hosts` the workers run on this machine, without servers unless `--servers` names some.
With `--hosts` they run on these hosts, over ssh, with a server on each. `bps run` starts them, so a
job with the same options does what is measured. The workers measure `byteps.torch`, beside Gloo, if
torch is installed, else `byteps.numpy`.

Between machines, Gloo and the measurement of the links take free ports of their own, also with
`--ports`. Behind a firewall say `--no-gloo`; the column **least** then stays empty.

Each repeat measures everything one after the other, in another order each time, so that a slow
moment of the machine hits all of it. A time is the median of the repeats, of the slowest worker.
**in place** is `allreduce_`, **new tensor** is `allreduce`; **least** is the least time that this
hardware allows: what memcpy takes, and between machines what plain sockets take.

**Examples**

* `bps bench -np 4`
* `bps bench -np 2 --servers 2 --sizes 1M,64M --json bench.json`
* `bps bench --hosts a:2,b:2`
"""


def bench(
    num_proc: options.NumProc = None,
    hosts: options.Hosts = None,
    hostfile: options.Hostfile = None,
    servers: options.Servers = None,
    server_hosts: options.ServerHosts = None,
    sizes: Annotated[
        str, typer.Option("--sizes", metavar="4K,1M,...", help="Bytes of the tensors.")
    ] = SIZES_DEFAULT,
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, max=1000, help="How often everything is measured.")
    ] = 7,
    gloo: Annotated[
        bool, typer.Option("--gloo/--no-gloo", help="Measure Gloo, too, if torch is installed.")
    ] = True,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write all results there.")
    ] = None,
    ssh_port: options.SshPort = None,
    ssh_key: options.SshKey = None,
    ssh: options.Ssh = "ssh",
    ports: options.Ports = None,
) -> None:
    """Measure an exchange."""
    wanted = read_sizes(sizes)
    if num_proc is None and hosts is None and hostfile is None:
        raise InvalidArgumentError("say how many workers exchange: -np N, or --hosts.")
    ssh_words = options.ssh_command(ssh, ssh_port, ssh_key)
    chosen = options.RunOptions(
        num_proc=num_proc,
        hosts=hosts,
        hostfile=hostfile,
        servers=servers,
        server_hosts=server_hosts,
        ssh=ssh_words,
        ports=ports,
    )
    machines = chosen.machines()
    plan = Plan(wanted, repeats, gloo, *zip(*machines, strict=True))
    _check_writable(json_file)
    flags = {
        "-np": num_proc,
        "--hosts": hosts,
        "--hostfile": hostfile,
        "--servers": servers,
        "--server-hosts": server_hosts,
        "--ssh": shlex.join(ssh_words),
        "--ports": ports,
    }
    given = [(flag, str(value)) for flag, value in flags.items() if value is not None]
    told = [word for pair in given for word in pair]
    code, results = _measured(told, plan)
    _say("\n".join(report.describe_end(results[1:])))
    if json_file is not None:
        _write(json_file, {"version": __version__, "exit_code": code, "results": results,
                           "workers": plan.workers, "servers": plan.servers})  # fmt: skip
    raise typer.Exit(code)


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
        typer.echo(text)
        sys.stdout.flush()


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
