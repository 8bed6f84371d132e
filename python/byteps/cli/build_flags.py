"""`bps config`: where a C or C++ program finds the headers and the library of this package."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


def includes() -> str:
    """Return the flag of a compiler that finds the headers."""
    return f"-I{_PACKAGE / 'include'}"


def libs() -> str:
    """Return the flags that link the library, and let the program find it when it starts."""
    return f"-L{_PACKAGE} -Wl,-rpath,{_PACKAGE} -lbyteps"


def cmake_folder() -> str:
    """Return the folder of what find_package(byteps) reads."""
    return str(_PACKAGE / "share/cmake/byteps")


def pkg_config_folder() -> str:
    """Return the folder of byteps.pc."""
    return str(_PACKAGE / "share/pkgconfig")
