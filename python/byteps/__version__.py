"""The version of the installed package."""

from importlib import metadata

try:
    __version__: str = metadata.version("byteps-cpp")
except metadata.PackageNotFoundError:  # imported from the source folder
    __version__ = "0+source"

VERSION: tuple[int, ...] = tuple(
    int(part) for part in __version__.split("+")[0].split(".") if part.isdigit()
)
