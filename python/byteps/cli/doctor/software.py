"""What this build can do, and what is installed beside it. Nothing of it is imported; of all
libraries only the CUDA driver is loaded."""

from __future__ import annotations

import os
import pkgutil
import platform
import re
import subprocess
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

from byteps.__version__ import __version__
from byteps.cli.doctor import installation
from byteps.common import build
from byteps.common.devices import find_devices, find_nccl
from byteps.common.errors import BytepsError
from byteps.common.job.executables import PROGRAM_BY_ROLE, find_program

# Our adapters, and the distributions that bring what they adapt to.
FRAMEWORKS = {
    "torch": ("torch",),
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
    "keras": ("keras",),
    "mxnet": ("mxnet", "mxnet-mkl"),
    "jax": ("jax",),
    "numpy": ("numpy",),
}
# What a user may look for on a machine, and the files that show it.
LIBRARIES = {
    "CUDA driver": ("libcuda.so.1",),
    "CUDA runtime": ("libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"),
    "NCCL": ("libnccl.so.2",),
    "verbs": ("libibverbs.so.1",),
    "UCX": ("libucp.so.0",),
}
_LOOK_UP_S = 10


def facts() -> dict[str, object]:
    """Return all facts, as plain values."""
    return {
        "version": __version__,
        "python": platform.python_version(),
        "adapters": adapters(),
        "programs": {role: _program(role)[0] for role in PROGRAM_BY_ROLE},
        "features": features(),
        "libraries": libraries(),
        "frameworks": {name: _version(names) for name, names in FRAMEWORKS.items()},
        "rdma_devices": sorted(p.name for p in Path("/sys/class/infiniband").glob("*")),
        "gpus": len(list(Path("/proc/driver/nvidia/gpus").glob("*"))),
        "cuda": asdict(find_devices()),
        "nccl": asdict(find_nccl()),
    }


def adapters() -> list[str]:
    """Return the frameworks for which this build has a module."""
    there = {module.name for module in pkgutil.iter_modules([str(Path(__file__).parents[2])])}
    return [name for name in FRAMEWORKS if name in there]


def features() -> dict[str, bool]:
    """Return what the native library of this version has, by name."""
    return {
        "TCP": True,
        "TLS": True,
        "shared memory": True,
        "RDMA": True,
        "UCX": False,
        "MPI": build.mpi_built(),
        "Gloo": build.gloo_built(),
        "NCCL": False,  # whether it is here or not: no operation goes through it yet
        "CUDA": build.cuda_built(),
        "ROCm": build.rocm_built(),
        "DDL": build.ddl_built(),
        "CCL": build.ccl_built(),
    }


def warnings(found: dict[str, object]) -> list[str]:
    """Return a sentence for each fact that will hurt."""
    texts = installation.problems()
    texts += [why for _, why in map(_program, PROGRAM_BY_ROLE) if why]
    usable = [
        name
        for name, version in dict(found["frameworks"]).items()  # type: ignore[call-overload]
        if version is not None and name in adapters()
    ]
    if not usable:
        texts.append(f"none of the frameworks is installed: {', '.join(adapters())}")
    return texts


def lacks(wanted: list[str], found: dict[str, object]) -> list[str]:
    """Return the names that are neither a feature of this build nor a framework that is usable."""
    frameworks = dict(found["frameworks"])  # type: ignore[call-overload]
    usable = {n.lower() for n, v in frameworks.items() if v is not None and n in adapters()}
    usable |= {name.lower() for name, there in features().items() if there}
    return [name for name in wanted if name.lower() not in usable]


def _program(role: str) -> tuple[str | None, str]:
    """Return where the program of a role is, or None and why it cannot be started."""
    try:
        return str(find_program(role)), ""
    except BytepsError as error:
        return None, str(error)


def _version(distributions: tuple[str, ...]) -> str | None:
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def libraries() -> dict[str, str | None]:
    """Return where the loader, or a package of pip, has each library; None: nowhere."""
    cache = _loader_cache()
    found: dict[str, str | None] = {}
    for name, files in LIBRARIES.items():
        places = (cache.get(file) or _in_folders(file) or _from_pip(file) for file in files)
        found[name] = next((place for place in places if place), None)
    return found


def _loader_cache() -> dict[str, str]:
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin"}
    try:
        listing = subprocess.run(
            ["ldconfig", "-p"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_LOOK_UP_S,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return dict(re.findall(r"^\s*(\S+) \(.*\) => (\S+)$", listing, re.MULTILINE))


def _in_folders(file: str) -> str | None:
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        if folder and (Path(folder) / file).exists():
            return str(Path(folder) / file)
    return None


def _from_pip(file: str) -> str | None:
    """Return the file in a package of NVIDIA, which torch loads from there."""
    for package in metadata.distributions():
        if (package.metadata["Name"] or "").startswith("nvidia-"):
            for path in package.files or ():
                if path.name == file:
                    return str(package.locate_file(path))
    return None
