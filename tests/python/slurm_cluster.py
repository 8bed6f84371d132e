"""A real Slurm of three nodes on this machine, with a configuration of its own."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
from pathlib import Path

from processes import LIMIT_S, free_ports, wait_until

_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"
_PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo")


def why_not() -> str:
    """Return why no Slurm can run here; empty when one can."""
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    if missing:
        packages = "slurmctld, slurmd, slurm-client, munge"
        return f"{', '.join(missing)} not installed (Debian: {packages})"
    return ""


def unpacked_plugins() -> list[Path]:
    """Return the folder of Slurm's plugins if `./dev lane engines` has unpacked them."""
    place = Path(str(shutil.which("slurmctld", path=_PATH))).parents[1]
    return list(place.glob("root/usr/lib/*/slurm-wlm"))


class SlurmCluster:
    """Nodes n1, n2 and n3, until `stop`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        folder.chmod(0o755)
        ports = free_ports(4)
        key = folder / "munge.key"
        key.write_bytes(os.urandom(64))
        key.chmod(0o600)
        socket_path = folder / "munge.socket"
        config = folder / "slurm.conf"
        host = socket.gethostname().partition(".")[0]
        user = getpass.getuser()
        plugins = "".join(f"PluginDir={folder}\n" for folder in unpacked_plugins())
        nodes = "\n".join(
            f"NodeName=n{i} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[i]} CPUs=4"
            for i in (1, 2, 3)
        )
        config.write_text(
            f"ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={ports[0]}\n"
            f"AuthType=auth/munge\nAuthInfo=socket={socket_path}\nCredType=cred/munge\n"
            f"SlurmUser={user}\nSlurmdUser={user}\nStateSaveLocation={folder}/state\n"
            f"SlurmdSpoolDir={folder}/spool.%n\nSlurmctldPidFile={folder}/ctld.pid\n"
            f"SlurmdPidFile={folder}/slurmd.%n.pid\nSlurmctldLogFile={folder}/ctld.log\n"
            f"SlurmdLogFile={folder}/slurmd.%n.log\nProctrackType=proctrack/linuxproc\n"
            "TaskPlugin=task/none\nReturnToService=2\nMpiDefault=none\nSelectType=select/linear\n"
            f"{plugins}KillWait=5\nSlurmdParameters=config_overrides\n{nodes}\n"
            "PartitionName=p Nodes=n[1-3] Default=YES State=UP OverSubscribe=YES:8\n"
        )
        # slurmd looks for control groups, although no plugin above needs them. Those of version 1
        # need no file system of theirs.
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        self.environment = {"SLURM_CONF": str(config)}
        self._start(
            "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={socket_path}",
            f"--pid-file={folder}/munge.pid", f"--seed-file={folder}/munge.seed",
            f"--log-file={folder}/munge.log",
        )  # fmt: skip
        wait_until(socket_path.exists)
        self._start("slurmctld", "-D", "-c")
        for node in ("n1", "n2", "n3"):
            self._start("slurmd", "-D", "-N", node)
        wait_until(self.is_idle)

    def _start(self, *command: str) -> None:
        program = shutil.which(command[0], path=_PATH)
        with (self._folder / f"{command[0]}.out").open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [str(program), *command[1:]],
                    env={**os.environ, **self.environment},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def is_idle(self) -> bool:
        """Return whether all nodes are up and no step is left on them."""
        for process in self._processes:
            assert process.poll() is None, self.logs()
        told = subprocess.run(
            ["sinfo", "--noheader", "--format=%t %D"],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        return told.stdout.split() == ["idle", "3"]

    def logs(self) -> str:
        """Return what the daemons have written."""
        files = [*self._folder.glob("*.out"), *self._folder.glob("*.log")]
        return "\n".join(f"{path.name}: {path.read_text()[-2000:]}" for path in files)

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            process.wait(LIMIT_S)
