"""The command `bps config`."""

from __future__ import annotations

from collections.abc import Sequence

from byteps.cli import build_flags
from byteps.cli.arguments import Parser
from byteps.common.errors import InvalidArgumentError

_HELP = "Print what a compiler needs for programs in C and C++: bps config --includes --libs."


def main(words: Sequence[str]) -> int:
    """Print the flags; return the exit code."""
    parser = Parser("bps config", "", _HELP)
    parser.flag("--includes", text="Flag for the headers.")
    parser.flag("--libs", text="Flags for the library.")
    parser.flag("--cmakedir", text="Folder for CMake: -Dbyteps_DIR=...")
    parser.flag("--pkgconfigdir", text="Folder for PKG_CONFIG_PATH.")
    said = parser.read(words)
    chosen = {
        build_flags.includes: said.includes,
        build_flags.libs: said.libs,
        build_flags.cmake_folder: said.cmakedir,
        build_flags.pkg_config_folder: said.pkgconfigdir,
    }
    values = [value() for value, wanted in chosen.items() if wanted]
    if not values:
        raise InvalidArgumentError(
            "Say what to print: --includes, --libs, --cmakedir or --pkgconfigdir."
        )
    print(" ".join(values))
    return 0
