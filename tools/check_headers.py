"""Each header compiles alone. One that is the first include of its own source file is left to the
build. What compiled before is not compiled again until it, or a header of ours that it includes,
changes; the record is build/headers/. ccache answers in a new clone."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from repo import ROOT, Finding, files, report

FLAGS = ["-std=c++20", "-O0", "-Wall", "-Wextra", "-c"]
PRIVATE_SUFFIXES = ("-inl.h",)  # Highway's: once per instruction set, never alone
DEFINES = ["-DFMT_HEADER_ONLY=1", "-DSPDLOG_FMT_EXTERNAL"]
# Headers of Python packages that `./dev` installs: of nanobind, and NVIDIA's for CUDA.
SITE = ".venv/lib/python3*/site-packages"
PACKAGES = ["nanobind/include", "nvidia/cuda_runtime/include", "nvidia/cu13/include"]
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+["<]([^">]+)[">]', re.M)


def compiler() -> list[str]:
    ccache = shutil.which("ccache")
    return [*([ccache] if ccache else []), *shlex.split(os.environ.get("CXX", "g++"))]


def compile_environment(root: Path) -> dict[str, str]:
    """Two clones share what ccache knows."""
    return {**os.environ, "CCACHE_BASEDIR": str(root), "CCACHE_NOHASHDIR": "1"}


def include_flags(root: Path) -> list[str]:
    generated = sorted({str(p) for p in (root / "build").glob("src/*/generated")})
    own = [f"-I{root}", f"-I{root / 'include'}", *(f"-I{folder}" for folder in generated)]
    packages = [folder for name in PACKAGES for folder in sorted(root.glob(f"{SITE}/{name}"))]
    return own + [f"-isystem{folder}" for folder in (sysconfig.get_path("include"), *packages)]


def dependencies(record: Path) -> list[Path]:
    """The headers named in a make-style dependency file."""
    text = record.read_text().replace("\\\n", " ")
    return [Path(name) for name in text.split(":", 1)[-1].split()]


def is_current(record: Path, root: Path) -> bool:
    if not record.exists():
        return False
    age = record.stat().st_mtime
    named = [root / path for path in dependencies(record)]
    return all(p.exists() and p.stat().st_mtime <= age for p in named)


def is_left_to_the_build(header: str, root: Path) -> bool:
    source = (root / header).with_suffix(".cc")
    first = INCLUDE.search(source.read_text()) if source.exists() else None
    return first is not None and first[1] == header


def check_header(header: str, root: Path, records: Path) -> Finding | None:
    record = records / (header.replace("/", "__") + ".d")
    if is_current(record, root):
        return None
    record.unlink(missing_ok=True)
    draft = record.with_suffix(".draft")
    source = record.with_suffix(".cc")
    source.write_text(f'#include "{header}"\n')
    command = [*compiler(), *FLAGS, *DEFINES, *include_flags(root), "-MMD", "-MF", str(draft)]
    command += ["-o", str(record.with_suffix(".o")), str(source)]
    environment = compile_environment(root)
    result = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    if result.returncode == 0:
        draft.touch()
        draft.rename(record)
        return None
    draft.unlink(missing_ok=True)
    errors = [line for line in result.stderr.splitlines() if "error:" in line]
    first = errors[0] if errors else result.stderr.strip()
    return Finding(header, 1, f"does not compile alone: {first}")


def check(root: Path = ROOT, records: Path | None = None) -> list[Finding]:
    records = records or root / "build" / "headers"
    records.mkdir(parents=True, exist_ok=True)
    headers = [p for p in files(root) if p.endswith(".h") and not p.endswith(PRIVATE_SUFFIXES)]
    headers = [p for p in headers if not is_left_to_the_build(p, root)]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        results = list(pool.map(lambda h: check_header(h, root, records), headers))
    return [finding for finding in results if finding]


if __name__ == "__main__":
    sys.exit(report("headers", check()))
