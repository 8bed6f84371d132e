"""What this build has, in the words of Horovod: scripts ask before they choose a way."""

from __future__ import annotations

from byteps.common.devices import find_devices, find_nccl

__all__ = [
    "ccl_built",
    "cuda_built",
    "ddl_built",
    "gloo_built",
    "gloo_enabled",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rocm_built",
]


def mpi_threads_supported() -> bool:
    """Return False: there is no MPI here, and any thread may make calls.

    Example::

        assert not bps.mpi_threads_supported()
    """
    return False


def mpi_enabled() -> bool:
    """Return False: there is no MPI here.

    Example::

        assert not bps.mpi_enabled()
    """
    return False


def mpi_built() -> bool:
    """Return False: there is no MPI here.

    Example::

        assert not bps.mpi_built()
    """
    return False


def gloo_enabled() -> bool:
    """Return False: the network code is byteps' own.

    Example::

        assert not bps.gloo_enabled()
    """
    return False


def gloo_built() -> bool:
    """Return False: the network code is byteps' own.

    Example::

        assert not bps.gloo_built()
    """
    return False


def nccl_built() -> int:
    """Return the version of NCCL that the library finds, such as 22809 for 2.28.9, or 0 if there is
    none that is new enough. `bps doctor` says which file it is, or why there is none.

    No operation of this version goes through NCCL.

    Example::

        has_nccl = bps.nccl_built() >= 21900
    """
    return find_nccl().version


def ddl_built() -> bool:
    """Return False: there is no DDL here.

    Example::

        assert not bps.ddl_built()
    """
    return False


def ccl_built() -> bool:
    """Return False: there is no oneCCL here.

    Example::

        assert not bps.ccl_built()
    """
    return False


def cuda_built() -> bool:
    """Return whether tensors in the memory of a GPU can be exchanged where they are: there is a
    CUDA driver that is new enough, and it shows a GPU. `bps doctor` says why not. Adapters of torch
    and JAX, and byteps.numpy, do so; those of TensorFlow and MXNet copy to the host in any case.

    The first call starts the driver, and may wait for it.

    Example::

        device = "cuda" if bps.cuda_built() else "cpu"
    """
    return find_devices().count > 0


def rocm_built() -> bool:
    """Return False: tensors on a GPU travel through host memory, without ROCm code of ours.

    Example::

        assert not bps.rocm_built()
    """
    return False
