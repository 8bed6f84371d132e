"""A real sshd of the tests' own: loopback addresses stand for hosts."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from processes import LIMIT_S, free_ports, wait_until

HOSTS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
_SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def why_not() -> str:
    """Return why no sshd can run here; empty when one can."""
    if _SSHD is None:
        return "sshd is not installed (Debian: openssh-server)"
    if shutil.which("ssh") is None:
        return "ssh is not installed (Debian: openssh-client)"
    if os.getuid() == 0 and not Path("/run/sshd").is_dir():
        try:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        except OSError as error:
            return f"/run/sshd cannot be made: {error.strerror}"
    return ""


def _make_key(path: Path) -> None:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    subprocess.run(command, check=True, timeout=LIMIT_S)


def configure(folder: Path, hosts: Sequence[str], port: int) -> list[str]:
    """Write keys and `ssh_config` into a folder; return the command of an sshd for these hosts."""
    for name in ("host", "user"):
        _make_key(folder / name)
    (folder / "user.pub").rename(folder / "authorized")
    listen = "\n".join(f"ListenAddress {host}" for host in hosts)
    (folder / "sshd_config").write_text(
        f"Port {port}\n{listen}\nHostKey {folder}/host\nPidFile none\nUsePAM no\n"
        f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nPermitRootLogin yes\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nMaxStartups 100\n"
    )
    (folder / "ssh_config").write_text(
        f"Host *\nPort {port}\nUser {getpass.getuser()}\nIdentityFile {folder}/user\n"
        "IdentitiesOnly yes\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
        "LogLevel ERROR\n"
        "Host alias\nHostname 127.0.0.2\n"
    )
    return [str(_SSHD), "-D", "-e", "-f", str(folder / "sshd_config")]


class SshServer:
    """Serves all of HOSTS on one port, with keys of its own, until `stop`."""

    def __init__(self, folder: Path) -> None:
        port = free_ports(1)[0]
        command = configure(folder, HOSTS, port)
        self.ssh = f"ssh -F {folder}/ssh_config"
        with (folder / "log").open("wb") as log:
            # A session of its own: so what it has started can be found and ended.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        wait_until(lambda: self._answers(port) or self._process.poll() is not None)
        assert self._process.poll() is None, (folder / "log").read_text()

    @staticmethod
    def _answers(port: int) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HOSTS[-1], port)) == 0

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(LIMIT_S)
