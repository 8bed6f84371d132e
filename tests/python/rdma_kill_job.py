"""A job in which processes are killed while RDMA carries its tensors, over the stand-in.

Used by the tests and by `./dev bench kills --over rdma`.
"""

from __future__ import annotations

from http.client import HTTPException
from pathlib import Path

from kill_job import KillJob
from processes import LIMIT_S, evicting, free_ports
from rdma_jobs import DEVICE, connections, expect_no_complaint, over_rdma, over_tcp


def patience() -> dict[str, str]:
    """Return what lets a process that stands still on a busy machine live: only death counts."""
    patience_ms = round(LIMIT_S * 1000)
    # Otherwise a worker is lost after 5 s.
    return {**evicting(patience_ms), "BYTEPS_HEARTBEAT_TIMEOUT_MS": str(patience_ms)}


def patient_over_tcp() -> dict[str, str]:
    """Return the variables of the same job over TCP."""
    return {**patience(), **over_tcp(), "BYTEPS_LOG_LEVEL": "info"}


class RdmaKillJob(KillJob):
    """A job whose servers say how their connections travel."""

    def __init__(
        self, folder: Path, nbytes: int, workers: int, servers: int, options: tuple[str, ...] = ()
    ) -> None:
        """Start the job; its processes tell in `folder` what the stand-in has counted."""
        self.folder = folder
        (self.port,) = free_ports(1)
        told = {**patience(), **over_rdma(folder), "BYTEPS_STATUS_PORT": str(self.port)}
        super().__init__(folder, nbytes, workers, servers, options, told)

    def carries(self) -> bool:
        """Return whether all connections of all servers go over the device."""
        try:
            found = connections(self.port)
        except (OSError, HTTPException):  # the scheduler comes back, or this process asked too late
            return False
        return bool(found) and all(ways == [DEVICE] for ways in found.values())

    def wait_until_rdma_carries(self) -> None:
        """Wait until all connections of all servers go over the device."""
        self.wait(self.carries, "all connections over RDMA")

    def check_end(self, processes: int) -> None:
        """Stop the workers; see that all sums were right and nobody misused the device."""
        assert self.stop() == 0, self.describe()
        assert self.wrong_sums() == [], self.describe()
        assert self.disagreements() == [], self.describe()
        assert self.gaps() == [], self.describe()
        assert self.leftovers() == {}
        expect_no_complaint(self.folder, processes)
