"""A wheel is fit to be published: its name, size, version, requirements, libraries and interface of
Python. Usage: check_wheel.py WHEEL"""

import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from email.parser import Parser
from pathlib import Path

from check_version import project_version
from repo import ROOT

SIZE_MAX = 8_000_000
# The package without extras. No framework: a user brings the one that he has.
REQUIREMENTS = ("cloudpickle", "nanobind-backend")
GLIBC_MAX = 28  # RHEL 8 has 2.28
TAG = re.compile(r"-cp310-abi3-manylinux_2_(\d+)_(x86_64|aarch64)\.whl$")
# For programs in C and C++, and for users who read an error that names a page.
MUST_HAVE = (
    "byteps/docs/README.md",
    "byteps/docs/running.md",
    "byteps/include/byteps/byteps.h",
    "byteps/include/byteps/byteps.hpp",
    "byteps/include/byteps/device.h",
    "byteps/include/byteps/sums.h",
    "byteps/share/cmake/byteps/byteps-config.cmake",
    "byteps/share/pkgconfig/byteps.pc",
)
LIBRARY = "byteps/libbyteps.so"
PROGRAMS = ("byteps/bin/bps-scheduler", "byteps/bin/bps-server")
HARDENED = (LIBRARY, *PROGRAMS)
# Each of these is a file of its own, with the one library beside it.
USERS_OF_LIBRARY = ("byteps/_core.abi3.so", *PROGRAMS)
# What the machine must have; auditwheel looks at the versions. The rest travels in the wheel.
SYSTEM = re.compile(r"^(lib(c|m|pthread|dl|rt|gcc_s|stdc\+\+)\.so\.\d|ld-linux.*\.so\.\d)")

Run = Callable[[list[str]], tuple[int, str]]


def run(command: list[str]) -> tuple[int, str]:
    """Exit status and output of a command."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def check_file(wheel: Path) -> Iterator[str]:
    tag = TAG.search(wheel.name)
    if tag is None or int(tag[1]) > GLIBC_MAX:
        yield f"its tag is not cp310-abi3-manylinux_2_{GLIBC_MAX} or older: {wheel.name}"
    size = wheel.stat().st_size
    if size > SIZE_MAX:
        yield f"it has {size} bytes, and at most {SIZE_MAX} are allowed: was it stripped?"


def check_metadata(text: str, version: str) -> Iterator[str]:
    metadata = Parser().parsestr(text)
    if metadata["Version"] != version:
        yield f"its version is {metadata['Version']}, and that of CMakeLists.txt is {version}"
    for requirement in metadata.get_all("Requires-Dist") or []:
        name = re.split(r"[^\w.-]", requirement)[0].lower()
        if "extra ==" not in requirement and name not in REQUIREMENTS:
            yield f"it requires {requirement}; only {', '.join(REQUIREMENTS)} are meant to be there"


def check_names(names: list[str]) -> Iterator[str]:
    for name in MUST_HAVE:
        if name not in names:
            yield f"it lacks {name}"


def needed(elf: str) -> list[str]:
    """The libraries that the text of `readelf --dynamic` names."""
    return re.findall(r"\(NEEDED\)\s+Shared library: \[([^\]]+)\]", elf)


def check_libraries(names: list[str], needs: dict[str, list[str]]) -> Iterator[str]:
    """`needs`: for each ELF file of the wheel the libraries that it names."""
    ours = [name for name in names if Path(name).name.startswith("libbyteps")]
    if ours != [LIBRARY]:
        yield f"the library must be there once, as {LIBRARY}: {ours}"
    for user in USERS_OF_LIBRARY:
        if "libbyteps.so" not in needs.get(user, ()):
            yield f"{user} does not use {LIBRARY}"
    inside = {Path(name).name for name in names}
    for user, libraries in needs.items():
        for library in libraries:
            if library not in inside and not SYSTEM.match(library):
                yield f"{user} needs {library}, which neither the wheel nor every machine has"


def check_exports(listing: str) -> Iterator[str]:
    """`listing` is what nm says of the library's dynamic symbols."""
    names = {line.split()[0].split("@")[0] for line in listing.splitlines() if line.split()}
    if "byteps_open" not in names:
        yield "the library does not export byteps_open"
    for name in sorted(names):
        if not name.lower().startswith("byteps_"):
            yield f"the library exports {name}: give it hidden visibility"


def shown_by(library: Path) -> str:
    """What nm says that a library shows to others."""
    return run(["nm", "--dynamic", "--defined-only", "--format=posix", str(library)])[1]


def check_own_memory(name: str, listing: str) -> Iterator[str]:
    """`listing` is what nm says that a file shows. What allocates memory must not be among it: the
    libraries of others in the process would use it, too."""
    names = [line.split()[0].split("@")[0] for line in listing.splitlines() if line.split()]
    if found := sorted(one for one in names if re.match(r"_Zn[wa]|_Zd[la]|__cxa_", one)):
        yield f"{name} shows {found[0]} of a C++ library that is linked in: link the machine's"


def check_python_free(name: str, listing: str) -> Iterator[str]:
    """`listing` is what nm says that a file needs which has no `abi3` in its name.

    abi3audit looks only at files that have.
    """
    symbols = [line.split()[0].split("@")[0] for line in listing.splitlines() if line.split()]
    if found := sorted(one for one in symbols if re.match("_?Py[A-Z_]", one)):
        yield f"{name} uses {found[0]} of Python, so it must be an .abi3.so, or do without"


def check_tools(wheel: Path, execute: Run = run) -> Iterator[str]:
    for tool in (["auditwheel", "show"], ["abi3audit", "--strict", "--summary"]):
        command = [str(Path(sys.executable).parent / tool[0]), *tool[1:], str(wheel)]
        status, output = execute(command)
        if status != 0:
            yield f"{' '.join(tool)} failed:\n{output}"
        elif tool[0] == "auditwheel":
            tag = TAG.search(wheel.name)
            found = re.search(r'platform tag:\s+"manylinux_2_(\d+)_', output)
            if tag is None or found is None or int(found[1]) > int(tag[1]):
                yield f"auditwheel does not find it consistent with its tag:\n{output}"


def check_hardening(files: list[Path]) -> Iterator[str]:
    status, output = run([sys.executable, str(ROOT / "tests/hardening_test.py"), *map(str, files)])
    if status != 0:
        yield output.strip()


def check(wheel: Path, version: str) -> Iterator[str]:
    yield from check_file(wheel)
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        names = [name for name in archive.namelist() if not name.endswith("/")]
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        yield from check_metadata((Path(folder) / metadata).read_text(), version)
        needs = {}
        for name in names:
            path = Path(folder) / name
            if path.read_bytes()[:4] == b"\x7fELF":
                needs[name] = needed(run(["readelf", "--wide", "--dynamic", str(path)])[1])
                if not name.endswith(".abi3.so"):
                    undefined = ["nm", "--dynamic", "--undefined-only", "--format=posix"]
                    yield from check_python_free(name, run([*undefined, str(path)])[1])
                if name.endswith(".so"):
                    yield from check_own_memory(name, shown_by(path))
        yield from check_names(names)
        yield from check_hardening([Path(folder) / name for name in HARDENED])
        yield from check_libraries(names, needs)
        yield from check_exports(shown_by(Path(folder) / LIBRARY))
    yield from check_tools(wheel)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    wheel = Path(arguments[0])
    problems = list(check(wheel, project_version(ROOT)))
    for problem in problems:
        print(f"{wheel.name}: {problem}")
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB, {len(problems)} problem(s)")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
