"""Makes an archive from a wheel, for machines without Python: the server, the scheduler, and what C
and C++ programs are built with.

Usage: server_archive.py WHEEL FOLDER

The files are the wheel's, byte for byte, and keep their places to each other: the programs find
their library by these. `bin/` has links to the programs.
"""

import io
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

from repo import ROOT

PROGRAMS = ("bps-scheduler", "bps-server")
FOLDERS = ("bin", "docs", "include", "share")
PARTS = (*(f"byteps/{folder}/" for folder in FOLDERS), "byteps/libbyteps.so")
GRAFTED = ".libs/"
README = """\
BytePS {version}: the server, the scheduler and the library, without Python.

    export DMLC_NUM_WORKER=2 DMLC_NUM_SERVER=2 DMLC_PS_ROOT_URI=10.0.0.1 DMLC_PS_ROOT_PORT=9000
    bin/bps-scheduler      # on 10.0.0.1
    bin/bps-server         # once for each server

bin/bps-server --help shows all options. Keep the folders bin and lib side by side. The machine
needs the same glibc as the wheel, at least {glibc}. If a message names a page, such as
`bps docs running`, it is lib/byteps/docs/running.md.

Programs in C and C++ find the library through CMake or pkg-config:

    cmake -Dbyteps_DIR=$PWD/lib/byteps/share/cmake/byteps ...
    PKG_CONFIG_PATH=$PWD/lib/byteps/share/pkgconfig pkg-config --cflags --libs byteps
"""


def members(names: list[str]) -> list[str]:
    """The files of a wheel that the servers need. A wheel may also name its folders."""
    found = [name for name in names if not name.endswith("/")]
    return [n for n in found if n.startswith(PARTS) or GRAFTED in n.split("/")[0] + "/"]


def add(archive: tarfile.TarFile, path: str, data: bytes, mode: int) -> None:
    member = tarfile.TarInfo(path)
    member.size, member.mode = len(data), mode
    archive.addfile(member, io.BytesIO(data))


def make(wheel: Path, folder: Path) -> Path:
    """Write the archive of the wheel into `folder`; the path of the archive."""
    platform = wheel.stem.split("-")[-1]
    glibc = ".".join(platform.split("_")[1:3])
    with zipfile.ZipFile(wheel) as source:
        names = source.namelist()
        metadata = next(n for n in names if n.endswith(".dist-info/METADATA"))
        version = Parser().parsestr(source.read(metadata).decode())["Version"]
        top = f"byteps-servers-{version}-{platform}"
        target = folder / f"{top}.tar.gz"
        with tarfile.open(target, "w:gz") as archive:
            text = README.format(version=version, glibc=glibc)
            add(archive, f"{top}/README", text.encode(), 0o644)
            add(archive, f"{top}/LICENSE", (ROOT / "LICENSE").read_bytes(), 0o644)
            for name in members(names):
                is_code = name.startswith("byteps/bin/") or ".so" in name
                add(archive, f"{top}/lib/{name}", source.read(name), 0o755 if is_code else 0o644)
            for program in PROGRAMS:
                link = tarfile.TarInfo(f"{top}/bin/{program}")
                link.type, link.linkname = tarfile.SYMTYPE, f"../lib/byteps/bin/{program}"
                archive.addfile(link)
    return target


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    target = make(Path(arguments[0]), Path(arguments[1]))
    print(f"{target.name}: {target.stat().st_size / 1e6:.2f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
